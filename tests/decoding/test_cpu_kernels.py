"""Packed linear layers: the same numbers within rounding, the same tokens, and nothing left behind."""

import copy

import pytest
import torch

import samlib
from samlib.decoding import CpuKernels, cpu_kernels
from samlib.drafters import METHODS

from .models import random_model

PROMPT = [1, 5, 9, 5, 9, 5, 9]

needs_operators = pytest.mark.skipif(
    not cpu_kernels.packing_works(), reason="torch has no packed linear operators here"
)


@pytest.fixture
def always_packed(monkeypatch):
    """Take the packed path at every width it can have, however slow it is for tiny layers."""
    monkeypatch.setattr(cpu_kernels, "_gain", lambda layer, weight, width: 100.0)


@pytest.fixture
def model():
    return random_model()


@needs_operators
@pytest.mark.parametrize("width", [1, 2, 16, 64, 65, 100])
def test_logits_agree_within_rounding(always_packed, model, width):
    ids = torch.arange(width)[None] % model.config.vocab_size
    with torch.no_grad():
        plain = model(ids).logits
        with CpuKernels(model) as layers:
            assert layers.num_layers > 0
            torch.testing.assert_close(model(ids).logits, plain, atol=1e-4, rtol=1e-4)


@needs_operators
@pytest.mark.parametrize("method", METHODS)
def test_tokens_are_those_of_plain_greedy(always_packed, model, method):
    expected = model.generate(torch.tensor([PROMPT]), max_new_tokens=40, do_sample=False)[0, len(PROMPT) :].tolist()
    with CpuKernels(model):
        assert samlib.generate(model, PROMPT, method=method, max_new_tokens=40).tokens == expected


@needs_operators
def test_the_packed_path_is_really_taken(always_packed, model, monkeypatch):
    calls = []
    original = cpu_kernels._packed_linear
    monkeypatch.setattr(cpu_kernels, "_packed_linear", lambda *args: calls.append(1) or original(*args))
    with CpuKernels(model), torch.no_grad():
        model(torch.tensor([[1, 2, 3]]))
    assert calls


@needs_operators
def test_leaving_restores_the_model_exactly(always_packed, model):
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(KeyError), CpuKernels(model):
        raise KeyError
    assert not any("forward" in vars(module) for module in model.modules())
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])


@needs_operators
def test_gradients_still_flow(always_packed, model):
    with CpuKernels(model):
        model(torch.tensor([[1, 2, 3]])).logits.sum().backward()
    assert model.lm_head.weight.grad is not None


def test_without_the_operators_one_warning_and_a_plain_model(model, monkeypatch):
    monkeypatch.setattr(cpu_kernels, "packing_works", lambda: False)
    with pytest.warns(UserWarning, match="not available"), CpuKernels(model) as layers:
        assert layers.num_layers == 0
        assert not any("forward" in vars(module) for module in model.modules())


def test_half_precision_stays_plain(model):
    assert CpuKernels(model.to(torch.bfloat16)).num_layers == 0
