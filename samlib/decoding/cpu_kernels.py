"""Linear layers whose weights are packed once for the CPU, instead of at every call.

Plain PyTorch re-packs a float32 weight whenever a layer sees more than one token, so that verifying two tokens costs
far more than one. oneDNN can pack it once. The operators are private to torch: they are probed, and where they are
missing or wrong the model simply stays as it is.
"""

import statistics
import time
import warnings
from dataclasses import dataclass
from functools import partial

import torch
from torch.nn.functional import linear

# Tokens in a forward: up to each of these one choice is made, plain or packed, by timing the probe width.
WIDTHS = (1, 4, 16, 64)
PROBES = (1, 3, 8, 40)
REPEATS = 7
GAIN = 1.05  # a packed path is taken where it is faster by this factor
BLOCKED_FOR = 8  # the width that oneDNN is told to pack for


class CpuKernels:
    """A context in which a model's float32 linear layers on the CPU run on packed weights; left, all is as it was.

    Made once per model (it takes a second or two, and as much memory again as the linear layers), entered as often as
    wanted; not reentrant, not thread-safe. Each width takes the path that was faster when it was timed at the start;
    widths above 64 (prefill) stay plain. Where nothing can be packed, one warning is given and nothing is changed.
    Results differ from plain ones by rounding only (logits within about 1e-4).
    """

    def __init__(self, model):
        self._paths = []
        layers = [module for module in model.modules() if _is_packable(module)]
        if layers and not packing_works():
            warnings.warn("packed linear layers are not available with this torch: running plain ones", stacklevel=2)
            layers = []
        choices = {}
        with torch.inference_mode():
            for layer in layers:
                packed = _pack(layer)
                shape = (*layer.weight.shape, layer.bias is None)
                if shape not in choices:
                    choices[shape] = _faster_when_packed(layer, packed)
                if any(choices[shape]):
                    self._paths.append((layer, partial(_forward, _Packed(layer, packed, choices[shape]))))

    @property
    def num_layers(self):
        """Number of layers that have a packed path."""
        return len(self._paths)

    def __enter__(self):
        for layer, forward in self._paths:
            layer.forward = forward
        return self

    def __exit__(self, *exception):
        for layer, _ in self._paths:
            del layer.forward  # the class's own shows again


@dataclass(frozen=True, slots=True, eq=False)
class _Packed:
    """A layer, its packed weight, and for each width up to the last of WIDTHS whether the packed path is faster."""

    layer: torch.nn.Linear
    weight: torch.Tensor
    faster: tuple[bool, ...]


def packing_works():
    """True if torch has the packed operators here and they agree with the plain ones."""
    layer = torch.nn.Linear(64, 96)
    x = torch.randn(1, 5, 64)
    try:
        with torch.inference_mode():
            difference = (_packed_linear(layer, _pack(layer), x) - layer(x)).abs().max()
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    return float(difference) < 1e-4


def _is_packable(module):
    if type(module) is not torch.nn.Linear or "forward" in vars(module):
        return False
    return module.weight.dtype == torch.float32 and module.weight.device.type == "cpu"


def _pack(layer):
    return torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), BLOCKED_FOR)


def _packed_linear(layer, weight, x):
    return torch.ops.mkldnn._linear_pointwise(x, weight, layer.bias, "none", [], "")


def _forward(packed, x):
    """The packed layer's forward: plain where gradients are wanted, and where the plain path is the faster one."""
    width = x.numel() // x.shape[-1]
    if width < len(packed.faster) and packed.faster[width] and not torch.is_grad_enabled():
        return _packed_linear(packed.layer, packed.weight, x)
    return linear(x, packed.layer.weight, packed.layer.bias)


def _faster_when_packed(layer, packed):
    """For each width from 0 to the last of WIDTHS: is the packed path faster, by interleaved medians at the probes?"""
    faster = [False]
    for limit, probe in zip(WIDTHS, PROBES, strict=True):
        gains = _gain(layer, packed, probe) > GAIN
        faster += [gains] * (limit + 1 - len(faster))
    return tuple(faster)


def _gain(layer, packed, width):
    x = torch.randn(1, width, layer.in_features)
    plain_seconds, packed_seconds = [], []
    for _ in range(REPEATS):
        plain_seconds.append(_seconds(lambda: linear(x, layer.weight, layer.bias)))
        packed_seconds.append(_seconds(lambda: _packed_linear(layer, packed, x)))
    return statistics.median(plain_seconds) / statistics.median(packed_seconds)


def _seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
