"""The automaton in plain Python against brute force: readers are shown it, so it must be right."""

from hypothesis import given
from hypothesis import strategies as st

from samlib.bench.plain_automaton import PlainAutomaton
from tests.automaton.naive import NaiveDynamic

TEXTS = st.lists(st.integers(0, 2), max_size=40)


def over(text):
    automaton = PlainAutomaton()
    for token in text:
        automaton.extend(token)
    return automaton


def passage(automaton, state):
    """The longest passage of a state."""
    end = automaton.first_end[state] + 1
    return automaton.text[end - automaton.length[state] : end]


def count(text, part):
    return sum(text[start : start + len(part)] == part for start in range(len(text) - len(part) + 1))


def longest_suffix_in(text, query):
    return next(size for size in range(len(query), -1, -1) if count(text, query[len(query) - size :]))


@given(TEXTS)
def test_match_and_draft_are_those_of_a_search(text):
    automaton, naive = PlainAutomaton(), NaiveDynamic()
    for token in text:
        automaton.extend(token)
        naive.extend([token])
        assert automaton.match_length == naive.match_length
        ends = naive.match_ends()
        assert automaton.draft(5) == (naive.text[ends[0] : ends[0] + 5] if ends else [])


@given(TEXTS)
def test_every_state_knows_how_often_its_passages_occur(text):
    automaton = over(text)
    counted = [count(text, passage(automaton, state)) for state in range(1, len(automaton.edges))]
    assert automaton.occurrences() == [len(text), *counted]  # the root's: how many tokens there are


@given(TEXTS)
def test_first_end_is_the_earliest(text):
    automaton = over(text)
    for state in range(1, len(automaton.edges)):
        part = passage(automaton, state)
        first = next(start for start in range(len(text)) if text[start : start + len(part)] == part)
        assert automaton.first_end[state] == first + len(part) - 1


@given(TEXTS, TEXTS)
def test_another_text_is_followed_at_its_longest_match(text, query):
    automaton, state, size = over(text), 0, 0
    for read, token in enumerate(query, start=1):
        state, size = automaton.advance(state, size, token)
        assert size == longest_suffix_in(text, query[:read])
        assert automaton.length[automaton.link[state]] < size <= automaton.length[state] or size == 0


@given(st.lists(TEXTS, max_size=4))
def test_documents_are_apart_and_continuations_ranked(documents):
    automaton = PlainAutomaton()
    for document in documents:
        automaton.begin_document()
        for token in document:
            automaton.extend(token)
    counts = automaton.occurrences()
    ranked = automaton.ranked(counts)
    for state in range(1, len(counts)):
        part = passage(automaton, state)
        assert counts[state] == _count_all(documents, part)
        following = {token: _count_all(documents, [*part, token]) for token in range(3)}
        assert ranked[state] == [token for token in sorted(following, key=lambda t: -following[t]) if following[token]]


def _count_all(documents, part):
    return sum(count(document, part) for document in documents)
