"""Lookahead decoding: its window is the target's own Jacobi iteration, and its pool holds what that found."""

import numpy as np
import pytest

from samlib import make_drafter
from samlib.drafters import Verified

from ..automaton.naive import tree_paths
from .replay import check_draft, ids


def decode(drafter, model, prompt, count, *, room=10**6):
    """Greedy decoding of `count` tokens with a model that is a function of the tokens so far; (known, draft) a step."""
    known, steps = [*prompt, model(prompt)], []
    drafter.begin(ids(prompt))
    drafter.observe(ids(known[-1:]))
    while len(known) < len(prompt) + count:
        draft = drafter.propose(min(room, len(prompt) + count - len(known) - 1))
        steps.append((list(known), draft))
        paths = [(), *tree_paths(draft.tokens, draft.parents)]
        said = [model([*known, *path]) for path in paths]
        emitted = [said[0]]
        while tuple(emitted) in paths:
            emitted.append(said[paths.index(tuple(emitted))])
        top = Verified(ids([known[-1], *draft.tokens]), ids([[token] for token in said]))
        drafter.observe(ids(emitted), top)
        known += emitted
    return known[len(prompt) :], steps


def counting(tokens):
    """Repeats 0 … 7 for ever."""
    return (tokens[-1] + 1) % 8


def scrambled(tokens):
    """A stream in which each token depends on the last three."""
    return (31 * tokens[-1] + 7 * tokens[-2] + 3 * tokens[-3] + 5) % 97


@pytest.mark.parametrize(
    "options", [{}, {"window": 15, "ngram": 5, "guesses": 15}, {"window": 2, "ngram": 3, "guesses": 1}]
)
@pytest.mark.parametrize("model", [counting, scrambled])
def test_the_output_is_greedy_and_the_size_is_bounded(model, options):
    drafter = make_drafter("lookahead", **options)
    found, steps = decode(drafter, model, [1, 2, 3], 120)
    plain = [1, 2, 3]
    while len(plain) < 3 + len(found):
        plain.append(model(plain))
    assert found == plain[3:]
    size = (drafter.window + drafter.guesses) * (drafter.ngram - 1)
    for known, draft in steps:
        check_draft(draft, room=3 + 120 - len(known) - 1, size=size)
        assert draft.source in ("lookahead", "none")


def test_a_text_that_can_be_foreseen_is():
    """Each token of the cycle has one n-gram; from the time it is pooled, a step emits all of it and one token more."""
    _, steps = decode(make_drafter("lookahead"), counting, [5, 6, 7], 200)
    lengths = np.diff([len(known) for known, _ in steps])
    assert lengths[0] <= 3 and (lengths[-20:-5] >= 5).all()


def test_pooled_ngrams_are_what_the_target_would_write():
    """Whatever the columns began with: an n-gram's last token follows from those before, since level follows level."""
    drafter = make_drafter("lookahead", window=3, ngram=5, guesses=50)
    pooled = {(first, *rest) for first, rest in pool_after(drafter, scrambled, 40)}
    assert len(pooled) > 30
    for *before, last in pooled:
        assert scrambled(before) == last


def test_each_step_adds_one_level_then_the_window_rolls():
    """Independent bookkeeping of the levels, by paths: column i is level 0's first i tokens, and then its own."""
    drafter = make_drafter("lookahead", window=2, ngram=4, guesses=1)
    _, steps = decode(drafter, scrambled, [4, 8, 15], 30)
    first, *_ = (draft for _, draft in steps)
    levels = [first.tokens.tolist()]
    assert len(levels[0]) == 2 + 4 - 3
    for known, draft in steps:
        columns = range(1 + len(levels[0]))
        paths = [tuple(levels[0][:i]) + tuple(level[i] for level in levels[1:]) for i in columns]
        if len(draft) == 0 or not set(paths) <= {(), *tree_paths(draft.tokens, draft.parents)}:
            assert len(steps) - [d for _, d in steps].index(draft) <= 6  # no room for the window any more
            break
        levels.append([scrambled([*known, *path]) for path in paths])
        levels = [level[1:] for level in levels] if len(levels) < 4 else [levels[1][1:], *levels[2:]]


def pool_after(drafter, model, count):
    decode(drafter, model, [4, 8, 15], count)
    return [(first, rest) for first, guesses in drafter._pool.items() for rest in guesses]


def test_the_tree_is_guesses_and_the_window():
    """In a text of one token all is one chain of that token, as deep as the window and its levels."""
    drafter = make_drafter("lookahead", window=4, ngram=3, guesses=2)
    _, steps = decode(drafter, lambda tokens: 9, [9], 60)
    full = [draft for _, draft in steps if len(draft)][3]
    assert set(tree_paths(full.tokens, full.parents)) == {(9,) * n for n in range(1, 5)}


def test_the_latest_guesses_are_kept_and_come_first():
    drafter = make_drafter("lookahead", window=1, ngram=3, guesses=2)
    drafter.begin(ids([1]))
    for rest in [(2, 3), (4, 5), (6, 7), (4, 5)]:
        drafter._remember(1, rest)
    draft = drafter.propose(2)
    assert tree_paths(draft.tokens, draft.parents)[:4] == [(4,), (4, 5), (6,), (6, 7)]


@pytest.mark.parametrize("room", range(12))
def test_room(room):
    _, steps = decode(make_drafter("lookahead", window=4, ngram=3, guesses=3), counting, [1, 2], 40, room=room)
    for _, draft in steps:
        check_draft(draft, room=room, size=14)


def test_requests_do_not_know_each_other():
    drafter = make_drafter("lookahead")
    first = decode(drafter, counting, [1, 2], 50)
    decode(drafter, scrambled, [3, 4, 5], 50)
    again = decode(drafter, counting, [1, 2], 50)
    assert [draft.tokens.tolist() for _, draft in first[1]] == [draft.tokens.tolist() for _, draft in again[1]]


def test_a_verification_without_a_draft_leaves_the_window_where_it_is():
    """As in a last step that has room for the bonus token only: what was planted before is not read off it."""
    drafters = [make_drafter("lookahead", window=2, ngram=3, guesses=2) for _ in range(2)]
    for drafter in drafters:
        drafter.begin(ids([1, 2, 3]))
        drafter.observe(ids([4]))
        draft = drafter.propose(9)
        drafter.observe(ids([5]), Verified(ids([4, *draft.tokens]), ids([[5]] * (1 + len(draft)))))
    drafters[0].observe(ids([6]), Verified(ids([5]), ids([[6]])))
    drafters[1].observe(ids([6]))
    first, second = (drafter.propose(9) for drafter in drafters)
    assert first.tokens.tolist() == second.tokens.tolist() != []


def test_an_ngram_has_at_least_two_tokens():
    with pytest.raises(ValueError, match="ngram must be at least 2, not 1"):
        make_drafter("lookahead", ngram=1)
