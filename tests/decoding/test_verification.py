"""Reading a forward's logits: torch's argmax and topk are the oracle, equal values included."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from samlib.decoding.ranking import rank
from samlib.decoding.verification import read


def expected(row, k):
    """Indices of the k largest by a stable sort: the first of equals first."""
    return np.argsort(-row.astype(np.float64), kind="stable")[:k].tolist()


@given(
    size=st.sampled_from([1, 7, 31, 32, 33, 255, 256, 257, 511, 1000, 5000]),
    k=st.integers(0, 9),
    distinct=st.sampled_from([1, 2, 5, 1000000]),
    seed=st.integers(0, 99),
)
def test_every_row_is_ranked_as_by_a_stable_sort(size, k, distinct, seed):
    """Few distinct values make ties, also across the blocks that the search works in."""
    values = np.random.default_rng(seed).integers(-distinct, distinct, (3, size)).astype(np.float32)
    values[values == -distinct] = -np.inf
    k = min(k, size)
    best, top = rank(values, k)
    assert best == torch.from_numpy(values).argmax(dim=-1).tolist()
    if k == 0:
        assert top is None
    else:
        assert top.dtype == np.int32
        assert top.tolist() == [expected(row, k) for row in values]


def test_rows_without_a_largest_value_still_give_ids():
    values = np.full((2, 600), -np.inf, dtype=np.float32)
    values[1] = np.nan
    best, top = rank(values, 3)
    assert best == [0, 0] and top.tolist() == [[0, 1, 2]] * 2


@pytest.mark.parametrize("place", [0, 1, 300, 599])
def test_nan_is_the_least_of_a_row(place):
    values = np.arange(600, dtype=np.float32)[None] % 17
    values[0, place] = np.nan
    expected_row = np.where(np.isnan(values[0]), -np.inf, values[0])
    assert rank(values, 5)[1].tolist() == [expected(expected_row, 5)]


def test_more_values_than_a_row_has_are_refused():
    for size, k in ((4, 5), (0, 0)):
        with pytest.raises(ValueError, match="no"):
            rank(np.zeros((1, size), dtype=np.float32), k)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("k", [0, 1, 8, 900])
def test_choices_and_top_in_every_precision(dtype, k):
    logits = torch.randperm(5 * 600, generator=torch.Generator().manual_seed(1)).view(5, 600)
    logits = (logits % 250).to(dtype) if k < 2 else (logits.view(5, 600) / 4).to(torch.float32).to(dtype)
    found = read(logits, k)
    assert found.logits is logits
    assert found.choices == logits.argmax(dim=-1).tolist()
    if k == 0:
        assert found.top is None
    else:
        assert found.top.shape == (5, min(k, 600)) and found.top.dtype == np.int32
        assert torch.equal(
            logits.gather(1, torch.from_numpy(found.top.astype(np.int64))), logits.topk(min(k, 600)).values
        )


def test_logits_that_are_a_view_of_something_larger():
    logits = torch.randn(4, 2000)[:, ::2]
    assert read(logits, 2).top.tolist() == logits.topk(2).indices.tolist()
