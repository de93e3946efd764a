"""Token Recycling: the tree's shape, and what its adjacency matrix remembers."""

import numpy as np
import pytest

from samlib import make_drafter
from samlib.drafters import Verified

from .replay import check_draft, ids

K = 8


def successors(token):
    """Every token's successors are its children in a numbered K-ary tree, so that a path can be read off an id."""
    return [K * token + rank + 1 for rank in range(K)]


def taught(tokens, **options):
    """A drafter that has seen the successors of `tokens`, with 0 as its root."""
    drafter = make_drafter("token_recycling", **options)
    drafter.begin(ids([0]))
    top = [successors(token)[: drafter.top_k] for token in tokens]
    drafter.observe(ids([0]), Verified(ids(tokens), ids(top)))
    return drafter


def depths_of(draft):
    depths = []
    for parent in draft.parents.tolist():
        depths.append(1 if parent < 0 else depths[parent] + 1)
    return depths


def test_the_papers_tree():
    """60 nodes without the root, 7/20/21/8/4 by level, breadth-first; every child is a successor of its parent."""
    draft = taught(range(5000)).propose(99)
    check_draft(draft, room=5, size=60)
    depths = depths_of(draft)
    assert [depths.count(level) for level in range(1, 7)] == [7, 20, 21, 8, 4, 0]
    assert depths == sorted(depths)
    for token, parent in zip(draft.tokens.tolist(), draft.parents.tolist(), strict=True):
        assert token in successors(draft.tokens[parent] if parent >= 0 else 0)
    assert (draft.source, draft.match_length) == ("token_recycling", 0)


def test_likelier_successors_come_first_and_have_more_children():
    draft = taught(range(5000)).propose(99)
    assert draft.tokens[:7].tolist() == successors(0)[:7]
    children = [int((draft.parents == node).sum()) for node in range(7)]
    assert children == sorted(children, reverse=True) and children[0] > children[-1]


@pytest.mark.parametrize("room", [0, 1, 2, 3, 4])
def test_the_room_clips_levels(room):
    whole, clipped = taught(range(5000)).propose(99), taught(range(5000)).propose(room)
    expected = [t for t, depth in zip(whole.tokens.tolist(), depths_of(whole), strict=True) if depth <= room]
    assert clipped.tokens.tolist() == expected


@pytest.mark.parametrize("tree_size", [1, 2, 3, 16, 60])
def test_smaller_trees(tree_size):
    draft = taught(range(5000), tree_size=tree_size).propose(99)
    check_draft(draft, room=5, size=tree_size)
    assert len(draft.tokens) == tree_size


@pytest.mark.parametrize("k", [1, 2, 4])
def test_fewer_successors(k):
    draft = taught(range(5000), k=k).propose(99)
    check_draft(draft, room=5, size=60)
    ranks = [(token - 1) % K for token in draft.tokens.tolist()]
    assert set(ranks) == set(range(k))


def test_nothing_is_known_at_first():
    drafter = make_drafter("token_recycling")
    drafter.begin(ids([1, 2, 3]))
    drafter.observe(ids([4]))
    assert (len(drafter.propose(99).tokens), drafter.propose(99).source) == (0, "none")


def test_unknown_tokens_have_no_children():
    """Only the root and its first successor have been seen: level 2 grows under that one alone."""
    draft = taught([0, 1]).propose(99)
    below = draft.parents[np.array(depths_of(draft)) == 2]
    assert len(below) and (draft.tokens[below] == 1).all()
    assert max(depths_of(draft)) == 2


def test_every_verified_token_is_learnt_not_only_the_accepted_ones():
    drafter = taught([0, 1])
    top = [[50 + 10 * row + rank for rank in range(K)] for row in range(3)]
    drafter.observe(ids([9]), Verified(ids([0, 1, 9]), ids(top)))
    for token, row in [(0, 0), (1, 1), (9, 2)]:
        drafter.begin(ids([token]))
        assert drafter.propose(1).tokens.tolist() == top[row][:7]


def test_the_matrix_outlives_requests_until_reset():
    drafter = taught([0])
    drafter.begin(ids([5, 0]))
    assert len(drafter.propose(99).tokens) == 7
    drafter.reset()
    drafter.begin(ids([5, 0]))
    assert len(drafter.propose(99).tokens) == 0


def test_the_root_is_the_last_emitted_token():
    drafter = taught([0, 3, 4])
    drafter.observe(ids([4, 3]), None)
    assert drafter.propose(1).tokens.tolist() == successors(3)[:7]


def test_it_asks_for_the_top_k_logits():
    assert make_drafter("token_recycling").top_k == 8
    assert make_drafter("token_recycling", k=3).top_k == 3
    assert make_drafter("sam[t]").top_k == 8
    assert make_drafter("sam").top_k == 0
