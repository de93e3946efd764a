"""The compiled kernels against plain numpy in double precision: every shape, mask and instruction set."""

import numpy as np
import pytest

from samlib.decoding import kernels
from samlib.decoding.cpu_kernels import use_torch_threads

pytestmark = pytest.mark.skipif(not kernels.AVAILABLE, reason="samlib was compiled without its CPU kernels")
EPSILON = 1e-5
MASKS = ["none", "additive", "seen"]


@pytest.fixture(params=["best", "generic"], autouse=True)
def instructions(request):
    """Every test twice: with what the processor offers, and with what every processor has."""
    use_torch_threads()
    before = kernels.use_generic(request.param == "generic")
    yield request.param
    kernels.use_generic(before)


def numbers(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def address(array):
    return 0 if array is None else array.ctypes.data


def run_linear(x, weight, bias, threads):
    """By the kernel; what lies around the result must stay as it is."""
    tokens, outputs = len(x), len(weight)
    room = np.full(tokens * outputs + 64, 7.0, dtype=np.float32)
    kernels.Linear(address(weight), address(bias), x.shape[1], outputs).run(
        address(x), room[32:].ctypes.data, tokens, threads
    )
    assert (room[:32] == 7).all() and (room[32 + tokens * outputs :] == 7).all()
    return room[32 : 32 + tokens * outputs].reshape(tokens, outputs)


def assert_near(found, expected, scale=1.0):
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5 * scale)


@pytest.mark.parametrize("tokens", [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 17, 33, 61, 64, 65, 70, 130])
@pytest.mark.parametrize(("inputs", "outputs"), [(576, 50), (16, 1), (40, 7), (1, 3), (7, 5), (31, 97), (64, 200)])
def test_a_linear_layer_of_any_shape(tokens, inputs, outputs):
    rng = np.random.default_rng(tokens * 1000 + inputs + outputs)
    x, weight, bias = numbers(rng, tokens, inputs), numbers(rng, outputs, inputs), numbers(rng, outputs)
    exact = x.astype(float) @ weight.T.astype(float)
    assert_near(run_linear(x, weight, None, 1), exact, inputs**0.5)
    assert_near(run_linear(x, weight, bias, 2), exact + bias, inputs**0.5)


@pytest.mark.parametrize("threads", [1, 2, 3, 5, 9])
def test_the_result_does_not_depend_on_the_threads(threads):
    """Not by one bit: they share the outputs, and each output is one thread's."""
    rng = np.random.default_rng(1)
    x, weight = numbers(rng, 10, 48), numbers(rng, 7, 48)
    assert (run_linear(x, weight, None, threads) == run_linear(x, weight, None, 1)).all()


def test_nothing_to_do():
    assert run_linear(np.zeros((0, 8), dtype=np.float32), np.ones((3, 8), dtype=np.float32), None, 2).shape == (0, 3)


# ---- a decoder layer ----


def rms_norm(x, weight):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + EPSILON) * weight


def rotated(x, cosines, sines):
    """x: (tokens, heads, size)."""
    half = x.shape[-1] // 2
    turned = np.concatenate([-x[..., half:], x[..., :half]], axis=-1)
    return x * cosines[:, None] + turned * sines[:, None]


def softmax(scores):
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


class Layer:
    """A random layer: `heads` query heads on `kv_heads` others; `exact` is its definition, head by head, in doubles."""

    def __init__(self, rng, *, hidden=24, heads=4, kv_heads=2, size=8, width=40, bias=False, head_norms=False):
        self.heads, self.kv_heads, self.size, self.hidden = heads, kv_heads, size, hidden
        shapes = [(heads, 0), (kv_heads, 0), (kv_heads, 0)]
        shapes = [(count * size, hidden) for count, _ in shapes] + [(hidden, heads * size)]
        shapes += [(width, hidden), (width, hidden), (hidden, width)]
        self.weights = [numbers(rng, *shape) * np.float32(shape[1] ** -0.5) for shape in shapes]
        self.biases = [numbers(rng, shape[0]) if bias else None for shape in shapes]
        self.norms = [numbers(rng, hidden), numbers(rng, hidden)]
        self.head_norms = [numbers(rng, size), numbers(rng, size)] if head_norms else [None, None]
        self.kernel = kernels.DecoderLayer(
            kernels.Room(),
            kernels.Room(),
            linears=[
                (address(weight), address(bias), weight.shape[1], len(weight))
                for weight, bias in zip(self.weights, self.biases, strict=True)
            ],
            norms=[address(norm) for norm in (*self.norms, *self.head_norms)],
            epsilon=EPSILON,
            scale=size**-0.5,
            head_size=size,
        )

    def linear(self, index, x):
        bias = self.biases[index]
        return x @ self.weights[index].T.astype(float) + (0 if bias is None else bias)

    def exact(self, x, cosines, sines, old_keys, old_values, mask):
        """The output, and the new keys and values, (tokens, kv_heads, size); mask: True where a token sees another."""
        tokens = len(x)
        normed = rms_norm(x.astype(float), self.norms[0])
        queries, keys, values = (self.linear(i, normed).reshape(tokens, -1, self.size) for i in range(3))
        if self.head_norms[0] is not None:
            queries, keys = rms_norm(queries, self.head_norms[0]), rms_norm(keys, self.head_norms[1])
        queries, keys = rotated(queries, cosines, sines), rotated(keys, cosines, sines)
        all_keys, all_values = np.concatenate([old_keys, keys]), np.concatenate([old_values, values])
        mixed = np.empty((tokens, self.heads, self.size))
        for head in range(self.heads):
            kv_head = head // (self.heads // self.kv_heads)
            scores = queries[:, head] @ all_keys[:, kv_head].T * self.size**-0.5
            mixed[:, head] = softmax(np.where(mask, scores, -np.inf)) @ all_values[:, kv_head]
        middle = x + self.linear(3, mixed.reshape(tokens, -1))
        normed = rms_norm(middle, self.norms[1])
        gate = self.linear(4, normed)
        return middle + self.linear(6, gate / (1 + np.exp(-gate)) * self.linear(5, normed)), keys, values

    def run(self, x, cosines, sines, old_keys, old_values, mask, kind, threads):
        """By the kernels, from a cache that is larger than what is in it, as a growing one is."""
        tokens, before = len(x), len(old_keys)
        keys, values = (np.empty((self.kv_heads, tokens, self.size), dtype=np.float32) for _ in range(2))
        self.kernel.project(*map(address, (x, cosines, sines)), tokens, address(keys), address(values), threads)
        cache = np.full((2, self.kv_heads, before + tokens + 3, self.size), np.nan, dtype=np.float32)
        cache[0, :, :before], cache[1, :, :before] = old_keys.swapaxes(0, 1), old_values.swapaxes(0, 1)
        cache[0, :, before : before + tokens], cache[1, :, before : before + tokens] = keys, values
        strides = (cache.shape[2] * self.size, self.size) * 2
        additive = np.where(mask, np.float32(0), np.finfo(np.float32).min) if kind == "additive" else None
        seen = np.ascontiguousarray(mask) if kind == "seen" else None
        out = np.empty_like(x)
        self.kernel.finish(
            address(cache[0]), address(cache[1]), strides, before + tokens, address(additive), address(seen),
            mask.shape[1], kind == "none", address(out), threads,
        )  # fmt: skip
        return out, keys.swapaxes(0, 1), values.swapaxes(0, 1)


def tree_mask(rng, before, tokens):
    """Every token sees what was before, itself, and a random path of earlier ones."""
    sees = np.eye(tokens, dtype=bool)
    for token in range(1, tokens):
        sees[token] |= sees[rng.integers(token)]
    return np.concatenate([np.ones((tokens, before), dtype=bool), sees], axis=1)


def causal_mask(before, tokens):
    return np.tri(tokens, before + tokens, before, dtype=bool)


def assert_layer_is_exact(rng, layer, before, tokens, kind, threads=2, scale=5):
    x = numbers(rng, tokens, layer.hidden)
    cosines, sines = numbers(rng, 2, tokens, layer.size)  # any numbers: that they are angles' is the model's affair
    old_keys, old_values = (numbers(rng, before, layer.kv_heads, layer.size) for _ in range(2))
    mask = causal_mask(before, tokens) if kind == "none" else tree_mask(rng, before, tokens)
    arguments = (x, cosines, sines, old_keys, old_values, mask)
    for found, expected in zip(layer.run(*arguments, kind, threads), layer.exact(*arguments), strict=True):
        assert np.isfinite(found).all()
        assert_near(found, expected, scale)


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize(("before", "tokens"), [(0, 1), (0, 7), (5, 1), (9, 4), (30, 13), (100, 61), (3, 90)])
def test_a_decoder_layer_behind_any_context(kind, before, tokens):
    rng = np.random.default_rng(before + tokens)
    assert_layer_is_exact(rng, Layer(rng), before, tokens, kind)


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize(
    "shape",
    [
        {"heads": 1, "kv_heads": 1},
        {"heads": 9, "kv_heads": 3, "size": 64, "hidden": 576, "width": 100},
        {"heads": 8, "kv_heads": 1, "size": 16},
        {"heads": 3, "kv_heads": 3, "size": 24, "hidden": 17, "width": 11},
        {"heads": 6, "kv_heads": 2, "bias": True},
        {"heads": 4, "kv_heads": 4, "head_norms": True},
        {"heads": 2, "kv_heads": 1, "size": 40, "bias": True, "head_norms": True},
    ],
)
def test_a_decoder_layer_of_any_shape(kind, shape):
    rng = np.random.default_rng(5)
    assert_layer_is_exact(rng, Layer(rng, **shape), 11, 6, kind)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_a_decoder_layer_on_any_number_of_threads(threads):
    rng = np.random.default_rng(6)
    assert_layer_is_exact(rng, Layer(rng), 20, 5, "additive", threads)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_token_is_rounded_alike_in_any_company(threads):
    """A chain verified in one forward gives the bits that its tokens give one by one: kernels add no near-ties."""
    rng = np.random.default_rng(9)
    layer, tokens, before = Layer(rng, width=37, bias=True), 23, 14
    x = numbers(rng, tokens, layer.hidden)
    cosines, sines = numbers(rng, 2, tokens, layer.size)  # any numbers: that they are angles' is the model's affair
    keys, values = (numbers(rng, before, layer.kv_heads, layer.size) for _ in range(2))
    together, *_ = layer.run(x, cosines, sines, keys, values, causal_mask(before, tokens), "seen", threads)
    for token in range(tokens):
        one = slice(token, token + 1)
        mask = causal_mask(len(keys), 1)
        alone, key, value = layer.run(x[one], cosines[one], sines[one], keys, values, mask, "none", 1)
        assert (alone == together[one]).all()
        keys, values = np.concatenate([keys, key]), np.concatenate([values, value])


def test_layers_share_rooms_that_grow():
    """A longer context and a wider forward after a short one: nothing of the call before may be needed, or be hurt."""
    rng = np.random.default_rng(7)
    layer = Layer(rng)
    for before, tokens in [(2, 1), (700, 3), (1, 80), (900, 40), (2, 1)]:
        assert_layer_is_exact(rng, layer, before, tokens, "seen")


def test_extreme_scores_do_not_overflow():
    rng = np.random.default_rng(8)
    layer = Layer(rng)
    layer.weights[0] *= np.float32(1000)
    layer.weights[4] *= np.float32(100)
    assert_layer_is_exact(rng, layer, 10, 5, "additive", scale=500)


@pytest.mark.parametrize("size", [12, 520, 4])
def test_a_head_size_that_the_kernels_cannot_have(size):
    with pytest.raises(ValueError, match="multiples of 8 up to 512"):
        Layer(np.random.default_rng(0), size=size)
