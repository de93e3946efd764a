"""The KV cache: keys and values written in place, so that a step moves its own tokens and never the whole context."""

from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

SMALLEST = 256  # tokens in the first buffers
GROWTH = 1.5  # times the tokens needed: each token is copied at most twice more on average, whatever the drafts
MULTIPLE = 64


class KVCache(DynamicCache):
    """A DynamicCache of one row whose layers are views of buffers with room to spare. Not thread-safe.

    All layers share two buffers, shape (layers, 1, heads, capacity, head_dim), so that rolling back is one operation
    for all of them. A layer's view holds its heads at a distance of `capacity` rows; within a head it is contiguous.
    """

    def __init__(self, num_layers):
        super().__init__()
        self._buffers = Buffers(num_layers)
        self.layers = [BufferedLayer(self._buffers, index) for index in range(num_layers)]
        self.layer_class_to_replicate = None

    @property
    def capacity(self):
        """Number of tokens that fit before the buffers grow."""
        return self._buffers.capacity

    def move(self, index, start):
        """Copy the tokens at `index` (long tensor of shape (m,), on the cache's device) to `start` and after it."""
        for buffer in (self._buffers.keys, self._buffers.values):
            buffer.narrow(-2, start, len(index)).copy_(buffer.index_select(-2, index))

    def truncate(self, length):
        """Forget all but the first `length` tokens."""
        for layer in self.layers:
            layer.length = length


class BufferedLayer(DynamicLayer):
    """One layer of a KVCache: a length, and views of the shared buffers up to it, made when they are asked for.

    What transformers does to a layer by assigning to `keys` and `values` (beams, offloading) raises AttributeError.
    Raises ValueError, at its first tokens, where its keys or values do not fit beside those of the first layer.
    """

    def __init__(self, buffers, index):  # super's would assign to keys and values
        self._buffers, self._index = buffers, index
        self.reset()

    @property
    def keys(self):
        """The keys so far, shape (1, heads, length, head_dim); None before the first."""
        return self._buffers.rows[self._index][0].narrow(-2, 0, self.length) if self.is_initialized else None

    @property
    def values(self):
        """The values so far, shaped like the keys but for head_dim."""
        return self._buffers.rows[self._index][1].narrow(-2, 0, self.length) if self.is_initialized else None

    def lazy_initialization(self, key_states, value_states):
        """Called with a layer's first tokens: see that they fit into the buffers."""
        self.dtype, self.device = key_states.dtype, key_states.device
        self._buffers.admit(self._index, key_states, value_states)
        self.is_initialized = True

    def update(self, key_states, value_states, *args, **kwargs):
        """Append tokens, shape (1, heads, m, head_dim); return views of all keys and values."""
        start, new = self.length, key_states.shape[-2]
        self._buffers.reserve(start + new)
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        keys, values = self._buffers.rows[self._index]
        keys.narrow(-2, start, new).copy_(key_states)
        values.narrow(-2, start, new).copy_(value_states)
        self.length = start + new
        return self.keys, self.values

    def get_seq_length(self):
        """Number of tokens."""
        return self.length

    def crop(self, tokens_to_remove):
        """Remove the last tokens; as in transformers their number is given as a negative one, and 0 removes none."""
        if tokens_to_remove > 0:
            raise ValueError(f"crop takes the number of tokens to remove as a negative number, not {tokens_to_remove}")
        self.length = max(self.length + tokens_to_remove, 0)

    def reset(self):
        """Forget all tokens; the buffers stay for the next ones."""
        self.length = 0
        self.is_initialized = False


class Buffers:
    """The keys and values of all layers, each one tensor of shape (layers, 1, heads, capacity, head_dim)."""

    def __init__(self, num_layers):
        self.num_layers = num_layers
        self.capacity = 0
        self.keys = self.values = None
        self.rows = ()  # (keys, values) of each layer, shape (1, heads, capacity, head_dim)

    def admit(self, index, key_states, value_states):
        """Allocate for the first layer; of the others, ValueError unless they are shaped and placed like it."""
        if key_states.shape[0] != 1:
            raise ValueError(f"the KV cache holds one row, not {key_states.shape[0]}: decode one request at a time")
        if self.keys is None:
            self.keys, self.values = self._allocate(key_states), self._allocate(value_states)
            self.rows = list(zip(self.keys, self.values, strict=True))
        for buffer, states in ((self.keys, key_states), (self.values, value_states)):
            ours, theirs = _kind(buffer), _kind(states)
            if ours != theirs:
                raise ValueError(
                    f"layer {index} has other keys or values than the first layer ({theirs} beside {ours}): "
                    f"samlib needs them alike, and the model on one device"
                )

    def reserve(self, length):
        """Make room for `length` tokens; grows by a factor, and keeps what is there."""
        if length <= self.capacity:
            return
        self.capacity = max(SMALLEST, -(-int(GROWTH * length) // MULTIPLE) * MULTIPLE)
        if self.keys is not None:
            self.keys, self.values = self._grown(self.keys), self._grown(self.values)
            self.rows = list(zip(self.keys, self.values, strict=True))

    def _allocate(self, states):
        heads, head_dim = states.shape[1], states.shape[3]
        return states.new_empty((self.num_layers, 1, heads, self.capacity, head_dim))

    def _grown(self, buffer):
        larger = self._allocate(buffer[0])
        larger.narrow(-2, 0, buffer.shape[-2]).copy_(buffer)
        return larger


def _kind(tensor):
    """What keys or values of two layers must share: heads, head_dim, dtype, device."""
    return (tensor.shape[-3], tensor.shape[-1], tensor.dtype, tensor.device)
