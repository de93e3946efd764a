"""REST against its definition in plain Python, and beside the package that bears its index's name."""

import importlib.util
import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import samlib
from samlib import StaticAutomaton, make_drafter
from samlib.bench.child import run_child
from samlib.drafters.rest import Rest

from ..automaton.naive import tree_paths
from ..automaton.strategies import SMALL_IDS, corpora, texts
from . import retriever
from .naive import rest_tree
from .replay import check_draft, ids, replay


def started(prompt, documents, **options):
    drafter = make_drafter("rest", static=StaticAutomaton.build(documents), **options)
    drafter.begin(ids(prompt))
    return drafter


def check_against_definition(draft, documents, known, room, draft_size=64, **options):
    """The draft is the definition's; among nodes of equal count, any may have been taken."""
    span, counts = rest_tree(documents, known, room=room, **options) if room else (0, {})
    paths = tree_paths(draft.tokens, draft.parents)
    assert (draft.source, draft.match_length) == (("static", span) if span else ("none", 0))
    assert len(set(paths)) == len(paths)
    assert [counts[path] for path in paths] == sorted(counts.values(), reverse=True)[:draft_size]


@given(
    prompt=texts(20, SMALL_IDS).filter(bool),
    stream=texts(30, SMALL_IDS).filter(bool),
    documents=corpora(alphabets=SMALL_IDS),
    options=st.fixed_dictionaries(
        {
            "draft_size": st.integers(1, 70),
            "max_ngram": st.integers(3, 9),
            "min_ngram": st.integers(1, 3),
            "continuation": st.integers(1, 11),
        }
    ),
    max_room=st.sampled_from([0, 1, 3, 99]),
)
def test_every_draft_is_that_of_the_definition(prompt, stream, documents, options, max_room):
    drafter = make_drafter("rest", static=StaticAutomaton.build(documents), **options)
    for step in replay(drafter, prompt, stream, max_room=max_room):
        check_draft(step.draft, room=step.room, size=options["draft_size"])
        check_against_definition(step.draft, documents, step.known, step.room, **options)


def test_the_defaults_are_the_authors():
    """Spans of 16 tokens down to 2, the next 10 tokens of each occurrence, at most 64 nodes."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(Rest).parameters.items()}
    defaults.pop("static")
    assert defaults == {"draft_size": 64, "max_ngram": 16, "min_ngram": 2, "continuation": 10}
    document = list(range(100, 150))
    draft = started(document[:20], [document]).propose(99)
    assert (draft.source, draft.match_length, draft.tokens.tolist()) == ("static", 16, document[20:30])
    assert draft.is_chain
    assert started([5, 101], [document]).propose(99).source == "none"
    assert started([100, 101], [document]).propose(99).match_length == 2
    branches = [[1, 2, 100 + branch, *range(200, 220)] for branch in range(20)]
    assert len(started([1, 2], branches).propose(99)) == 64


def test_a_span_of_16_tokens_is_all_that_is_looked_at():
    """Longer matches change nothing: 17 tokens agree with the first document, 16 with both."""
    span = list(range(100, 116))
    documents = [[1, *span, 7], [2, *span, 8], [3, *span, 8]]
    draft = started([1, *span], documents).propose(9)
    assert (draft.match_length, draft.tokens.tolist(), draft.parents.tolist()) == (16, [8, 7], [-1, -1])
    assert started([1, *span], documents, max_ngram=17).propose(9).tokens.tolist() == [7]


def test_the_longest_span_wins_however_rare():
    documents = [[1, 2, 3, 9], *[[8, 2, 3, 7]] * 5]
    assert started([1, 2, 3], documents).propose(9).tokens.tolist() == [9]
    assert started([4, 2, 3], documents).propose(9).tokens.tolist() == [7, 9]


def test_continuations_are_merged_by_prefix():
    documents = [[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 6]]
    draft = started([1, 2], documents).propose(9)
    assert draft.tokens[:2].tolist() == [3, 4]
    assert sorted(tree_paths(draft.tokens, draft.parents)) == [(3,), (3, 4), (3, 5), (6,)]


def test_documents_never_run_into_each_other():
    assert len(started([2, 3], [[1, 2], [3, 4]]).propose(9)) == 0
    assert started([1, 2], [[1, 2, 5], [6, 7]]).propose(9).tokens.tolist() == [5]
    assert len(started([1, 2, 5], [[1, 2, 5], [6, 7]]).propose(9)) == 0


def test_prompt_and_generated_tokens_are_looked_up_but_never_copied():
    """The text itself is no source: only the store is."""
    drafter = started([1, 2, 3, 1], [[2, 3, 4, 5]])
    assert drafter.propose(9).source == "none"
    drafter.observe(ids([2]))
    assert drafter.propose(9).source == "none"
    drafter.observe(ids([3]))
    assert (drafter.propose(9).tokens.tolist(), drafter.propose(9).match_length) == ([4, 5], 2)


def test_without_a_store_it_says_how_to_build_one():
    with pytest.raises(samlib.MissingAssetError, match=r"datastore.*StaticAutomaton") as caught:
        make_drafter("rest")
    assert isinstance(caught.value, FileNotFoundError) and "\n" not in str(caught.value)


def test_spans_must_not_be_the_wrong_way_round():
    with pytest.raises(ValueError, match="max_ngram"):
        make_drafter("rest", static=StaticAutomaton.build([]), max_ngram=3, min_ngram=4)


@pytest.mark.parametrize("documents", [[], [[]], [[1]]])
def test_an_empty_store_drafts_nothing(documents):
    assert started([1, 1, 1], documents).propose(9).source == "none"


@pytest.mark.parametrize("draft_size", [1, 2, 3, 16, 64])
@pytest.mark.parametrize(
    "documents",
    [
        pytest.param([[6, 7, 1000 + other] for other in range(300)] + [[6, 7, 1005, 3]], id="300 continuations"),
        pytest.param([[6, 7] + [100 * branch + depth for depth in range(40)] for branch in range(1, 6)], id="5 long"),
    ],
)
def test_more_continuations_than_the_budget(documents, draft_size):
    """FasterDecoding/REST#13: "draft_choices was not cut enough" ended a request."""
    draft = started([5, 6, 7], documents, draft_size=draft_size).propose(99)
    check_against_definition(draft, documents, [5, 6, 7], 99, draft_size=draft_size)
    available = 301 if len(documents) > 5 else 50
    assert len(draft) == min(draft_size, available)


# --- beside the package DraftRetriever --------------------------------------------------------------------------------

needs_draftretriever = pytest.mark.skipif(
    importlib.util.find_spec("draftretriever") is None, reason="draftretriever is not installed"
)


def both(documents, queries):
    """[(our paths, the package's)] for each query; the package runs in a process of its own, which it may end."""
    theirs, reason = run_child(f"{retriever.__name__}:search", documents=documents, queries=queries)
    assert reason is None
    ours = [started(query, documents, max_ngram=2).propose(99) for query in queries]
    paths = [set(tree_paths(draft.tokens, draft.parents)) for draft in ours]
    return [(mine, set(map(tuple, answer["paths"]))) for mine, answer in zip(paths, theirs, strict=True)]


@needs_draftretriever
def test_draftretriever_agrees_on_what_follows_two_tokens():
    """Its first tokens are among ours, and the same where there are two at most; of more, its search may miss some."""
    rng = np.random.default_rng(6)
    documents = [rng.integers(0, size, 25).tolist() for size in (3, 6, 11, 20) for _ in range(8)]
    queries = [document[start : start + 2] for document in documents for start in range(0, 22, 3)]
    sizes = set()
    for ours, theirs in both(documents, [*queries, [3, 99], [99, 3]]):
        first = {path for path in ours if len(path) == 1}
        sizes.add(len(first))
        assert {path for path in theirs if len(path) == 1} <= first
        assert len(first) > 2 or {path for path in theirs if len(path) == 1} == first
    assert sizes >= {0, 1, 2, 3, 4}


@needs_draftretriever
def test_draftretriever_agrees_where_two_tokens_tell_what_follows():
    """Every two tokens stand in one place only: both draft the passage that follows, the package four tokens of it."""
    documents = [[100 * number + place for place in range(20)] for number in range(1, 6)]
    queries = [document[start : start + 2] for document in documents for start in range(17)]
    for ours, theirs in both(documents, queries):
        assert theirs == {path for path in ours if len(path) <= 4} != set()


@needs_draftretriever
def test_draftretriever_drafts_what_stands_in_no_document():
    """Why it is no backend: 1 2 was followed by 8 alone, and 2 8 elsewhere by 9, but 1 2 8 9 never occurred."""
    ((ours, theirs),) = both([[1, 2, 8], [7, 2, 8, 9]], [[1, 2]])
    assert (ours, theirs) == ({(8,)}, {(8,), (8, 9)})
