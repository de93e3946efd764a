"""The dynamic automaton's states themselves: the minimal automaton of the text, in sound memory, after every token."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samlib import DynamicAutomaton

from .strategies import texts


def naive_states(text):
    """The suffix automaton by definition: substrings with the same end positions are one state.

    Returns a dict from a state's longest string to (length, longest string of its suffix link, first end, edges), the
    edges a dict from token to the longest string of the state that it leads to.
    """
    text = tuple(text)
    ends = defaultdict(set, {(): set(range(-1, len(text)))})
    for end in range(len(text)):
        for start in range(end + 1):
            ends[text[start : end + 1]].add(end)
    longest = {}
    for string in sorted(ends, key=len):
        longest[frozenset(ends[string])] = string  # the last one that is written is the longest of its class
    name = {string: longest[frozenset(ends[string])] for string in ends}
    return {string: _state(string, ends, name) for string in longest.values()}


def _state(string, ends, name):
    links = (name[string[cut:]] for cut in range(1, len(string) + 1))
    link = next((other for other in links if other != string), None)
    following = {longer[-1]: name[longer] for longer in ends if longer[:-1] == string and longer}
    return len(string), link, min(ends[string]), following


def states_by_name(automaton, text):
    """The automaton's states in the form of `naive_states`."""
    states = automaton.states()
    names = [tuple(text[s["first_end"] + 1 - s["length"] : s["first_end"] + 1]) for s in states]
    assert len(set(names)) == len(names), "two states have the same longest string"
    return {
        name: (
            state["length"],
            names[state["link"]] if state["link"] >= 0 else None,
            state["first_end"],
            {token: names[target] for token, target in state["edges"].items()},
        )
        for name, state in zip(names, states, strict=True)
    }


@pytest.mark.parametrize("occurrences", [False, True])
@given(text=texts(max_size=24))
def test_states_are_those_of_the_minimal_automaton_after_every_token(occurrences, text):
    automaton = DynamicAutomaton(occurrences=occurrences)
    for size, token in enumerate(text, start=1):
        automaton.extend(token)
        automaton._check_invariants()
        assert states_by_name(automaton, text[:size]) == naive_states(text[:size])


@pytest.mark.parametrize("occurrences", [False, True])
@given(text=texts(max_size=120), data=st.data())
def test_invariants_hold_through_resets(occurrences, text, data):
    automaton = DynamicAutomaton(occurrences=occurrences)
    for token in text:
        automaton.extend(token)
        automaton._check_invariants()
        if data.draw(st.integers(0, 30)) == 0:
            automaton.reset()
            automaton._check_invariants()


@pytest.mark.parametrize("occurrences", [False, True])
@pytest.mark.parametrize(("alphabet", "size"), [(1, 500), (2, 2000), (5, 2000), (40, 2000), (2**31 - 1, 2000)])
def test_invariants_of_longer_texts(occurrences, alphabet, size):
    """Blocks of all sizes are taken, outgrown, given back, taken again; each slot must have one owner."""
    rng = np.random.default_rng(alphabet)
    automaton = DynamicAutomaton(occurrences=occurrences)
    for _ in range(3):
        automaton.extend(rng.integers(0, alphabet, size))
        automaton._check_invariants()
    automaton.reset()
    automaton.extend(rng.integers(0, alphabet, size))
    automaton._check_invariants()
