"""The CPU kernels in a model: the same numbers within rounding, the same tokens, and nothing left behind."""

import contextlib
import copy

import pytest
import torch
import transformers

import samlib
from samlib.decoding import CpuKernels, cpu_kernels, kernels
from samlib.decoding.fast_layers import is_llama_layer

from .models import FAMILIES, METHODS, assets, random_model

PROMPT = [1, 5, 9, 5, 9, 5, 9]
FUSED = ("llama", "mistral", "qwen2", "qwen3")

pytestmark = pytest.mark.skipif(not kernels.AVAILABLE, reason="samlib was compiled without its CPU kernels")


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """Take the compiled path at every width, however little it gains for tiny layers."""
    monkeypatch.setattr(cpu_kernels, "_gain", lambda *arguments: 100.0)


@pytest.fixture
def model():
    return copy.deepcopy(random_model())


def assert_close(found, expected):
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def logits_of(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits


@pytest.mark.parametrize("width", [1, 2, 16, 64, 65, 100])
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_agree_within_rounding(family, width):
    model = random_model(family)
    ids = [i % model.config.vocab_size for i in range(width)]
    plain = logits_of(model, ids)
    with CpuKernels(model):
        assert_close(logits_of(model, ids), plain)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_are_those_of_plain_greedy(family, attention):
    model = random_model(family, attention)
    expected = model.generate(torch.tensor([PROMPT]), max_new_tokens=40, do_sample=False)[0, len(PROMPT) :].tolist()
    static = {method: assets(method, model, [PROMPT]) for method in METHODS}  # made by the plain model
    with CpuKernels(model):
        for method in METHODS:
            result = samlib.generate(model, PROMPT, method=method, max_new_tokens=40, **static[method])
            assert result.tokens == expected


@pytest.mark.parametrize("family", FAMILIES)
def test_whole_layers_are_taken_over_where_they_are_of_llamas_kind(family, monkeypatch):
    model, calls = random_model(family), []
    original = cpu_kernels.FastDecoderLayer._run
    with CpuKernels(model):
        monkeypatch.setattr(cpu_kernels.FastDecoderLayer, "_run", lambda *args: calls.append(1) or original(*args))
        logits_of(model, [1, 2, 3])
    assert len(calls) == (model.config.num_hidden_layers if family in FUSED else 0)


def test_the_linear_path_is_really_taken(model, monkeypatch):
    """With every weight of the output layer's kernel replaced by another's, its logits must be that other's."""
    other = torch.nn.Linear(model.config.hidden_size, model.config.vocab_size, bias=False)
    monkeypatch.setattr(cpu_kernels, "is_llama_layer", lambda module: False)
    with CpuKernels(model), torch.no_grad():
        fast = model.lm_head.forward.__self__
        fast._kernel = kernels.Linear(other.weight.data_ptr(), 0, *other.weight.shape[::-1])
        x = torch.randn(1, 3, model.config.hidden_size)
        assert_close(model.lm_head(x), other(x))


def test_a_layer_that_looks_like_llamas_but_computes_otherwise_stays_plain():
    """Granite's layers have the same parts, and scale what they add to the stream."""
    config = transformers.GraniteConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        residual_multiplier=0.5,
        initializer_range=0.3,
    )
    model = transformers.GraniteForCausalLM(config).eval()
    assert is_llama_layer(model.model.layers[0])
    plain = logits_of(model, PROMPT)
    with CpuKernels(model):
        assert "forward" not in vars(model.model.layers[0])
        assert_close(logits_of(model, PROMPT), plain)


@pytest.mark.parametrize("put", ["hook", "forward", "adapter"])
def test_modules_that_something_was_put_upon_are_left_alone(model, put):
    """A hook, a forward of its own or another class of linear layer must go on working."""
    layer, seen = model.model.layers[0], []
    if put == "hook":
        layer.self_attn.q_proj.register_forward_hook(lambda *arguments: seen.append(1))
    elif put == "forward":
        original = layer.mlp.up_proj.forward
        layer.mlp.up_proj.forward = lambda x: seen.append(1) or original(x)
    else:

        class Adapted(torch.nn.Linear):
            def forward(self, x):
                seen.append(1)
                return super().forward(x)

        layer.mlp.down_proj.__class__ = Adapted
    plain = logits_of(model, PROMPT)
    seen.clear()
    with CpuKernels(model):
        assert_close(logits_of(model, PROMPT), plain)
    assert seen == [1]


def test_weights_that_changed_since_are_used_as_they_are_now(model):
    layers = CpuKernels(model)
    with torch.no_grad():
        model.model.layers[0].mlp.up_proj.weight = torch.nn.Parameter(model.model.layers[1].mlp.up_proj.weight * 2)
        model.lm_head.weight.mul_(3)
    plain = logits_of(model, PROMPT)
    with layers:
        assert_close(logits_of(model, PROMPT), plain)


def test_leaving_restores_the_model_exactly(model):
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(KeyError), CpuKernels(model):
        raise KeyError
    assert not any("forward" in vars(module) for module in model.modules())
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_gradients_still_flow(model):
    with CpuKernels(model):
        model(torch.tensor([[1, 2, 3]])).logits.sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_several_rows_and_training_run_plain(model):
    ids = torch.tensor([[1, 2, 3], [4, 5, 6]])
    with torch.no_grad():
        plain = model(ids).logits
        with CpuKernels(model):
            assert_close(model(ids).logits, plain)
            model.train()
            assert_close(model(ids).logits, plain)


def test_plain_generate_with_its_own_cache_and_mask(model):
    """The kernels know no cache and no loop of samlib's: transformers' own `generate` runs on them as well."""
    ids = torch.tensor([PROMPT])
    plain = model.generate(ids, max_new_tokens=30, do_sample=False)
    with CpuKernels(model):
        assert torch.equal(model.generate(ids, max_new_tokens=30, do_sample=False), plain)
        static = model.generate(ids, max_new_tokens=30, do_sample=False, cache_implementation="static")
    assert torch.equal(static, plain)


def test_a_mask_that_does_not_fit_the_cache_is_refused(model):
    from transformers import DynamicCache

    with CpuKernels(model), torch.no_grad():
        layer = model.model.layers[0]
        cos = torch.ones(1, 2, 8)
        with pytest.raises(ValueError, match="3 columns does not fit a KV cache of 2 tokens"):
            layer(
                torch.randn(1, 2, 32),
                attention_mask=torch.zeros(1, 1, 2, 3),
                cache=DynamicCache(),
                position_embeddings=(cos, cos),
            )


@pytest.mark.parametrize(
    "returned",
    [
        torch.zeros(1, 2, 1, 8),  # fewer than were added
        torch.zeros(1, 4, 2, 8),
        torch.zeros(1, 2, 2, 16),
        torch.zeros(2, 2, 2, 8),
        torch.zeros(1, 2, 2, 8, dtype=torch.bfloat16),
        torch.zeros(1, 2, 8, 2).mT,
    ],
)
def test_a_cache_that_returns_something_else_is_refused(model, returned):
    class Cache:
        def update(self, keys, values, layer):
            return returned, returned

    cos = torch.ones(1, 2, 8)
    with CpuKernels(model), torch.no_grad(), pytest.raises(ValueError, match="leave CpuKernels out here"):
        model.model.layers[0](torch.randn(1, 2, 32), cache=Cache(), position_embeddings=(cos, cos))


@pytest.mark.parametrize("shape", [(1, 2, 4), (1, 3, 8), (2, 2, 8)])
def test_angles_of_another_shape_are_not_read_by_address(model, monkeypatch, shape):
    """Some models turn only a part of each head; whatever comes, the layer's own code is to deal with it."""
    calls = []
    with CpuKernels(model), torch.no_grad():
        monkeypatch.setattr(cpu_kernels.FastDecoderLayer, "_run", lambda *arguments: calls.append(1))
        with contextlib.suppress(RuntimeError):
            model.model.layers[0](torch.randn(1, 2, 32), position_embeddings=(torch.ones(shape), torch.ones(shape)))
    assert not calls


def test_each_width_takes_the_faster_path(model, monkeypatch):
    """Kernels that pay from 9 to 64 tokens only: other forwards run plain."""
    monkeypatch.setattr(cpu_kernels, "_gain", lambda layers, make_input, tokens: 2.0 if tokens == 40 else 0.9)
    calls = []
    original = cpu_kernels.FastDecoderLayer._run
    with CpuKernels(model):
        monkeypatch.setattr(
            cpu_kernels.FastDecoderLayer,
            "_run",
            lambda self, x, *rest: calls.append(x.shape[1]) or original(self, x, *rest),
        )
        for width in (1, 8, 9, 64, 65):
            logits_of(model, [1] * width)
    assert calls == [9, 9, 64, 64]


def test_without_kernels_one_warning_and_a_plain_model(model, monkeypatch):
    monkeypatch.setattr(kernels, "AVAILABLE", False)
    with pytest.warns(UserWarning, match="without its CPU kernels"), CpuKernels(model) as layers:
        assert layers.num_layers == 0
        assert not any("forward" in vars(module) for module in model.modules())


def test_kernels_that_gain_nothing_say_so(model, monkeypatch):
    monkeypatch.setattr(cpu_kernels, "_gain", lambda *arguments: 1.0)
    with pytest.warns(UserWarning, match="gain nothing"):
        assert CpuKernels(model).num_layers == 0


def test_half_precision_stays_plain_and_says_nothing(model, recwarn):
    assert CpuKernels(model.to(torch.bfloat16)).num_layers == 0
    assert not [warning for warning in recwarn if "kernels" in str(warning.message)]
