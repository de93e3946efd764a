"""DynamicAutomaton where something runs out, memory or room, and where two threads meet: it must stay as it was."""

import subprocess
import sys
import threading

import numpy as np
import pytest

from samlib import DynamicAutomaton

RNG = np.random.default_rng(0)
TEXTS = {
    "bits": RNG.integers(0, 2, 3000),  # most memory goes into blocks of edges
    "words": RNG.integers(0, 50, 3000),
    "one token": np.zeros(3000, dtype=np.int64),  # most goes into states
    "all different": np.arange(3000),  # one block, of one state, grows and grows
    "one context": np.array([token for other in range(1500) for token in (7, 100 + other)]),
}


def automaton_of(tokens, **options):
    automaton = DynamicAutomaton(**options)
    automaton.extend(tokens)
    return automaton


def answers(automaton, occurrences):
    """All that can be seen of an automaton."""
    choices = ("first", "latest", "frequent") if occurrences else ("first",)
    drafts = [automaton.draft(9, choice=choice).tolist() for choice in choices]
    return len(automaton), automaton.match_length, automaton.states(), drafts


# --- memory runs out: all of a call's tokens are taken, or none -------------------------------------------------------


@pytest.mark.parametrize("occurrences", [False, True])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("room", [1.0, 1.3, 1.7, 2.5, 4.0, 8.0, 16.0, 28.0])
def test_a_memory_error_leaves_the_text_as_before(occurrences, text, room):
    """Arrays of more than 4,000 * `room` bytes are refused: at some room, each of the arrays is the first to be."""
    automaton = automaton_of(text[:200], occurrences=occurrences)
    failed_at = None
    for taken in range(200, len(text), 400):
        before = answers(automaton, occurrences)
        automaton._limit(max_bytes=int(4000 * room))
        try:
            automaton.extend(text[taken : taken + 400])
        except MemoryError as error:
            failed_at = taken
            assert "\n" not in str(error)
        automaton._limit()
        if failed_at == taken:
            automaton._check_invariants()
            assert answers(automaton, occurrences) == before
            automaton.extend(text[taken : taken + 400])
    assert failed_at is not None or room >= 8, "the limit was never met"
    automaton._check_invariants()
    assert answers(automaton, occurrences) == answers(automaton_of(text, occurrences=occurrences), occurrences)


@pytest.mark.parametrize("occurrences", [False, True])
def test_memory_runs_out_at_every_size(occurrences):
    """One limit after another, so that an append fails at each of the places where it takes memory."""
    text = TEXTS["bits"]
    failed = 0
    for limit in range(400, 40_000, 160):
        automaton = DynamicAutomaton(occurrences=occurrences)
        automaton.extend(text[:50])
        before = answers(automaton, occurrences)
        automaton._limit(max_bytes=limit)
        try:
            automaton.extend(text[50:600])
        except MemoryError:
            failed += 1
            automaton._limit()
            automaton._check_invariants()
            assert answers(automaton, occurrences) == before
    assert failed > 50


def test_a_draft_tree_without_memory_leaves_the_automaton_whole():
    text = [*TEXTS["one context"], 7]
    automaton = automaton_of(text, occurrences=True)
    automaton._limit(max_bytes=64)
    with pytest.raises(MemoryError):
        automaton.draft_tree(100)
    automaton._limit()
    automaton._check_invariants()
    whole = automaton_of(text, occurrences=True)
    assert automaton.draft_tree(100).tokens.tolist() == whole.draft_tree(100).tokens.tolist()


# --- the text becomes too long ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("occurrences", [False, True])
def test_a_text_that_would_be_too_long_is_refused_before_anything_changes(occurrences):
    automaton = automaton_of([1, 2, 3, 1, 2], occurrences=occurrences)
    automaton._limit(max_tokens=8)
    before = answers(automaton, occurrences)
    with pytest.raises(ValueError, match="8 tokens") as caught:
        automaton.extend([3, 1, 2, 3])
    assert "\n" not in str(caught.value)
    assert answers(automaton, occurrences) == before
    automaton.extend([3, 1, 2])
    with pytest.raises(ValueError):
        automaton.extend(3)
    assert (len(automaton), automaton.match_length) == (8, 5)
    automaton.reset()
    automaton.extend([4] * 8)
    assert automaton.match_length == 7


# --- sizes and ids that are none --------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [[], [1, 1, 1]])
@pytest.mark.parametrize("n", [2**31, 2**32, 2**63, 2**64, 10**30])
def test_an_absurd_draft_size_is_refused(text, n):
    """A copy goes on periodically and so is as long as asked for: no array of that length can be meant."""
    with pytest.raises(ValueError, match="2\\*\\*31 - 1"):
        automaton_of(text).draft(n)


@pytest.mark.parametrize("n", [2**31, 2**63, 10**30])
def test_a_tree_has_no_more_nodes_than_there_are(n):
    """A tree's size is an upper bound: it never has more nodes than continuations were seen."""
    assert automaton_of([1, 2, 1], occurrences=True).draft_tree(n).tokens.tolist() == [2, 1]


@pytest.mark.parametrize("n", [True, np.True_])
def test_a_bool_is_no_draft_size(n):
    with pytest.raises(TypeError):
        automaton_of([1, 1]).draft(n)


@pytest.mark.parametrize(
    "bad",
    [
        True,
        np.True_,
        [1, True],
        (1, True),
        [True, 1],
        [1, np.True_],
        [2**40, True],
        [True, False],
        np.array([True, False]),
        np.array([1, True], dtype=object),
    ],
    ids=repr,
)
def test_a_bool_is_no_token_id(bad):
    automaton = automaton_of([1, 2, 1])
    with pytest.raises(TypeError, match="integers"):
        automaton.extend(bad)
    assert (len(automaton), automaton.match_length) == (3, 1)


# --- threads ----------------------------------------------------------------------------------------------------------


USES = {
    "extend": lambda automaton: automaton.extend(3),
    "extend by many": lambda automaton: automaton.extend(np.zeros(1000, dtype=np.int32)),
    "match_length": lambda automaton: automaton.match_length,
    "draft": lambda automaton: automaton.draft(5),
    "draft_tree": lambda automaton: automaton.draft_tree(5),
    "reset": lambda automaton: automaton.reset(),
    "states": lambda automaton: automaton.states(),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_use_by_another_thread_is_refused(use):
    """While a long text is appended without the GIL, whoever else comes gets an error, and nothing is harmed."""
    text = np.random.default_rng(0).integers(0, 1000, 400_000)
    for _ in range(20):
        automaton = DynamicAutomaton(occurrences=True)
        thread = threading.Thread(target=automaton.extend, args=(text,))
        thread.start()
        try:
            while len(automaton) == 0 and thread.is_alive():
                pass
            use(automaton)
        except RuntimeError as error:
            assert "thread" in str(error)
            thread.join()
            assert len(automaton) == len(text)
            assert automaton.draft(5).tolist() == automaton_of(text).draft(5).tolist()
            return
        finally:
            thread.join()
    pytest.fail("the other thread was never met while it was busy")


# --- memory -----------------------------------------------------------------------------------------------------------

PEAK = """
import resource, sys
import numpy as np
from samlib import DynamicAutomaton
size, most, occurrences = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "True"
rng = np.random.default_rng(0)
text = np.arange(size) if most >= 2**31 else rng.integers(0, most, size)
text = text.astype(np.int32)
automaton = DynamicAutomaton(occurrences=occurrences)
automaton.extend(text[:3])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
automaton.extend(text[3:])
peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
reserved = automaton.nbytes
automaton.reset()
automaton.extend(text)
assert automaton.nbytes == reserved, "a reset gave memory back, or lost some"
print(peak / size, reserved / size)
"""


@pytest.mark.parametrize("occurrences", [False, True])
@pytest.mark.parametrize(
    ("most", "bytes_a_token"), [(1, 30), (2, 90), (49_152, 75), (2**31, 75)], ids=["one", "bits", "random", "different"]
)
def test_a_million_tokens_take_a_bounded_number_of_bytes_each(most, bytes_a_token, occurrences):
    """Peak of the process and `nbytes`. A count takes 28 bytes a state, half as much again while the array grows."""
    bytes_a_token += 90 if occurrences else 0
    arguments = ["1000000", str(most), str(occurrences)]
    run = subprocess.run([sys.executable, "-c", PEAK, *arguments], capture_output=True, text=True, check=True)
    peak, reserved = map(float, run.stdout.split())
    assert reserved < bytes_a_token
    assert peak < 1.5 * bytes_a_token
