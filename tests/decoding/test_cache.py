"""The KV cache against transformers' own DynamicCache: the same keys and values, in memory that stays where it is."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import DynamicCache

from samlib.decoding import cache
from samlib.decoding.cache import KVCache

LAYERS, HEADS, KEY_DIM, VALUE_DIM = 3, 2, 4, 6


def states(size, *, heads=HEADS, rows=1):
    """Random keys and values of `size` tokens; values wider than keys, as in some models."""
    return torch.randn(rows, heads, size, KEY_DIM), torch.randn(rows, heads, size, VALUE_DIM)


def append(size, *caches):
    """Give the same random tokens to every layer of all caches; return what the last layer of each shows."""
    for layer in range(LAYERS):
        new = states(size)
        shown = [cache.update(*new, layer) for cache in caches]
    return shown


def assert_same(ours, theirs):
    assert ours.get_seq_length() == theirs.get_seq_length()
    for mine, other in zip(ours.layers, theirs.layers, strict=True):
        assert torch.equal(mine.keys, other.keys) and torch.equal(mine.values, other.values)


@given(steps=st.lists(st.tuples(st.integers(1, 40), st.integers(0, 40), st.booleans()), max_size=12))
def test_any_steps_and_rollbacks_leave_what_concatenation_leaves(steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "SMALLEST", 1)  # so that the buffers grow again and again
        patch.setattr(cache, "MULTIPLE", 1)
        _check_against_concatenation(steps)


def _check_against_concatenation(steps):
    ours, theirs = KVCache(LAYERS), DynamicCache()
    append(5, ours, theirs)
    for new, rejected, crops in steps:
        (our_keys, our_values), (keys, values) = append(new, ours, theirs)
        assert torch.equal(our_keys, keys) and torch.equal(our_values, values)
        rejected = min(rejected, new)
        theirs.crop(-rejected)
        ours.crop(-rejected) if crops else ours.truncate(ours.get_seq_length() - rejected)
        assert_same(ours, theirs)
        assert ours.get_mask_sizes(7, 0) == theirs.get_mask_sizes(7, 0)


def test_a_path_is_moved_together():
    ours = KVCache(LAYERS)
    append(30, ours)
    before = [(layer.keys.clone(), layer.values.clone()) for layer in ours.layers]
    path = torch.tensor([11, 12, 20, 29])
    ours.move(path, 10)
    ours.truncate(14)
    for layer, (keys, values) in zip(ours.layers, before, strict=True):
        assert torch.equal(layer.keys, torch.cat([keys[:, :, :10], keys[:, :, path]], dim=2))
        assert torch.equal(layer.values, torch.cat([values[:, :, :10], values[:, :, path]], dim=2))


def test_steps_write_in_place_and_room_grows_geometrically(monkeypatch):
    """A thousand steps, each with a draft of 60 tokens that is rejected: the buffers move a few times in all."""
    monkeypatch.setattr(cache, "SMALLEST", 8)
    ours, places = KVCache(LAYERS), []
    append(4, ours)
    for _ in range(1000):
        append(61, ours)
        places.append(ours.layers[0].keys.data_ptr())
        ours.truncate(ours.get_seq_length() - 60)
        assert ours.capacity <= 2 * (ours.get_seq_length() + 61 + cache.MULTIPLE)
    assert sum(a != b for a, b in zip(places, places[1:], strict=False)) < 12


def test_a_reset_forgets_the_tokens_and_keeps_the_buffers():
    ours, theirs = KVCache(LAYERS), DynamicCache()
    append(50, ours)
    place = ours.layers[1].values.data_ptr()
    ours.reset()
    assert ours.get_seq_length() == 0 and ours.layers[1].keys is None
    append(9, ours, theirs)
    assert_same(ours, theirs)
    assert ours.layers[1].values.data_ptr() == place


def test_a_crop_takes_negative_numbers_as_in_transformers():
    ours = KVCache(LAYERS)
    append(5, ours)
    with pytest.raises(ValueError, match="negative"):
        ours.crop(3)
    ours.crop(0)
    assert ours.get_seq_length() == 5
    ours.crop(-9)
    assert ours.get_seq_length() == 0


def test_what_the_buffers_cannot_hold_is_refused():
    with pytest.raises(ValueError, match="one request at a time"):
        KVCache(LAYERS).update(*states(3, rows=2), 0)
    ours = KVCache(LAYERS)
    ours.update(*states(3), 0)
    with pytest.raises(ValueError, match="layer 1 .*one device"):
        ours.update(*states(3, heads=1), 1)


def test_beams_are_no_silent_error():
    ours = KVCache(LAYERS)
    append(5, ours)
    with pytest.raises(AttributeError):
        ours.batch_repeat_interleave(2)
