"""Faults that users of other matchers and draft indexes have reported, as scenarios for these: none may come back here.

Each test names the public report. What another test covers in full is not repeated: documents that run into each other
are in test_static.py, rejected options of the drafters in tests/decoding/test_options.py, damaged files in
test_index_files.py.
"""

import tomllib
from pathlib import Path

import numpy as np
import pytest

import samlib
from samlib import DynamicAutomaton, FingerprintError, StaticAutomaton, make_drafter
from samlib.automaton import dynamic, static

from .naive import NaiveStatic, check_draft_tree
from .strategies import LARGEST_ID

MANY = 1_000_000


def cursor_at(documents, query):
    """A fresh cursor over `documents` that has read `query`."""
    cursor = StaticAutomaton.build(documents).cursor()
    cursor.advance(query)
    return cursor


# --- options that are accepted but change nothing -------------------------------------------------------------------


def test_three_draft_modes_give_the_same_draft():
    """ml-explore/mlx-lm#1297: three draft modes made no difference. Here is a text on which each must differ."""
    text = [1, 2, 10, 5, 1, 2, 11, 6, 1, 2, 11, 7, 1, 2, 12, 8]
    cursor, automaton = cursor_at([text], [1, 2]), DynamicAutomaton(occurrences=True)
    automaton.extend([*text, 1, 2])
    for asked in (cursor, automaton):
        drafts = {choice: asked.draft(1, choice=choice).tolist() for choice in ("first", "latest", "frequent")}
        assert drafts == {"first": [10], "latest": [12], "frequent": [11]}
        assert asked.draft(1).tolist() == [10]


def test_a_draft_length_is_parsed_and_ignored():
    """vllm-project/vllm#15348: a maximum had no effect. Every size between none and all gives its own draft."""
    document = list(range(100, 150))
    cursor, automaton = cursor_at([document], [100]), DynamicAutomaton(occurrences=True)
    automaton.extend([*document, 100])
    for n in range(49):
        for asked in (cursor, automaton):
            assert asked.draft(n).tolist() == document[1 : n + 1]
            assert asked.draft_tree(n).tokens.tolist() == document[1 : n + 1]


def test_every_option_of_building_and_opening_has_an_effect(tmp_path):
    """ml-explore/mlx-lm#1297, vllm-project/vllm#15348: an option that is accepted must reach what it is for."""
    path = tmp_path / "index.sam"
    index = StaticAutomaton.build([[1, 2]], vocab_size=3, fingerprint="a")
    index.save(path)
    assert (index.vocab_size, index.fingerprint) == (3, "a")
    with pytest.raises(ValueError):
        StaticAutomaton.build([[1, 2]], vocab_size=2)
    for wrong in ({"vocab_size": 4}, {"fingerprint": "b"}):
        with pytest.raises(FingerprintError):
            StaticAutomaton.load(path, **wrong)
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(np.array([1, 2], dtype="<u2").tobytes(), 64)] ^= 1  # a token of the text
    path.write_bytes(damaged)
    StaticAutomaton.load(path)
    with pytest.raises(samlib.IndexFormatError):
        StaticAutomaton.load(path, verify=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda path: StaticAutomaton.build([[1, 2]], vocabsize=3),
        lambda path: StaticAutomaton.build([[1, 2]], finger_print="a"),
        lambda path: StaticAutomaton.load(path, nmap=True),
        lambda path: StaticAutomaton.load(path, verified=True),
        lambda path: DynamicAutomaton(occurrence=True),
        lambda path: cursor_at([[1, 2]], [1]).draft(3, choise="first"),
        lambda path: make_drafter("sam", l_treshold=3),
    ],
)
def test_a_misspelt_option_is_dropped_in_silence(call, tmp_path):
    """ml-explore/mlx-lm#1297: options that nobody reads. Here a name that is not an option is a TypeError."""
    path = tmp_path / "index.sam"
    StaticAutomaton.build([[1, 2]]).save(path)
    with pytest.raises(TypeError):
        call(path)


@pytest.mark.parametrize("choice", ["First", "", "last", "most_frequent", None, 0, b"first", ["first"]])
def test_an_unknown_choice_falls_back_to_some_other(choice):
    """vllm-project/vllm#15348: an unknown value fell back to a default in silence. Here it is refused, by name."""
    automaton = DynamicAutomaton(occurrences=True)
    automaton.extend([1, 2, 1])
    for asked in (cursor_at([[1, 2, 3]], [1]), automaton):
        with pytest.raises(ValueError, match="choice"):
            asked.draft(3, choice=choice)


# --- matches that run from one document into the next ---------------------------------------------------------------


@pytest.mark.parametrize("separator", [0, 1, 2, 151_643, LARGEST_ID])
def test_a_separator_that_is_also_data(separator):
    """google-research/deduplicate-text-datasets#39: the value that kept documents apart occurred inside them.

    No id is special here: one at either end, in the middle, twice in a row or alone is found like any other.
    """
    documents = [[separator], [10, separator, separator, 11], [separator, 12, separator], [12, 10]]
    naive, index = NaiveStatic(documents), StaticAutomaton.build(documents)
    for query in (
        [separator],
        [10, separator],
        [separator, separator],
        [11, separator],
        [12, separator, 12],
        [separator, 12],
    ):
        cursor = index.cursor()
        cursor.advance(query)
        assert cursor.match_length == naive.match_length(query)
        assert cursor.draft(9).tolist() == naive.draft(query, 9, "first")
        tree = cursor.draft_tree(9)
        check_draft_tree(tree.tokens, tree.parents, naive.remainders(query), 9)


def test_every_pair_of_neighbouring_documents_stays_apart():
    """huggingface/tokenizers#592: tokens of two texts were merged at their border.

    All documents begin and end alike, so that a match across any border would be longer than one inside.
    """
    documents = [[1, 2, 100 + number, 1, 2] for number in range(50)]
    index = StaticAutomaton.build(documents)
    for number in range(49):
        cursor = index.cursor()
        cursor.advance([100 + number, 1, 2, 1, 2])
        assert cursor.match_length == 2
        assert cursor.draft(9, choice="latest").tolist() == [149, 1, 2]
        cursor.advance(101 + number)
        assert (cursor.match_length, cursor.draft(9).tolist()) == (3, [1, 2])


# --- trees of a given size ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [1, 2, 3, 15, 16, 17, 63, 64, 299, 300, 301, 5000])
def test_one_context_has_more_continuations_than_the_tree_may_hold(budget):
    """FasterDecoding/REST#13: "not cut enough", where one context had many continuations."""
    documents = [[7, 1000 + other] for other in range(300)]
    tree = cursor_at(documents, [7]).draft_tree(budget)
    assert len(tree.tokens) == min(budget, 300)
    assert set(tree.parents.tolist()) == {-1}
    text = [token for document in documents for token in document]
    automaton = DynamicAutomaton(occurrences=True)
    automaton.extend([*text, 7])
    grown = automaton.draft_tree(budget)
    assert len(grown.tokens) == budget
    assert (grown.parents < np.arange(budget)).all()


@pytest.mark.parametrize("depth", [1, 2, 15, 16, 17, 64])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_the_tree_is_as_large_as_its_only_branch_is_deep(depth, more):
    """sgl-project/sglang#36495: invalid free where the capacity equalled the depth, since the root was counted."""
    document = list(range(depth + 1))
    tree = cursor_at([document], [0]).draft_tree(depth + more)
    assert tree.tokens.tolist() == document[1 : depth + more + 1]
    automaton = DynamicAutomaton(occurrences=True)
    automaton.extend([*document, 0])
    assert len(automaton.draft_tree(depth + more).tokens) == min(depth + more, depth + 1)


@pytest.mark.parametrize("size", [0, -1])
def test_a_drafter_without_room_for_a_token_is_refused(size):
    """FasterDecoding/REST#13, sgl-project/sglang#36495: a size that cannot be met failed while decoding, not before."""
    with pytest.raises(ValueError, match="draft_size"):
        make_drafter("sam", draft_size=size)


# --- work that grows faster than the text ---------------------------------------------------------------------------
# No clock is read: each of these is a moment of linear work, and would be hours where every step scanned the text.


def zeros(size):
    return np.zeros(size, dtype=np.int32)


def random_text(size):
    return np.random.default_rng(0).integers(0, 1000, size).astype(np.int32)


def fallbacks(size):
    """Long runs cut by another token: at each cut the match falls from hundreds of tokens to one."""
    return np.where(np.arange(size) % 500 == 499, 1, 0).astype(np.int32)


LONG_TEXTS = pytest.mark.parametrize("text", [zeros, random_text, fallbacks])


@LONG_TEXTS
@pytest.mark.parametrize("size", [MANY // 10, MANY])
def test_building_slows_down_with_the_corpus(text, size):
    """WojciechMula/pyahocorasick#49, vllm-project/vllm#16883: building was killed, or took for ever."""
    index = StaticAutomaton.build([text(size)])
    assert len(index) == size
    assert index.num_states <= 2 * size + 1
    assert index.nbytes < 100 * size


@LONG_TEXTS
@pytest.mark.parametrize(
    ("occurrences", "size"), [(False, MANY // 10), (False, MANY), (True, MANY // 10), (True, 3 * MANY // 10)]
)
def test_a_step_slows_down_with_the_context(text, occurrences, size):
    """vllm-project/vllm#22408: each step scanned all that came before; unusable from 50,000 tokens on."""
    automaton = DynamicAutomaton(occurrences=occurrences)
    automaton.extend(text(size))
    for token in text(2000).tolist():
        automaton.extend(token)
        assert len(automaton.draft(8)) in (0, 8)
    assert automaton.num_states <= 2 * len(automaton)
    assert automaton.nbytes < 250 * len(automaton)


@LONG_TEXTS
def test_a_long_query_slows_the_lookup_down(text):
    """vllm-project/vllm#22408: lookup grew with the range of matches. Here a million tokens are looked up."""
    cursor = StaticAutomaton.build([zeros(100_000), random_text(100_000)]).cursor()
    cursor.advance(text(MANY))
    assert cursor.match_length <= 100_000


def test_long_rejected_drafts_slow_later_steps_down():
    """vllm-project/vllm#22408: a draft is a question; however long, and refused, it leaves nothing behind."""
    text = random_text(5000)
    asked, left_alone = DynamicAutomaton(occurrences=True), DynamicAutomaton(occurrences=True)
    cursor, other = (StaticAutomaton.build([text]).cursor() for _ in range(2))
    for token in text[:300].tolist():
        for automaton in (asked, left_alone):
            automaton.extend(token)
        for walked in (cursor, other):
            walked.advance(token)
        asked.draft(5000)
        asked.draft(50, choice="frequent")
        asked.draft_tree(300)
        cursor.draft(5000, choice="latest")
        cursor.draft_tree(300)
    assert (asked.num_states, asked.states()) == (left_alone.num_states, left_alone.states())
    assert asked.draft_tree(99).tokens.tolist() == left_alone.draft_tree(99).tokens.tolist()
    assert (cursor.match_length, cursor.draft(50).tolist()) == (other.match_length, other.draft(50).tolist())


# --- compiled parts that do not fit what is around them -------------------------------------------------------------


def test_an_extension_needs_the_numpy_that_it_was_built_with():
    """cython/cython#4452, ratt-ru/CubiCal#180: an ABI error on import after numpy had changed.

    What is built against numpy's headers checks the running numpy when it is imported, and is built against the very
    version that it is installed with.
    """
    folder = Path(samlib.__file__).parent
    for source in folder.rglob("*.pyx"):
        text = source.read_text(encoding="utf-8")
        assert ("cimport numpy" in text) == ("import_array()" in text), source.name
    project = tomllib.loads((folder.parent / "pyproject.toml").read_text(encoding="utf-8"))
    lists = project["build-system"]["requires"], project["project"]["dependencies"]
    assert len(set(map(_version_of_numpy, lists))) == 1


def _version_of_numpy(requirements):
    (numpy,) = (name for name in requirements if name.startswith("numpy=="))
    return numpy


def test_the_compiled_part_is_another_installations():
    """pypa/pip#12704: an old extension was loaded after an update. Here each lies beside its source."""
    folder = Path(samlib.__file__).resolve().parent
    for module in (dynamic, static):
        assert Path(module.__file__).resolve().parent == folder / "automaton"
