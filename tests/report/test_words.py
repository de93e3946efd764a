"""The taught automaton agrees with looking at the text, and no two states are drawn in one place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samlib.report import WordAutomaton, draw_automaton
from samlib.report.draw import layout
from tests.automaton.naive import NaiveDynamic

TEXTS = st.lists(st.sampled_from("abc"), min_size=1, max_size=12)


@given(TEXTS)
def test_match_and_draft_are_what_the_text_shows(words):
    naive = NaiveDynamic(words)
    size, ends = naive.match_length, naive.match_ends()
    text = WordAutomaton(words)
    assert text.match_length == size
    assert text.draft() == (words[ends[0] :] if size else [])
    if size:
        assert text.earlier == range(ends[0] - size, ends[0])
        assert text.longest_string(text.match).split()[-size:] == words[-size:]


@given(TEXTS)
def test_states_do_not_cover_each_other(words):
    text = WordAutomaton(words)
    places = layout(text)
    assert set(places) == set(range(len(text.states)))
    assert len(set(places.values())) == len(places)


def test_the_table_names_clones_and_links():
    table = WordAutomaton("so the cat sat and the cat".split()).table()
    clones = table[table["kind"] == "clone"]
    assert sorted(clones["longest string"]) == ["the", "the cat"]
    assert table.loc[0, "kind"] == "root"


@pytest.mark.parametrize("words", [["a"], ["a", "b", "c"], ["a"] * 10, list("abcbcabcbc")])
def test_texts_with_and_without_a_match_can_be_drawn(words):
    fig = draw_automaton(WordAutomaton(words))
    fig.draw_without_rendering()
