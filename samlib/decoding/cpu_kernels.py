"""A model's forward over few tokens on the CPU, by compiled kernels instead of plain PyTorch.

Plain PyTorch packs a float32 weight anew whenever a layer sees more than one token, so that verifying two tokens costs
far more than one; and for a single one it reads memory at half the speed that it has. The kernels (kernels.h) read
every weight once, where it lies, for all tokens. They take over the linear layers of any model, and whole decoder
layers of Llama's kind, where the small operations between the products would cost as much again as these.

Nothing is taken on trust: a decoder layer is taken over only if it gives the same numbers both ways, and each width
goes the way that was faster when timed.
"""

import ctypes
import statistics
import time
import warnings
import weakref

import torch

from samlib.decoding import kernels
from samlib.decoding.fast_layers import FastDecoderLayer, FastLinear, is_llama_layer, is_plain_linear

# Widths (tokens in a forward) fall into classes: up to each of these limits, and above. One probe decides for a class.
LIMITS = (1, 8, 64)
PROBES = (1, 6, 40, 200)
REPEATS = 5
GAIN = 1.05  # the kernels are taken where they are faster by this factor
SAMPLE = 4  # decoder layers that are timed
TOLERANCE = 1e-4  # difference of the two ways, in terms of a layer's largest output


class CpuKernels:
    """A context in which a float32 model on the CPU runs on samlib's kernels; left, all is as it was.

    So does, meanwhile, what a drafter of that model runs besides (EAGLE's head), from its first request on.

    Made once per model, in a second or two; no weight is copied. Entered as often as wanted, but not while it is open;
    the model must be used by one thread at a time meanwhile. With gradients, in training mode and for several rows at
    once the layers run plain. Results differ from plain ones by rounding only (logits within about 1e-4). Where the
    kernels are missing (a compiler without vector types) or gain nothing, one warning is given and nothing is changed.
    """

    def __init__(self, model):
        self._model, self._layers = weakref.ref(model), []
        self._guests, self._is_open = weakref.WeakSet(), False
        if not kernels.AVAILABLE:
            warnings.warn("samlib was compiled without its CPU kernels: running plain layers", stacklevel=2)
            return
        use_torch_threads()
        self._layers = _fast_layers(model)
        if not self._layers and any(map(is_plain_linear, model.modules())):
            warnings.warn("the CPU kernels gain nothing for this model here: running plain layers", stacklevel=2)

    @property
    def num_layers(self):
        """Number of linear layers that have a compiled path, those inside decoder layers included."""
        return sum(layer.num_linears for layer in self._layers)

    def serve(self, module):
        """Take over the layers of one more module, now and whenever the context is open; once is enough."""
        if module in self._guests or not kernels.AVAILABLE:
            return
        self._guests.add(module)
        layers = _fast_layers(module)
        self._layers += layers
        if self._is_open:
            _take_over(layers)

    def __enter__(self):
        _take_over(self._layers)
        self._is_open = True
        _OPEN[self._model()] = self
        return self

    def __exit__(self, *exception):
        for layer in self._layers:
            del layer.module.forward  # the class's own shows again
        self._is_open = False
        _OPEN.pop(self._model(), None)


_OPEN = weakref.WeakKeyDictionary()  # {model: the CpuKernels that are open for it}


def has_open_kernels(model):
    """Does the model run on its CpuKernels just now?"""
    return model in _OPEN


def serve_drafter(model, drafter):
    """Let what a drafter runs itself run on the CpuKernels that are open for its model, if any are."""
    if model in _OPEN:
        for module in drafter.modules:
            _OPEN[model].serve(module)


def _take_over(layers):
    for layer in layers:
        layer.refresh()
        layer.module.forward = layer.forward


@torch.inference_mode()
def _fast_layers(model):
    """Those that pay, of whole decoder layers and then of linear layers outside of these."""
    layers = _decoder_layers(model)
    inside = {id(module) for layer in layers for module in layer.module.modules()}
    return layers + _linears(module for module in model.modules() if id(module) not in inside)


def use_torch_threads():
    """Let the kernels work on torch's own OpenMP threads; where its runtime is another, they run on one thread."""
    names = ("GOMP_parallel", "GOMP_barrier", "omp_get_thread_num", "omp_get_num_threads")
    try:
        process = ctypes.CDLL(None)  # what torch has loaded for all to see
        addresses = [ctypes.cast(getattr(process, name), ctypes.c_void_p).value for name in names]
    except (AttributeError, OSError, TypeError):
        return
    kernels.use_openmp(*addresses)


def _decoder_layers(model):
    """FastDecoderLayers of the model's layers that agree with them, if they pay at some width."""
    rooms = kernels.Room(), kernels.Room()
    layers = [FastDecoderLayer(module, rooms) for module in model.modules() if is_llama_layer(module)]
    layers = [layer for layer in layers if _agrees(layer)]
    return _paying(layers, layers[:: max(1, len(layers) // SAMPLE)], _layer_input)


def _linears(modules):
    """FastLinears of the linear layers for whose shape they pay at some width."""
    by_shape = {}
    for module in filter(is_plain_linear, modules):
        by_shape.setdefault((*module.weight.shape, module.bias is None), []).append(FastLinear(module))
    return [layer for layers in by_shape.values() for layer in _paying(layers, layers[:SAMPLE], _linear_input)]


# ---- the same numbers, and faster? ----


def _agrees(layer):
    """True if both ways give the same numbers: for a prompt, and for a tree behind it."""
    prompt, tree = _layer_input(layer, 5), _layer_input(layer, 3)
    tree["attention_mask"] = torch.zeros(1, 1, 3, 8)
    tree["attention_mask"][0, 0, [0, 0, 1], [6, 7, 7]] = torch.finfo(torch.float32).min
    try:
        plain = _outputs(layer.plain, prompt, tree)
    except (TypeError, ValueError, RuntimeError, AttributeError):
        return False  # it takes other arguments than Llama's layers do
    return all(map(_are_close, plain, _outputs(layer.forward, prompt, tree)))


def _outputs(forward, *inputs):
    """What the layer makes of the inputs one after the other, behind each other in one cache."""
    from transformers import DynamicCache

    cache = DynamicCache()
    return [forward(**arguments, cache=cache) for arguments in inputs]


def _are_close(plain, fast):
    if not isinstance(plain, torch.Tensor) or plain.shape != fast.shape:
        return False
    return float((plain - fast).abs().max()) <= TOLERANCE * float(plain.abs().max())


def _paying(layers, sample, make_input):
    """The layers, told at which widths they pay by what is seen of the sample; none where they never do."""
    if not layers:
        return []
    faster = [_gain(sample, make_input, probe) > GAIN for probe in PROBES]
    for layer in layers:
        layer.pays = lambda tokens: faster[_class_of(tokens)]
    return layers if any(faster) else []


def _class_of(tokens):
    return next((index for index, limit in enumerate(LIMITS) if tokens <= limit), len(LIMITS))


def _gain(layers, make_input, tokens):
    """Plain time over the kernels', interleaved medians over all the layers."""
    inputs = [make_input(layer, tokens) for layer in layers]
    plain, fast = [], []
    for _ in range(REPEATS):
        plain.append(_seconds([layer.plain for layer in layers], inputs))
        fast.append(_seconds([layer.forward for layer in layers], inputs))
    return statistics.median(plain) / statistics.median(fast)


def _seconds(forwards, inputs):
    start = time.perf_counter()
    for forward, arguments in zip(forwards, inputs, strict=True):
        forward(**arguments)
    return time.perf_counter() - start


def _linear_input(layer, tokens):
    return {"x": torch.randn(1, tokens, layer.module.in_features)}


def _layer_input(layer, tokens):
    """Random hidden states, without a mask, at random positions."""
    attention = layer.module.self_attn
    generator = torch.Generator().manual_seed(tokens)
    angles = 6 * torch.rand((1, tokens, attention.head_dim // 2), generator=generator).repeat(1, 1, 2)
    hidden = torch.randn((1, tokens, attention.q_proj.in_features), generator=generator)
    return {"hidden_states": hidden, "attention_mask": None, "position_embeddings": (angles.cos(), angles.sin())}
