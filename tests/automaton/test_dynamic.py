"""DynamicAutomaton against the brute-force oracle, at its edges, and with bad input."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samlib import DynamicAutomaton

from .inputs import BAD_FORMS, GOOD_FORMS
from .naive import NaiveDynamic, match_history
from .strategies import LARGEST_ID, chunkings, texts


def automaton_of(tokens):
    automaton = DynamicAutomaton()
    automaton.extend(tokens)
    return automaton


def answers(automaton):
    """What a caller can see of an automaton."""
    return len(automaton), automaton.match_length, automaton.num_states, automaton.draft(9).tolist()


# --- matches and drafts, against brute force ---------------------------------------------------------------------


@given(text=texts())
def test_match_and_first_draft_after_every_token(text):
    automaton, naive = DynamicAutomaton(), NaiveDynamic()
    for token in text:
        automaton.extend(token)
        naive.extend([token])
        assert automaton.match_length == naive.match_length
        assert automaton.draft(7).tolist() == naive.draft(7, "first")


@pytest.mark.parametrize(("alphabet", "size"), [(1, 600), (2, 3000), (3, 3000), (50, 3000)])
def test_long_random_text(alphabet, size):
    text = np.random.default_rng(alphabet).integers(0, alphabet, size)
    automaton = DynamicAutomaton()
    for n, (length, first, _) in enumerate(match_history(text), start=1):
        automaton.extend(int(text[n - 1]))
        assert automaton.match_length == length
        assert automaton.draft(12).tolist() == ([text[first + i % (n - first)] for i in range(12)] if length else [])


# --- how the text was handed over makes no difference ---------------------------------------------------------------


@given(text=texts(), data=st.data())
def test_chunks_equal_single_tokens(text, data):
    chunked, whole = DynamicAutomaton(), automaton_of(text)
    for chunk in data.draw(chunkings(text)):
        chunked.extend(chunk)
    assert answers(chunked) == answers(whole)


@given(before=texts(), text=texts())
def test_reset_leaves_nothing_behind(before, text):
    reused = automaton_of(before)
    reused.reset()
    assert (len(reused), reused.match_length, reused.draft(5).tolist()) == (0, 0, [])
    reused.extend(text)
    assert answers(reused) == answers(automaton_of(text))


@pytest.mark.parametrize("form", GOOD_FORMS)
def test_accepted_forms_of_ids(form):
    automaton = automaton_of(form([3, 4, 5, 6]))
    automaton.extend(form([3, 4]))
    assert (len(automaton), automaton.match_length, automaton.draft(3).tolist()) == (6, 2, [5, 6, 3])


@pytest.mark.parametrize("one", [7, np.int32(7), np.int64(7), np.array(7)])
def test_one_id(one):
    automaton = DynamicAutomaton()
    automaton.extend(one)
    automaton.extend(one)
    assert (len(automaton), automaton.match_length, automaton.draft(2).tolist()) == (2, 1, [7, 7])


def test_the_callers_array_may_change_afterwards():
    ids = np.array([1, 2, 3, 1, 2], dtype=np.int32)
    automaton = automaton_of(ids)
    ids[:] = 0
    assert automaton.draft(3).tolist() == [3, 1, 2]


def test_a_draft_is_the_callers_own_copy():
    automaton = automaton_of([1, 2, 3, 1, 2])
    draft = automaton.draft(3)
    assert draft.dtype == np.int32
    draft[:] = 0
    automaton.extend(3)
    assert automaton.draft(3).tolist() == [1, 2, 3]


# --- edges ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [[], [5], [5, 6, 7]])
def test_no_match_means_no_draft(text):
    automaton = automaton_of(text)
    assert (len(automaton), automaton.match_length, automaton.draft(10).tolist()) == (len(text), 0, [])


@pytest.mark.parametrize("empty", [[], (), np.array([], dtype=np.int32), range(0)])
def test_extending_by_nothing(empty):
    automaton = automaton_of([1, 2, 1])
    before = answers(automaton)
    automaton.extend(empty)
    assert answers(automaton) == before


def test_periodic_draft_runs_past_the_end_of_the_text():
    assert automaton_of([0, 1, 0, 1]).draft(9).tolist() == [0, 1, 0, 1, 0, 1, 0, 1, 0]


def test_the_draft_belongs_to_the_longest_match():
    """The match of length 3 has a short continuation only; no shorter match may take its place."""
    text = [4, 9, 9, 9, 9, 1, 2, 3, 4, 5, 2, 3, 4]
    automaton = automaton_of(text)
    assert automaton.match_length == 3
    assert automaton.draft(12).tolist() == ([5, 2, 3, 4] * 3)[:12]


def test_the_largest_id():
    automaton = automaton_of([LARGEST_ID, 0, LARGEST_ID])
    assert automaton.draft(2).tolist() == [0, LARGEST_ID]


@pytest.mark.parametrize("n", [0, np.int64(0)])
def test_draft_of_nothing(n):
    automaton = automaton_of([1, 1, 1])
    assert automaton.draft(n).tolist() == []


@pytest.mark.parametrize("text", [[], [1, 1, 1]])
def test_a_negative_draft_is_refused(text):
    with pytest.raises(ValueError):
        automaton_of(text).draft(-1)


@pytest.mark.parametrize("n", [1.5, "3", None])
def test_a_draft_size_must_be_an_integer(n):
    with pytest.raises(TypeError):
        automaton_of([1, 1, 1]).draft(n)


@pytest.mark.parametrize("text", [[], [1, 1, 1]])
def test_an_unknown_choice_is_refused(text):
    with pytest.raises(ValueError, match="first"):
        automaton_of(text).draft(3, choice="newest")


def test_options_are_named():
    for arguments, options in [((True,), {}), ((), {"occurences": True})]:
        with pytest.raises(TypeError):
            DynamicAutomaton(*arguments, **options)
    with pytest.raises(TypeError):
        automaton_of([1, 1]).draft(3, "first")


# --- bad input leaves the automaton as it was -----------------------------------------------------------------------


@pytest.mark.parametrize(("bad", "error"), BAD_FORMS)
def test_bad_ids_change_nothing(bad, error):
    automaton = automaton_of([1, 2, 3, 1, 2])
    before = answers(automaton)
    with pytest.raises(error) as caught:
        automaton.extend(bad)
    assert "\n" not in str(caught.value)
    assert answers(automaton) == before
    automaton.extend([3, 1])
    assert automaton.match_length == 4


# --- size -----------------------------------------------------------------------------------------------------------


@given(text=texts(max_size=80))
def test_at_most_two_states_a_token(text):
    automaton = automaton_of(text)
    assert 1 <= automaton.num_states <= max(1, 2 * len(text))
    automaton._check_invariants()


def test_one_token_for_long_is_linear():
    automaton = automaton_of(np.zeros(100_000, dtype=np.int32))
    assert automaton.match_length == 99_999
    assert automaton.num_states == 100_001
    assert automaton.draft(50).tolist() == [0] * 50
    assert automaton.nbytes < 200 * len(automaton)


def test_fibonacci_word_is_linear():
    word, following = np.array([0], dtype=np.int32), np.array([0, 1], dtype=np.int32)
    while len(following) < 60_000:
        word, following = following, np.concatenate([following, word])
    automaton = automaton_of(following)
    assert automaton.num_states <= 2 * len(following)
    assert automaton.nbytes < 200 * len(automaton)


def test_one_context_with_300_continuations():
    """A state with a very wide fan-out: every one of its edges is found again."""
    pairs = [token for other in range(300) for token in (7, 1000 + other)]
    automaton = automaton_of([*pairs, 7])
    automaton._check_invariants()
    assert automaton.draft(2).tolist() == [1000, 7]
    for other in range(300):
        automaton.extend([1000 + other, 7])
        assert (automaton.match_length, automaton.num_states <= 2 * len(automaton)) == (2 * other + 3, True)


@pytest.mark.parametrize("fan_out", [1, 2, 3, 15, 16, 17, 18, 31, 32, 33, 300])
def test_splitting_a_state_keeps_its_continuations(fan_out):
    """7 always stood after 8, with many continuations; once it stands after 9, its state is split from that of 8, 7."""
    automaton = automaton_of([token for other in range(fan_out) for token in (8, 7, 1000 + other)])
    automaton.extend([9, 7])
    automaton._check_invariants()
    assert (automaton.match_length, automaton.draft(1).tolist()) == (1, [1000])
    for other in range(fan_out):
        automaton.extend([6, 7, 1000 + other])
        assert automaton.match_length == 2
    automaton._check_invariants()


def test_nbytes_grows_with_the_text():
    automaton = DynamicAutomaton()
    empty = automaton.nbytes
    automaton.extend(np.arange(10_000))
    assert automaton.nbytes > empty


def test_the_automata_load_without_torch():
    code = "import sys, samlib, samlib.automaton; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
