"""Verification forwards of fixed shapes, which a GPU replays from captured CUDA graphs. Experimental.

A small draft's forward can be over before the CPU has launched all its kernels. A CUDA graph launches them at once, but
replays one exact computation: the same shapes and the same addresses. So a forward is padded to one of a few widths,
its inputs are written into fixed buffers, and attention runs over the whole length of a KV cache that never moves, with
all that a row may not see hidden by the mask. On the CPU the same forward is called without a graph, so that its
output can be compared with greedy decoding anywhere.
"""

import inspect

import numpy as np
import torch
from transformers.cache_utils import Cache, StaticLayer

from samlib.automaton import Draft
from samlib.decoding.cache import KVCache
from samlib.decoding.inputs import Staged, ancestry
from samlib.decoding.support import check_supported
from samlib.decoding.target import TargetModel, served_by
from samlib.decoding.verification import read

WIDTHS = (1, 2, 4, 8, 16, 41, 61)
MAX_LENGTH = 2048
SPARE = 128  # places behind `max_length`, at least: a draft tree's branches need some, up to the request's last step
MULTIPLE = 64  # so that a mask's rows begin at aligned addresses
WARM_UPS = 2  # forwards before a capture: libraries choose and load their kernels in the first


class CapturedForwards:
    """A context in which samlib verifies with a model's captured forwards; left, all is as it was. Experimental.

        captured = CapturedForwards(model, max_length=1024)
        with captured:
            samlib.generate(model, ids, method="sam")

    Off by default, until it has proved itself on GPUs. Made once per model (seconds, and memory for the KV cache and
    the graphs), entered as often as wanted; not reentrant, not thread-safe, one request at a time.

    max_length: prompt and new tokens of a request at most; by default the model's positions, 2048 at most. Attention
    costs as much as at that length, so keep it close to what is needed. widths: inputs (root and draft) of a captured
    forward; one between two widths is padded, one beyond the largest runs unpadded and uncaptured. Prefills run as
    usual. Results differ from plain ones by rounding only.

    Raises ValueError for a model, width or length that it cannot serve, RuntimeError where torch has no CUDA graphs or
    the model's forward cannot be captured in one. Within it a request that does not fit into `max_length` is a
    ValueError before any work; one that goes on after another has begun, a RuntimeError; and a draft of more than 128
    tokens and than the largest width, where it finds no place behind the last tokens, a ValueError.
    """

    def __init__(self, model, *, max_length=None, widths=WIDTHS):
        num_layers = check_supported(model)
        if "cache" not in inspect.signature(model.forward).parameters:
            raise ValueError(f"{type(model).__name__} takes no `cache`: decode without CapturedForwards")
        self.model = model
        self.max_length = _checked_length(model, max_length)
        self.widths = _checked_widths(widths)
        self.is_captured = _uses_graphs(model.device)
        capacity = -(-(self.max_length + max(self.widths[-1], SPARE)) // MULTIPLE) * MULTIPLE
        with torch.inference_mode():
            self.cache = FixedCache(num_layers, capacity)
            self.owner = None  # the target whose request is in the cache
            CapturedTarget(self).prefill(np.zeros(1, dtype=np.int32))  # the first tokens allocate the cache
            self._forward = StaticForward(model, self.cache.pinned(), self.widths[-1])
            self._graphs = self._capture_all() if self.is_captured else {}

    def __enter__(self):
        serving = served_by(self.model, lambda _: CapturedTarget(self))
        serving.__enter__()
        self._serving = serving
        return self

    def __exit__(self, *exception):
        self._serving.__exit__(*exception)

    def logits(self, root, draft, cached):
        """The logits of the root and a Draft behind `cached` tokens, shape (1 + len(draft), vocab); the caller's own.

        Their keys and values are in the cache afterwards, from place `cached` on, with those of any padding behind.
        """
        count = 1 + len(draft)
        width = next((width for width in self.widths if width >= count), count)
        given = self._forward.write(root, draft, cached, width)
        if width not in self._graphs:
            return self._forward.run(given, width)[:count]
        graph, logits = self._graphs[width]
        graph.replay()
        return logits[:count].clone()

    def _capture_all(self):
        """{width: (graph, its logits)}, the largest first: the smaller ones fit into the memory that it takes."""
        pool = torch.cuda.graph_pool_handle()
        return {width: self._capture(width, pool) for width in reversed(self.widths)}

    def _capture(self, width, pool):
        given = self._forward.write(0, Draft.empty(), 0, width)
        try:
            self._warm_up(given, width)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                logits = self._forward.run(given, width)
        except RuntimeError as error:
            name = type(self.model).__name__
            raise RuntimeError(
                f"{name} cannot be captured at width {width}: decode without CapturedForwards ({error})"
            ) from error
        return graph, logits

    def _warm_up(self, given, width):
        """Run on a side stream, as a capture demands of what it is to record."""
        device = self.model.device
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                self._forward.run(given, width)
        torch.cuda.current_stream(device).wait_stream(side)


class CapturedTarget(TargetModel):
    """A TargetModel that verifies with the forwards of a CapturedForwards, for one request. Not thread-safe."""

    def __init__(self, captured):
        super().__init__(captured.model)
        self._captured = captured
        self._cache = captured.cache
        self.max_length = captured.max_length

    def check_room(self, num_tokens):
        """Raise ValueError unless a request of `num_tokens`, prompt and new ones, fits."""
        if num_tokens > self.max_length:
            raise ValueError(
                f"prompt and new tokens come to {num_tokens}, beyond the {self.max_length} of these CapturedForwards: "
                f"make them with max_length={num_tokens} or more, or ask for fewer tokens"
            )

    def check_hidden(self):
        """Raise ValueError: these forwards give no hidden states."""
        _refuse_hidden(True)

    def prefill(self, ids, top_k=0, hidden=False):
        """As TargetModel's; the request is then the one that these CapturedForwards serve."""
        _refuse_hidden(hidden)
        self.check_room(len(ids))
        self._captured.owner = self
        verification = super().prefill(ids, top_k)
        self._cache.length = len(ids)
        return verification

    @torch.inference_mode()
    def verify(self, root, draft, top_k=0, hidden=False):
        """As TargetModel's. Raises RuntimeError if another request has begun meanwhile."""
        _refuse_hidden(hidden)
        if self._captured.owner is not self:
            raise RuntimeError(
                "another request has begun within these CapturedForwards: finish one before the next, "
                "or decode without them"
            )
        cached, count = self.num_cached, 1 + len(draft)
        if cached + count > self._cache.capacity:
            raise ValueError(
                f"a verification of {count} inputs behind {cached} tokens is more than these CapturedForwards hold: "
                f"make them with a width of {count}"
            )
        logits = self._captured.logits(root, draft, cached)
        self._cache.length = cached + count
        self.num_forwards += 1
        self._verified = count
        return read(logits, top_k)


class FixedCache(KVCache):
    """A KVCache whose buffers never move, `capacity` tokens from the start; `length` says how many are held.

    A prefill appends to it as to any KVCache. After that the layers' own views stay behind: forwards of fixed shape use
    the buffers themselves.
    """

    def __init__(self, num_layers, capacity):
        super().__init__(num_layers)
        self._buffers.capacity = capacity  # exactly: attention runs over all of it
        self.length = 0

    def get_seq_length(self, layer_idx=0):
        """Number of tokens held."""
        return self.length

    def truncate(self, length):
        """As KVCache.truncate."""
        self.length = length

    def reset(self):
        """Begin with no tokens."""
        super().reset()
        self.length = 0

    def pinned(self):
        """The same buffers as a PinnedCache; they are allocated, and cleared here.

        What a mask hides is multiplied by zero, which leaves nothing of a number but everything of a NaN.
        """
        self._buffers.keys.zero_()
        self._buffers.values.zero_()
        return PinnedCache(self._buffers.rows)


class PinnedCache(Cache):
    """The same keys and values to a forward of fixed shape: it sees all places, and writes where `slots` says.

    slots: long tensor of shape (m,), set before a forward over m inputs.
    """

    def __init__(self, rows):
        self.slots = None
        super().__init__(layers=[PinnedLayer(self, keys, values) for keys, values in rows])


class PinnedLayer(StaticLayer):
    """One layer of a PinnedCache: keys and values of shape (1, heads, capacity, head_dim)."""

    def __init__(self, cache, keys, values):
        super().__init__(max_cache_len=keys.shape[-2])
        self._cache, self.keys, self.values = cache, keys, values
        self.is_initialized = True

    def update(self, key_states, value_states, *args, **kwargs):
        """Write states of shape (1, heads, m, head_dim) to the slots; return the keys and values of all places."""
        slots = self._cache.slots
        self.keys.index_copy_(-2, slots, key_states)
        self.values.index_copy_(-2, slots, value_states)
        return self.keys, self.values

    def get_seq_length(self):
        """0: positions and mask are given to the forward, and a number read off a GPU would be waited for."""
        return 0


class StaticForward:
    """A verification forward whose shapes depend on its width alone: what a graph can record.

    One buffer takes all inputs at a width w: the number of cached tokens, w ids, w depths, and w rows of w flags, 1
    where a row's input sees a column's. Rows after the draft are padding: they see the cached tokens, which keeps their
    numbers finite, and no row sees them.
    """

    def __init__(self, model, cache, widest):
        self._model, self._cache, self._widest = model, cache, widest
        self._hidden = torch.finfo(model.dtype).min
        self._columns = torch.arange(cache.get_max_length(), device=model.device)
        self._inputs = Staged(_size(widest), torch.long, model.device)  # never replaced: graphs read it where it is

    def write(self, root, draft, cached, width):
        """Give the inputs to the device; returns them, a flat tensor, for `run`. Up to `widest` they never move."""
        inputs = self._inputs if width <= self._widest else Staged(_size(width), torch.long, self._model.device)
        given, count = inputs.array[: _size(width)], 1 + len(draft)
        seen, depths = ancestry(draft.parents)
        given[:] = 0
        given[0] = cached
        given[1 : 1 + width] = root
        given[2 : 1 + count] = draft.tokens
        given[1 + width : 1 + width + count] = depths
        given[1 + 2 * width :].reshape(width, width)[:count, :count] = seen
        return inputs.send(len(given))

    def run(self, given, width):
        """The forward over inputs as `write` gave them; returns logits of shape (width, vocab), padding's included."""
        start, ids, depths = given[:1], given[1 : 1 + width], given[1 + width : 1 + 2 * width]
        self._cache.slots = start + self._columns[:width]
        mask = self._mask(start, given[1 + 2 * width :].view(width, width))
        inputs = {"input_ids": ids[None], "position_ids": (start + depths)[None], "attention_mask": mask[None, None]}
        return self._model(**inputs, cache=self._cache, use_cache=True).logits[0]

    def _mask(self, start, sees):
        """Additive mask of shape (w, capacity): the cached tokens, and of the new ones what `sees` flags."""
        mask = torch.full((len(sees), len(self._columns)), self._hidden, dtype=self._model.dtype, device=sees.device)
        mask.masked_fill_(self._columns < start, 0)
        block = torch.zeros_like(sees, dtype=mask.dtype).masked_fill_(sees == 0, self._hidden)
        return mask.index_copy_(1, self._cache.slots, block)


def _refuse_hidden(hidden):
    if hidden:
        raise ValueError("CapturedForwards give no hidden states, which this method drafts from: decode without them")


def _size(width):
    """How many numbers the inputs of a width are."""
    return 1 + 2 * width + width * width


def _checked_length(model, max_length):
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None) or MAX_LENGTH
    length = min(positions, MAX_LENGTH) if max_length is None else max_length
    if isinstance(length, bool) or not hasattr(length, "__index__") or length < 2:
        raise ValueError(f"max_length must be a whole number of tokens, at least 2, not {max_length!r}")
    return int(length)


def _checked_widths(widths):
    widths = sorted(set(widths))
    if not widths or any(isinstance(w, bool) or not hasattr(w, "__index__") or w < 1 for w in widths):
        raise ValueError(f"widths must be whole numbers of inputs, at least 1 each, not {widths!r}")
    return tuple(map(int, widths))


def _uses_graphs(device):
    """True where forwards are to be captured; RuntimeError or ValueError where they can be neither captured nor run."""
    if device.type == "cpu":
        return False
    if device.type != "cuda":
        raise ValueError(f"CapturedForwards runs on CUDA, and uncaptured on the CPU, not on {device.type}")
    if not hasattr(torch.cuda, "CUDAGraph") or not hasattr(torch.cuda, "graph"):
        raise RuntimeError(f"torch {torch.__version__} has no CUDA graphs: decode without CapturedForwards")
    return True
