"""The two limits of a verification forward: its weights are read once, and multiplied once for every token.

    limit(n) = max(bytes / bandwidth, n * operations / rate)

Counted from the model: the bytes that a forward must read, and the operations that a token takes. Measured on its
device: the bandwidth of reading memory and the peak rate of multiply-adds. The assumptions:

- Every parameter is read once a forward and none stays in a cache from one forward to the next. Of an embedding table a
  forward reads a row a token, which is not counted; where the table is also the output layer (tied), it is read whole.
  So are all parameters of a mixture of experts, which makes both limits too high for one.
- The keys and values of the context are read once; activations are not counted, nor is what a cache copies.
- A token takes 2 operations (multiply, add) for each weight of a matrix, the output layer included, and in each layer
  4 * heads * head size for each token of context. Softmax, norms, and the attention of a draft's tokens to each other
  are left out.
- Memory and arithmetic overlap fully: the larger of the two times counts. A real forward overlaps less.
- The bandwidth is the best of two reads, a sum of 64-bit integers and a matrix-vector product over more memory than the
  caches hold: plain sums of floats can be slower, as can a product along the rows. The rate is the best of products of
  two square matrices that stay in the caches, in the model's dtype. Both run on all of torch's threads, and both are
  the best of all readings, since a limit is a best case. On a machine whose memory or cores others use as well, even
  the best reading may be below what the hardware can do.
"""

import time
from dataclasses import asdict, dataclass

from samlib.decoding.forward import synchronise

READ_FLOATS = {"cpu": 1 << 26, "cuda": 1 << 28}  # floats in memory that is read: 256 MB and 1 GB
MATRIX_SIDE = {"cpu": 512, "cuda": 8192}
READINGS = {"read": 2, "multiply": 5}  # of each operation, at each call of `MachineProbe.measure`


@dataclass(frozen=True)
class ForwardCounts:
    """What a forward of a model must do at least; see the module's assumptions.

    weight_bytes: of parameters, a forward. cache_bytes: of keys and values, a token of context. operations: a token, in
    the weights. attention_operations: a token, for each token of context.
    """

    weight_bytes: int
    cache_bytes: int
    operations: int
    attention_operations: int


@dataclass(frozen=True)
class ForwardLimits(ForwardCounts):
    """The counts of a model beside the machine's `bandwidth` (bytes a second) and `rate` (operations a second)."""

    bandwidth: float
    rate: float

    def memory_seconds(self, context):
        """Reading the weights and the KV cache of `context` tokens: the same for a draft of any size."""
        return (self.weight_bytes + self.cache_bytes * context) / self.bandwidth

    def compute_seconds(self, width, context):
        """The operations of `width` tokens, each of which attends to `context` tokens."""
        return width * (self.operations + self.attention_operations * context) / self.rate

    def seconds(self, width, context):
        """No forward over `width` tokens can be faster: the larger of the two."""
        return max(self.memory_seconds(context), self.compute_seconds(width, context))


def count_forward(model):
    """The ForwardCounts of a dense Hugging Face causal LM in its dtype."""
    import torch

    modules = list(model.modules())
    looked_up = {id(module.weight) for module in modules if isinstance(module, torch.nn.Embedding)}
    multiplied = {id(module.weight) for module in modules if isinstance(module, torch.nn.Linear)}
    read = [p for p in model.parameters() if id(p) in multiplied or id(p) not in looked_up]
    config = model.config.get_text_config()
    layers, heads = config.num_hidden_layers, config.num_attention_heads
    head_size = getattr(config, "head_dim", None) or config.hidden_size // heads
    key_heads = getattr(config, "num_key_value_heads", None) or heads
    return ForwardCounts(
        weight_bytes=sum(p.nbytes for p in read),
        cache_bytes=2 * layers * key_heads * head_size * model.dtype.itemsize,
        operations=2 * sum(p.numel() for p in read if p.dim() == 2),
        attention_operations=4 * layers * heads * head_size,
    )


class MachineProbe:
    """Measures what a model's device can read and multiply; the best of all readings is kept.

    bandwidth   bytes read from memory a second
    rate        operations a second, a multiply-add counted as two

    It holds 256 MB (on a GPU: 1 GB and two large matrices) while it lives. Not thread-safe.
    """

    def __init__(self, model):
        import torch

        kind = model.device.type if model.device.type in READ_FLOATS else "cpu"
        floats, side = READ_FLOATS[kind], MATRIX_SIDE[kind]
        memory = torch.ones(floats, device=model.device)
        integers, rows = memory.view(torch.int64), memory.view(1 << (floats.bit_length() // 2), -1)
        vector = torch.ones(rows.shape[1], device=model.device)
        left, right = (torch.rand(side, side, device=model.device).to(model.dtype) for _ in range(2))
        self._model = model
        self._read_bytes, self._operations = memory.nbytes, 2 * side**3
        self._reads = (integers.sum, lambda: torch.mv(rows, vector))
        self._multiply = lambda: torch.mm(left, right)
        self.bandwidth = self.rate = 0.0

    def measure(self):
        """Some more readings of both (on a CPU, a twentieth of a second)."""
        read = min(self._seconds(read) for _ in range(READINGS["read"]) for read in self._reads)
        multiply = min(self._seconds(self._multiply) for _ in range(READINGS["multiply"]))
        self.bandwidth = max(self.bandwidth, self._read_bytes / read)
        self.rate = max(self.rate, self._operations / multiply)

    def limits(self):
        """The model's ForwardLimits by the readings so far."""
        return ForwardLimits(**asdict(count_forward(self._model)), bandwidth=self.bandwidth, rate=self.rate)

    def _seconds(self, call):
        import torch

        with torch.inference_mode():
            synchronise(self._model)
            start = time.perf_counter()
            call()
            synchronise(self._model)
            return time.perf_counter() - start
