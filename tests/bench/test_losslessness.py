"""The verdict on a difference, on a model whose logits are chosen."""

import types

import pytest
import torch

from samlib.bench.losslessness import Comparison, compare, first_difference


class ChosenLogits:
    """A stand-in for a model: the logits of the next token after any prompt, and a count of its forwards."""

    device = torch.device("cpu")

    def __init__(self, logits):
        self.logits, self.forwards, self.last_ids = torch.tensor(logits), 0, None

    def __call__(self, ids, logits_to_keep):
        self.forwards += 1
        self.last_ids = ids[0].tolist()
        return types.SimpleNamespace(logits=self.logits[None, None])


def test_equal_ids_cost_no_forward():
    model = ChosenLogits([0.0])
    assert compare(model, [1], [5, 6], [5, 6]) == Comparison("identical")
    assert model.forwards == 0


def test_a_near_tie_carries_its_position_and_gap():
    model = ChosenLogits([2.0, 1.9995, 0.0])
    found = compare(model, [7, 7], [2, 2, 0, 1], [2, 2, 1, 1])
    assert (found.kind, found.position) == ("near_tie", 2)
    assert found.gap == pytest.approx(5e-4, rel=0.01)
    assert model.last_ids == [7, 7, 2, 2]


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
