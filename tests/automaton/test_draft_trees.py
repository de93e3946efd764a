"""Limits of draft trees, probabilities of their nodes, and cursors whose matches are bounded: against brute force."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samlib import DynamicAutomaton, StaticAutomaton

from .naive import NaiveDynamic, NaiveStatic, prefix_counts, tree_paths
from .strategies import LARGEST_ID, corpora_and_queries, texts

SHARES = [0, 0.1, 0.25, 1 / 3, 0.5, 2 / 3, 0.7, 1]
LIMITS = {"max_depth": st.none() | st.integers(1, 9), "min_probability": st.sampled_from(SHARES)}


def asked(kind, text, documents=()):
    """A cursor over `documents`, or a dynamic automaton, that was told a text."""
    automaton = StaticAutomaton.build(documents).cursor() if kind == "static" else DynamicAutomaton(occurrences=True)
    (automaton.advance if kind == "static" else automaton.extend)(text)
    return automaton


def check_tree(tree, probabilities, remainders, occurrences, n, *, max_depth, min_probability):
    """The n likeliest nodes within the limits, best first, each with the share of occurrences that took its path."""
    counts = prefix_counts(rest[: n if max_depth is None else min(n, max_depth)] for rest in remainders)
    shares = {path: count / occurrences for path, count in counts.items() if count / occurrences >= min_probability}
    paths = tree_paths(tree.tokens, tree.parents)
    assert len(set(paths)) == len(paths)
    assert probabilities.dtype == np.float64
    assert probabilities.tolist() == [shares[path] for path in paths] == sorted(shares.values(), reverse=True)[:n]


def all_occurrences(documents, pattern):
    """How often a pattern stands in the documents, at their ends, too."""
    size = len(pattern)
    return sum(list(d[i : i + size]) == list(pattern) for d in documents for i in range(len(d) - size + 1))


@given(text=texts(), n=st.integers(1, 40), limits=st.fixed_dictionaries(LIMITS))
def test_limits_of_a_dynamic_tree(text, n, limits):
    tree, probabilities = asked("dynamic", text).draft_tree(n, **limits, return_probabilities=True)
    remainders = NaiveDynamic(text).remainders()
    check_tree(tree, probabilities, remainders, len(remainders), n, **limits)


@given(case=corpora_and_queries(), n=st.integers(1, 40), limits=st.fixed_dictionaries(LIMITS))
def test_limits_of_a_static_tree(case, n, limits):
    documents, query = case
    tree, probabilities = asked("static", query, documents).draft_tree(n, **limits, return_probabilities=True)
    naive = NaiveStatic(documents)
    match = query[len(query) - naive.match_length(query) :]
    occurrences = all_occurrences(documents, match) if match else 1
    check_tree(tree, probabilities, naive.remainders(query), occurrences, n, **limits)


@given(case=corpora_and_queries(), n=st.integers(0, 9))
def test_without_limits_the_tree_is_what_it_was(case, n):
    documents, query = case
    for automaton in (asked("static", query, documents), asked("dynamic", query)):
        tree, wide = automaton.draft_tree(n), automaton.draft_tree(n, max_depth=99, min_probability=0.0)
        pair, probabilities = automaton.draft_tree(n, return_probabilities=True)
        for other in (wide, pair):
            assert (other.tokens.tolist(), other.parents.tolist()) == (tree.tokens.tolist(), tree.parents.tolist())
            assert (other.source, other.match_length) == (tree.source, tree.match_length)
        assert len(probabilities) == len(tree)


@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_a_search_leaves_no_limit_behind(kind):
    text = [1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 6, 1, 2]
    automaton = asked(kind, text if kind == "dynamic" else [1, 2], [text])
    before = automaton.draft_tree(9).tokens.tolist()
    assert automaton.draft_tree(9, max_depth=1, min_probability=0.5).tokens.tolist() == [3]
    assert automaton.draft_tree(9).tokens.tolist() == before and len(before) == 9


def test_the_end_of_a_document_counts_as_an_occurrence_and_the_end_of_the_text_does_not():
    """1 2 went on with 3 once, in a document; it ends another. In the text, what follows its end is not known yet."""
    cursor, automaton = asked("static", [1, 2], [[1, 2, 3], [0, 1, 2]]), asked("dynamic", [1, 2, 3, 1, 2])
    assert cursor.draft_tree(1, return_probabilities=True)[1].tolist() == [0.5]
    assert automaton.draft_tree(1, return_probabilities=True)[1].tolist() == [1.0]


@pytest.mark.parametrize("place", [0, 1, 7, 150, 299])
@pytest.mark.parametrize("share", [1, 2, 3])
def test_the_search_of_a_wide_state_ends_early_but_not_too_early(place, share):
    """300 tokens followed 7 once, and 5 did `share` times out of share + 1; whichever came when, 5 is found."""
    text = [token for other in range(300) for token in (7, 1000 + other)]
    text[2 * place : 2 * place] = [7, 5] * 300 * share
    least = share / (share + 1)
    tree, probabilities = asked("dynamic", [*text, 7]).draft_tree(
        9, max_depth=1, min_probability=least, return_probabilities=True
    )
    assert (tree.tokens.tolist(), probabilities.tolist()) == ([5], [least])


@pytest.mark.parametrize("kind", ["static", "dynamic"])
@pytest.mark.parametrize(
    ("limit", "error"),
    [
        ({"max_depth": 0}, ValueError),
        ({"max_depth": -1}, ValueError),
        ({"max_depth": 1.5}, TypeError),
        ({"max_depth": True}, TypeError),
        ({"max_depth": "3"}, TypeError),
        ({"min_probability": -0.1}, ValueError),
        ({"min_probability": 1.1}, ValueError),
        ({"min_probability": float("nan")}, ValueError),
        ({"min_probability": "0.1"}, TypeError),
        ({"min_probability": None}, TypeError),
        ({"min_probability": True}, TypeError),
        ({"min_prob": 0.1}, TypeError),
    ],
)
def test_bad_limits_are_refused_by_name(kind, limit, error):
    for text in ([1, 1, 1], [1]):
        with pytest.raises(error, match=next(iter(limit))) as caught:
            asked(kind, text, [[1, 1, 1]]).draft_tree(3, **limit)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["static", "dynamic"])
@pytest.mark.parametrize("limit", [2**31 - 1, 2**31, 10**30])
def test_limits_larger_than_any_text(kind, limit):
    assert asked(kind, [1, 2, 1], [[1, 2, 1]]).draft_tree(3, max_depth=limit).tokens.tolist() == [2, 1]


# --- matches of bounded length ----------------------------------------------------------------------------------------


def bounded(documents, limit):
    return StaticAutomaton.build(documents).cursor(max_match_length=limit)


def check_bounded(cursor, naive, query, limit):
    """The cursor answers as one that was told the last `limit` tokens only."""
    known = query[max(len(query) - limit, 0) :]
    assert cursor.match_length == naive.match_length(known)
    for choice in ("first", "latest"):
        assert cursor.draft(6, choice=choice).tolist() == naive.draft(known, 6, choice)
    remainders = naive.remainders(known)
    counts = prefix_counts(rest[:6] for rest in remainders)
    assert [counts[path] for path in tree_paths(*_tree(cursor))] == sorted(counts.values(), reverse=True)[:6]


def _tree(cursor):
    tree = cursor.draft_tree(6)
    return tree.tokens, tree.parents


@given(case=corpora_and_queries(), limit=st.integers(1, 9))
def test_a_bounded_cursor_knows_the_last_tokens_only(case, limit):
    documents, query = case
    naive, cursor = NaiveStatic(documents), bounded(documents, limit)
    for size in range(1, len(query) + 1):
        cursor.advance(query[size - 1])
        check_bounded(cursor, naive, query[:size], limit)
    chunked = bounded(documents, limit)
    chunked.advance(query)
    assert (chunked.match_length, chunked.draft(9).tolist()) == (cursor.match_length, cursor.draft(9).tolist())


def test_a_bounded_cursor_on_a_larger_corpus():
    rng = np.random.default_rng(8)
    documents = [rng.integers(0, 3, rng.integers(0, 60)).tolist() for _ in range(30)]
    query = [token for _ in range(6) for token in documents[rng.integers(30)][:40]]
    for limit in (1, 2, 5, 16, 40):
        naive, cursor = NaiveStatic(documents), bounded(documents, limit)
        for size in range(1, len(query) + 1):
            cursor.advance(query[size - 1])
            if size % 7 == 0:
                check_bounded(cursor, naive, query[:size], limit)


def test_a_bound_outlives_reset_and_pickling(tmp_path):
    index = StaticAutomaton.build([[1, 2, 3, 4, 5, 6, 7]])
    index.save(tmp_path / "index.sam")
    cursor = index.cursor(max_match_length=2)
    cursor.advance([1, 2, 3])
    copy = pickle.loads(pickle.dumps(cursor))
    assert (copy.match_length, copy.draft(2).tolist()) == (cursor.match_length, cursor.draft(2).tolist()) == (2, [4, 5])
    cursor.reset()
    for other in (cursor, copy):
        other.advance([4, 5, 6])
        assert other.match_length == 2


@pytest.mark.parametrize(("bad", "error"), [(0, ValueError), (-1, ValueError), (2.0, TypeError), (True, TypeError)])
def test_a_bad_bound_is_refused(bad, error):
    with pytest.raises(error, match="max_match_length"):
        StaticAutomaton.build([[1, 2]]).cursor(max_match_length=bad)


@pytest.mark.parametrize("bound", [None, 10**30])
def test_no_bound(bound):
    cursor = StaticAutomaton.build([[*range(100), LARGEST_ID]]).cursor(max_match_length=bound)
    cursor.advance(range(100))
    assert (cursor.match_length, cursor.draft(1).tolist()) == (100, [LARGEST_ID])
