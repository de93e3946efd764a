"""A verification's inputs: positions and mask of any draft, at any point of a request, against its paths."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from samlib import Draft
from samlib.decoding import inputs
from samlib.decoding.inputs import Inputs, ancestry

from .models import draft_of

CPU = torch.device("cpu")
DRAFTS = st.lists(st.integers(0, 10**6), max_size=30).map(
    lambda draws: draft_of([draw % 50 for draw in draws], [draw % (i + 1) - 1 for i, draw in enumerate(draws)])
)


def path_of(draft, node):
    """Inputs on the way from the root (0) to a node's input, both included."""
    path = []
    while node >= 0:
        path.append(node + 1)
        node = int(draft.parents[node])
    return [0, *path[::-1]]


def check(placed, root, draft, cached):
    ids, positions, mask = placed
    assert ids.tolist() == [[root, *draft.tokens.tolist()]]
    assert ids.dtype == positions.dtype == torch.long
    if mask is None:
        assert len(draft) == 0
        mask = torch.zeros(1, 1, 1, cached + 1)
    assert mask.shape == (1, 1, 1 + len(draft), cached + 1 + len(draft))
    for node in range(-1, len(draft)):
        path = path_of(draft, node)
        row = mask[0, 0, node + 1]
        assert positions[0, node + 1] == cached + len(path) - 1
        assert torch.nonzero(row == 0).flatten().tolist() == [*range(cached), *[cached + i for i in path]]
        assert (row[row != 0] == torch.finfo(mask.dtype).min).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@given(steps=st.lists(st.tuples(DRAFTS, st.booleans(), st.integers(0, 3)), min_size=1, max_size=8))
def test_every_step_of_a_request(dtype, steps):
    """Trees and chains in any order: what one step wrote into the buffers must not show in the next."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inputs, "WIDEST", 3)  # so that the buffers have to grow on the way
        patch.setattr(inputs, "LONGEST", 8)
        made = Inputs(CPU, dtype, masks_one_token=True)
    cached = 4
    for draft, as_chain, kept in steps:
        draft = Draft.chain(draft.tokens, "scripted") if as_chain else draft
        check(made.place(7, draft, cached), 7, draft, cached)
        cached += kept


def test_a_root_alone_needs_no_mask_where_the_model_needs_none():
    assert Inputs(CPU, torch.float32, masks_one_token=False).place(3, Draft.empty(), 9)[2] is None
    assert Inputs(CPU, torch.float32, masks_one_token=True).place(3, Draft.empty(), 9)[2].shape == (1, 1, 1, 10)


def test_buffers_are_used_again():
    made = Inputs(CPU, torch.float32, masks_one_token=False)
    draft = draft_of([1, 2, 3], [-1, -1, 0])
    first = [tensor.data_ptr() for tensor in made.place(1, draft, 10)]
    assert [tensor.data_ptr() for tensor in made.place(2, draft, 500)] == first


@given(DRAFTS)
def test_ancestry(draft):
    seen, depths = ancestry(draft.parents)
    paths = [path_of(draft, node) for node in range(-1, len(draft))]
    assert depths.tolist() == [len(path) - 1 for path in paths]
    assert [np.flatnonzero(row).tolist() for row in seen] == paths
