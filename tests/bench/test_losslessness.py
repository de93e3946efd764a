"""The verdict on a difference, on a model whose logits are chosen."""

import types

import pytest
import torch

from samlib.bench.losslessness import ROUNDING_FACTOR, Comparison, compare, first_difference, rounding_error
from tests.decoding.models import random_model, random_prompt


class ChosenLogits:
    """A stand-in for a model: the logits of the next token after any prompt, and the ids of its forwards.

    `on_cache`: what it says in a pass on a KV cache instead, as if it rounded differently there.
    """

    device = torch.device("cpu")

    def __init__(self, logits, dtype=torch.float32, on_cache=None):
        self.dtype, self.forwards = dtype, []
        self.logits = torch.tensor(logits, dtype=dtype)
        self.on_cache = self.logits if on_cache is None else torch.tensor(on_cache, dtype=dtype)

    def __call__(self, ids, logits_to_keep, cache=None, use_cache=False):
        self.forwards.append(ids[0].tolist())
        return types.SimpleNamespace(logits=(self.logits if cache is None else self.on_cache)[None, None])


def test_equal_ids_cost_no_forward():
    model = ChosenLogits([0.0])
    assert compare(model, [1], [5, 6], [5, 6]) == Comparison("identical")
    assert model.forwards == []


def test_a_near_tie_carries_its_position_and_gap():
    model = ChosenLogits([2.0, 1.9995, 0.0])
    found = compare(model, [7, 7], [2, 2, 0, 1], [2, 2, 1, 1])
    assert (found.kind, found.position) == ("near_tie", 2)
    assert found.gap == pytest.approx(5e-4, rel=0.01)
    assert model.forwards == [[7, 7, 2, 2]]
    assert found.dtype == "float32" and found.rounding is None


def test_a_gap_of_a_thousandth_is_a_difference():
    found = compare(ChosenLogits([1.0, 0.998, 0.0]), [7], [0], [1])
    assert found.kind == "different"
    assert found.gap == pytest.approx(2e-3, rel=0.01)


def test_a_wrong_token_does_not_pass_because_two_others_tie():
    assert compare(ChosenLogits([1.0, 1.0, -3.0]), [7], [0], [2]).kind == "different"


@pytest.mark.parametrize(("reference", "ids"), [([1, 2, 3], [1, 2]), ([1, 2], [1, 2, 3]), ([], [1]), ([1], [])])
def test_an_output_that_ends_earlier_or_later_is_different(reference, ids):
    model = ChosenLogits([0.0] * 5)
    assert compare(model, [7], reference, ids) == Comparison("different", min(len(reference), len(ids)))


def test_first_difference():
    assert first_difference([1, 2], (1, 2)) is None
    assert first_difference([1, 2], [1, 3]) == 1
    assert first_difference([1, 2], [1]) == 1


def test_half_precision_holds_the_gap_against_the_rounding_that_was_measured():
    """One logit moves by 0.25 between the passes: a gap of 8 times that passes, the next larger one does not."""
    logits = [10.0, 8.0, 7.9375, 0.0]
    moved = [10.0, 8.25, 7.9375, 0.0]
    model = ChosenLogits(logits, torch.bfloat16, on_cache=moved)
    found = compare(model, [7, 7], [2, 0], [2, 1])
    assert found == Comparison("rounding", 1, 2.0, rounding=0.25, dtype="bfloat16")
    assert model.forwards == [[7, 7, 2], [7, 7], [2]]
    assert compare(model, [7, 7], [2, 0], [2, 2]) == Comparison("different", 1, 2.0625, 0.25, "bfloat16")


@pytest.mark.parametrize(("dtype", "eps"), [(torch.bfloat16, 2**-7), (torch.float16, 2**-10)])
def test_passes_that_agree_bit_for_bit_still_round_to_the_dtypes_step(dtype, eps):
    close = 16.0 - ROUNDING_FACTOR * 16 * eps
    model = ChosenLogits([16.0, close, close - 32 * eps], dtype)
    assert compare(model, [7, 7], [0], [1]).kind == "rounding"
    assert compare(model, [7, 7], [0], [1]).rounding == 16 * eps
    assert compare(model, [7, 7], [0], [2]).kind == "different"
    assert compare(model, [7], [0], [1]).kind == "rounding"  # one token in all: there is no cache to compare with


def test_half_precision_excuses_neither_an_earlier_end_nor_a_logit_that_is_not_finite():
    model = ChosenLogits([float("inf"), 1.0, 0.0], torch.float16)
    assert compare(model, [7, 7], [0], [1]) == Comparison("different", 0, None, None, "float16")
    assert compare(model, [7, 7], [0, 1], [0]) == Comparison("different", 1, dtype="float16")


def test_float64_is_held_to_the_strict_rule():
    assert compare(ChosenLogits([1.0, 0.998], torch.float64), [7, 7], [0], [1]).kind == "different"


def test_the_rounding_error_of_a_real_model_is_measured_on_a_cache_of_the_same_tokens():
    model, ids = random_model(), random_prompt(0, 12)
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, -1]
    assert rounding_error(model, ids, logits) < 1e-4
    assert rounding_error(model, ids, logits + torch.eye(len(logits))[3]) == pytest.approx(1.0, abs=1e-4)
