"""StaticAutomaton and Cursor against the brute-force oracle: matches, drafts, document boundaries, bad input."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samlib import StaticAutomaton

from .inputs import BAD_FORMS, GOOD_FORMS
from .naive import NaiveStatic, check_draft_tree, check_frequent_draft, prefix_counts
from .strategies import LARGEST_ID, chunkings, corpora, corpora_and_queries, texts

CHOICES = ["first", "latest", "frequent"]


def cursor_at(documents, query):
    """A fresh cursor over `documents` that has read `query`."""
    cursor = StaticAutomaton.build(documents).cursor()
    cursor.advance(query)
    return cursor


def answers(cursor):
    """What a caller can see of a cursor."""
    tree = cursor.draft_tree(9)
    drafts = [cursor.draft(9, choice=choice).tolist() for choice in CHOICES]
    return cursor.match_length, drafts, [tree.tokens.tolist(), tree.parents.tolist()]


def check_cursor(cursor, naive, query, n=6):
    """Compare every answer of a cursor with brute force."""
    remainders = naive.remainders(query)
    assert cursor.match_length == naive.match_length(query)
    assert cursor.draft(n).tolist() == naive.draft(query, n, "first")
    assert cursor.draft(n, choice="latest").tolist() == naive.draft(query, n, "latest")
    frequent = cursor.draft(n, choice="frequent").tolist()
    check_frequent_draft(frequent, remainders, n)
    assert not frequent or tuple(frequent) in prefix_counts(rest[:n] for rest in remainders)
    tree = cursor.draft_tree(n)
    check_draft_tree(tree.tokens, tree.parents, remainders, n)


# --- against brute force ------------------------------------------------------------------------------------------


@given(case=corpora_and_queries())
def test_every_answer_after_every_token(case):
    documents, query = case
    naive = NaiveStatic(documents)
    cursor = StaticAutomaton.build(documents).cursor()
    for size in range(len(query) + 1):
        check_cursor(cursor, naive, query[:size])
        cursor.advance(query[size : size + 1])


@given(case=corpora_and_queries(), n=st.integers(0, 60))
def test_every_draft_size(case, n):
    documents, query = case
    cursor, naive = cursor_at(documents, query), NaiveStatic(documents)
    check_cursor(cursor, naive, query, n or 1)
    assert cursor.draft(n).tolist() == naive.draft(query, n, "first")


@given(document=texts(max_size=30), query=texts(max_size=8))
def test_a_single_document(document, query):
    check_cursor(cursor_at([document], query), NaiveStatic([document]), query)


@given(case=corpora_and_queries(), data=st.data())
def test_advancing_in_chunks_equals_single_tokens(case, data):
    documents, query = case
    index = StaticAutomaton.build(documents)
    chunked, single = index.cursor(), index.cursor()
    for chunk in data.draw(chunkings(query)):
        chunked.advance(chunk)
    for token in query:
        single.advance(token)
    assert answers(chunked) == answers(single)


@given(case=corpora_and_queries(), before=texts(max_size=10))
def test_reset_leaves_nothing_behind(case, before):
    documents, query = case
    cursor = StaticAutomaton.build(documents).cursor()
    cursor.advance(before)
    cursor.reset()
    assert (cursor.match_length, cursor.draft(5).tolist()) == (0, [])
    check_cursor(cursor, NaiveStatic(documents), [])
    cursor.advance(query)
    check_cursor(cursor, NaiveStatic(documents), query)


@given(documents=corpora())
def test_sizes(documents):
    index = StaticAutomaton.build(documents)
    tokens = sum(map(len, documents))
    assert len(index) == tokens
    assert index.num_documents == len(documents)
    assert index.num_states <= tokens + 1
    assert index.nbytes > 0


@given(documents=corpora())
def test_no_state_is_stored_twice_and_none_without_need(documents):
    """An index with a state too many answers just as well, so only its size tells."""
    assert StaticAutomaton.build(documents).num_states == NaiveStatic(documents).num_states()


@given(case=corpora_and_queries(), extra=st.lists(st.sampled_from([90, 91, 92]), max_size=6))
def test_another_document_changes_nothing_inside_the_old_ones(case, extra):
    """A document over other tokens, in front or behind, leaves matches, drafts and counts alone."""
    documents, query = case
    expected = answers(cursor_at(documents, query))
    assert answers(cursor_at([*documents, extra], query)) == expected
    match, drafts, _ = answers(cursor_at([extra, *documents], query))
    assert (match, drafts[:2]) == (expected[0], expected[1][:2])


def test_a_larger_random_corpus():
    rng = np.random.default_rng(5)
    documents = [rng.integers(0, 4, rng.integers(0, 60)).tolist() for _ in range(40)]
    naive, cursor, query = NaiveStatic(documents), StaticAutomaton.build(documents).cursor(), []
    for _ in range(60):
        step = documents[rng.integers(40)][:7] if rng.random() < 0.2 else [int(rng.integers(0, 4))]
        query += step
        cursor.advance(step)
        check_cursor(cursor, naive, query[-40:], n=20)


# --- documents never run into each other --------------------------------------------------------------------------

EOS = 2
TWO = [[10, 11, 12], [20, 21, 22]]


def test_no_draft_crosses_a_boundary():
    cursor = cursor_at(TWO, [11])
    assert (cursor.match_length, cursor.draft(9).tolist()) == (1, [12])


def test_no_match_at_a_documents_end():
    """12 has no continuation inside its document, and neither has any longer suffix."""
    cursor = cursor_at(TWO, [11, 12])
    assert (cursor.match_length, cursor.draft(9).tolist(), len(cursor.draft_tree(9).tokens)) == (0, [], 0)


def test_no_match_crosses_a_boundary():
    cursor = cursor_at(TWO, [12, 20])
    assert (cursor.match_length, cursor.draft(9).tolist()) == (1, [21, 22])


def test_nothing_follows_an_eos_that_ends_its_document():
    cursor = cursor_at([[10, 11, EOS], [20, 21, EOS]], [11, EOS])
    assert (cursor.match_length, cursor.draft(9).tolist()) == (0, [])


def test_an_eos_inside_a_document_is_a_token_like_another():
    cursor = cursor_at([[10, EOS, 11, 12], [20, EOS]], [10, EOS])
    assert (cursor.match_length, cursor.draft(9).tolist()) == (2, [11, 12])
    cursor.advance(11)
    assert (cursor.match_length, cursor.draft(9).tolist()) == (3, [12])


def test_a_match_without_continuation_gives_way_to_a_shorter_one():
    """[1, 2, 3] ends its document; of its suffixes only [3] goes on somewhere."""
    cursor = cursor_at([[1, 2, 3], [3, 4]], [1, 2, 3])
    assert (cursor.match_length, cursor.draft(9).tolist()) == (1, [4])


def test_the_longest_match_is_remembered_past_a_dead_end():
    """After [1, 2] only the second document goes on, yet [1, 2, 3] must match whole once 3 arrives."""
    documents = [[2, 9], [1, 2, 3, 4], [1, 2]]
    cursor = cursor_at(documents, [1])
    for token in (2, 3):
        cursor.advance(token)
    assert (cursor.match_length, cursor.draft(9).tolist()) == (3, [4])


@pytest.mark.parametrize("documents", [[], [[]], [[], [], []]])
def test_nothing_to_search(documents):
    index = StaticAutomaton.build(documents)
    cursor = index.cursor()
    cursor.advance([1, 2, 3])
    assert (len(index), index.num_documents) == (0, len(documents))
    assert answers(cursor) == (0, [[], [], []], [[], []])


def test_empty_documents_count_as_documents():
    index = StaticAutomaton.build([[], [1, 2, 3], [], [1, 2, 4], []])
    cursor = index.cursor()
    cursor.advance([1, 2])
    assert (index.num_documents, len(index)) == (5, 6)
    assert cursor.draft(3).tolist() == [3]
    assert cursor.draft(3, choice="latest").tolist() == [4]


def test_duplicate_documents_count_twice():
    once, twice = [1, 2, 8], [1, 2, 9]
    cursor = cursor_at([once, twice, twice], [1, 2])
    assert cursor.draft(1, choice="first").tolist() == [8]
    assert cursor.draft(1, choice="frequent").tolist() == [9]
    assert cursor.draft_tree(2).tokens.tolist() == [9, 8]


def test_first_skips_an_earlier_occurrence_without_continuation():
    cursor = cursor_at([[5, 1, 2], [6, 1, 2, 7], [1, 2, 8], [4, 1, 2]], [1, 2])
    assert cursor.match_length == 2
    assert cursor.draft(3, choice="first").tolist() == [7]
    assert cursor.draft(3, choice="latest").tolist() == [8]


def test_a_document_is_a_prefix_of_another():
    naive = [[1, 2], [1, 2, 3], [1, 2, 3, 4], [1, 2]]
    for query in ([1], [1, 2], [1, 2, 3], [1, 2, 3, 4], [2], [2, 3]):
        check_cursor(cursor_at(naive, query), NaiveStatic(naive), query)


def test_the_draft_of_a_run_ends_with_its_document():
    """Unlike the dynamic draft, a static one is never continued periodically."""
    cursor = cursor_at([[7] * 10], [7] * 4)
    assert (cursor.match_length, cursor.draft(40).tolist()) == (4, [7] * 6)
    cursor.advance([7] * 40)
    assert (cursor.match_length, cursor.draft(40).tolist()) == (9, [7])


# --- cursors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("foreign", [0, 3, 99, LARGEST_ID])
def test_an_unknown_id_is_no_match_and_the_walk_starts_anew(foreign):
    cursor = cursor_at([[10, 11, 12]], [10, 11, foreign])
    assert answers(cursor) == (0, [[], [], []], [[], []])
    cursor.advance(10)
    assert (cursor.match_length, cursor.draft(5).tolist()) == (1, [11, 12])


@pytest.mark.parametrize("form", GOOD_FORMS)
def test_accepted_forms_of_ids(form):
    cursor = StaticAutomaton.build([form([3, 4, 5, 6])]).cursor()
    cursor.advance(form([3, 4]))
    assert (cursor.match_length, cursor.draft(9).tolist()) == (2, [5, 6])


@pytest.mark.parametrize("one", [10, np.int32(10), np.int64(10), np.array(10)])
def test_advance_by_one_id(one):
    assert cursor_at([[10, 11]], one).draft(1).tolist() == [11]


@pytest.mark.parametrize("empty", [[], (), np.array([], dtype=np.int32), range(0)])
def test_advance_by_nothing(empty):
    cursor = cursor_at([[10, 11, 12]], [10])
    cursor.advance(empty)
    assert (cursor.match_length, cursor.draft(1).tolist()) == (1, [11])


@pytest.mark.parametrize(("bad", "error"), BAD_FORMS)
def test_bad_ids_leave_the_cursor_alone(bad, error):
    cursor = cursor_at([[1, 2, 3, 1, 2, 4]], [3, 1])
    before = answers(cursor)
    with pytest.raises(error) as caught:
        cursor.advance(bad)
    assert "\n" not in str(caught.value)
    assert answers(cursor) == before


def test_a_draft_is_the_callers_own_copy():
    cursor = cursor_at([[1, 2, 3, 4]], [1])
    draft = cursor.draft(3)
    assert draft.dtype == np.int32
    draft[:] = 0
    assert cursor.draft(3).tolist() == [2, 3, 4]


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("query", [[], [1]])
def test_draft_sizes_at_the_edge(choice, query):
    cursor = cursor_at([[1, 1, 1]], query)
    assert cursor.draft(0, choice=choice).tolist() == []
    for bad, error in [(-1, ValueError), (1.5, TypeError), ("3", TypeError)]:
        with pytest.raises(error):
            cursor.draft(bad, choice=choice)
        with pytest.raises(error):
            cursor.draft_tree(bad)


def test_an_unknown_choice_is_refused():
    with pytest.raises(ValueError, match="first"):
        cursor_at([[1, 1, 1]], [1]).draft(3, choice="newest")


def test_a_cursor_outlives_the_name_of_its_index():
    cursor = cursor_at([[1, 2, 3]] * 100, [1])
    assert cursor.draft(2).tolist() == [2, 3]


@pytest.mark.parametrize("budget", [1, 2, 3, 16, 64, 400])
def test_a_context_with_300_continuations(budget):
    documents = [[7, 1000 + other] for other in range(300)] + [[7, 1005, 6]]
    tree = cursor_at(documents, [7]).draft_tree(budget)
    check_draft_tree(tree.tokens, tree.parents, NaiveStatic(documents).remainders([7]), budget)
    assert (int(tree.tokens[0]), int(tree.parents[0])) == (1005, -1)


@pytest.mark.parametrize("fan_out", [1, 2, 3, 15, 16, 17, 18, 31, 32, 33, 300])
def test_splitting_a_state_keeps_its_continuations(fan_out):
    """7 always stood after 8, with many continuations; once it stands after 9, its state is split from that of 8, 7."""
    documents = [[8, 7, 1000 + other, 5] for other in range(fan_out)] + [[9, 7, 1000, 5]]
    cursor = StaticAutomaton.build(documents).cursor()
    for other in range(fan_out):
        for before, length in [(8, 3), (6, 2)]:
            cursor.advance([before, 7, 1000 + other])
            assert (cursor.match_length, cursor.draft(9).tolist()) == (length, [5])
    cursor.advance([6, 7])
    tree = cursor.draft_tree(2 * fan_out)
    check_draft_tree(tree.tokens, tree.parents, NaiveStatic(documents).remainders([7]), 2 * fan_out)


@pytest.mark.parametrize("budget", [1, 2, 3, 16, 64, 400])
def test_five_long_branches(budget):
    documents = [[7] + [100 * branch + depth for depth in range(40)] for branch in range(1, 6)]
    tree = cursor_at(documents, [7]).draft_tree(budget)
    check_draft_tree(tree.tokens, tree.parents, NaiveStatic(documents).remainders([7]), budget)
    assert len(tree.tokens) == min(budget, 200)


def test_eight_threads_share_one_index():
    rng = np.random.default_rng(0)
    documents = [rng.integers(0, 5, 200) for _ in range(50)]
    index = StaticAutomaton.build(documents)
    queries = [rng.integers(0, 6, 1500) for _ in range(8)]

    def walk(query):
        cursor, seen = index.cursor(), []
        for token in query:
            cursor.advance(int(token))
            seen.append((cursor.match_length, cursor.draft(8).tolist(), cursor.draft_tree(6).tokens.tolist()))
        return seen

    expected, results = [walk(query) for query in queries], [None] * 8

    def work(number):
        results[number] = walk(queries[number])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == expected


# --- building -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "documents",
    [
        pytest.param(iter([[1, 2, 3], [4, 5]]), id="iterator"),
        pytest.param(([token] * 3 for token in (1, 4)), id="generator"),
        pytest.param(np.array([[1, 2, 3], [4, 5, 6]]), id="matrix-of-rows"),
        pytest.param((range(1, 4), [4, 5]), id="tuple"),
    ],
)
def test_forms_of_a_corpus(documents):
    assert StaticAutomaton.build(documents).num_documents == 2


@pytest.mark.parametrize(("bad", "error"), [form for form in BAD_FORMS if form.id not in ("two-rows", "nested-lists")])
def test_a_bad_document_is_refused(bad, error):
    with pytest.raises((TypeError, ValueError) if np.isscalar(bad) else error) as caught:
        StaticAutomaton.build([[1, 2], bad, [3]])
    assert "\n" not in str(caught.value)


def test_the_caller_may_reuse_one_buffer_for_every_document():
    buffer = np.empty(3, dtype=np.int32)

    def documents():
        for start in (10, 20, 30):
            buffer[:] = [start, start + 1, start + 2]
            yield buffer

    cursor = StaticAutomaton.build(documents()).cursor()
    cursor.advance(10)
    assert (cursor.match_length, cursor.draft(2).tolist()) == (1, [11, 12])


def test_a_flat_list_of_ids_is_not_a_corpus():
    with pytest.raises((TypeError, ValueError)):
        StaticAutomaton.build([1, 2, 3])


def test_ids_beyond_the_vocabulary_are_refused():
    assert StaticAutomaton.build([[0, 9]], vocab_size=10).vocab_size == 10
    with pytest.raises(ValueError, match="10"):
        StaticAutomaton.build([[0, 1], [9, 10]], vocab_size=10)


def test_the_cursor_takes_ids_beyond_the_vocabulary():
    cursor = StaticAutomaton.build([[0, 1]], vocab_size=10).cursor()
    cursor.advance([0, 99, LARGEST_ID])
    assert cursor.match_length == 0


def test_fingerprint_is_kept():
    assert StaticAutomaton.build([[1]], fingerprint="tokenizer of x").fingerprint == "tokenizer of x"


def test_building_from_texts_adds_no_special_tokens():
    class Letters:
        """A tokenizer that puts a BOS in front unless told not to."""

        bos_token_id = 0

        def __call__(self, text, add_special_tokens=True, **_):
            texts = [text] if isinstance(text, str) else text
            rows = [[0] * add_special_tokens + [ord(letter) for letter in one] for one in texts]
            return {"input_ids": rows[0] if isinstance(text, str) else rows}

        def encode(self, text, add_special_tokens=True, **_):
            return self(text, add_special_tokens)["input_ids"]

        def __len__(self):
            return 128

    index = StaticAutomaton.from_texts(["abc", "abd"], Letters())
    assert (len(index), index.num_documents) == (6, 2)


@pytest.mark.parametrize("size", [20_000, 40_000])
def test_one_token_for_long_builds_in_linear_space(size):
    """Pushing counts up the link chain at each append would make this quadratic: half an hour, not a moment."""
    index = StaticAutomaton.build([np.zeros(size, dtype=np.int32)])
    cursor = index.cursor()
    cursor.advance(np.zeros(size // 2, dtype=np.int32))
    assert cursor.match_length == size // 2
    assert index.num_states <= size + 1
    assert index.nbytes < 60 * size
    tree = cursor.draft_tree(20)
    assert (tree.tokens.tolist(), tree.parents.tolist()) == ([0] * 20, list(range(-1, 19)))


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 131_073])
def test_labels_whose_length_just_does_or_does_not_fit_16_bits(size):
    """One label leads down the long run that two documents begin with; what follows the run tells them apart."""
    run = np.arange(10, size + 10)
    cursor = cursor_at([[*run, 1], [*run, 2]], [10])
    assert cursor.draft(size).tolist() == [*run[1:].tolist(), 1]
    assert cursor.draft(size, choice="latest").tolist() == [*run[1:].tolist(), 2]
    cursor.advance(run[1:])
    assert (cursor.match_length, cursor.draft_tree(2).tokens.tolist()) == (size, [1, 2])


@pytest.mark.parametrize("largest", [65_535, 65_536, 65_537])
def test_ids_that_just_do_or_do_not_fit_16_bits(largest):
    cursor = cursor_at([[largest, 0, largest], [1, largest]], [0])
    assert cursor.draft(1).tolist() == [largest]
    cursor.advance([0, largest - 65_536 if largest > 65_535 else 2])
    cursor.advance(largest)
    assert (cursor.match_length, cursor.draft(9).tolist()) == (1, [0, largest])


def test_counts_do_not_overflow_or_saturate_early():
    """70,000 occurrences of one continuation and 70,001 of another are told apart (more than 16 bits)."""
    documents = [np.array([7, 1] * 70_000 + [7, 2] * 70_001, dtype=np.int32)]
    tree = cursor_at(documents, [7]).draft_tree(2)
    assert int(tree.tokens[0]) == 2
