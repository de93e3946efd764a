"""The forward that is timed: it leaves no trace, and verifies a tree."""

from samlib.decoding.forward import binary_tree, prefilled, time_forward

from .models import random_model


def test_the_cache_is_rolled_back_after_every_forward():
    model = random_model()
    target = prefilled(model, 50)
    for width in (1, 5, 61):
        assert time_forward(model, target, width) > 0
        assert target.num_cached == 50


def test_the_draft_is_a_tree_whose_parents_come_first():
    draft = binary_tree(6)
    assert draft.parents.tolist() == [-1, -1, 0, 0, 1, 1]
    assert not draft.is_chain
    assert len(binary_tree(0)) == 0
