"""The sam family: who drafts at which match lengths, and what, against the brute-force oracles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samlib import StaticAutomaton, make_drafter

from ..automaton.naive import NaiveDynamic, NaiveStatic, check_draft_tree
from ..automaton.strategies import SMALL_IDS, corpora, texts
from .replay import ids, replay

SETTINGS = {"sam": {"l_bias": 0, "l_threshold": 1}, "sam[t]": {"l_bias": 5, "l_threshold": 5}}


def expected_source(dynamic, static, *, l_bias, l_threshold):
    """The rule of the paper's Algorithm 2, in words: who drafts, given both match lengths."""
    if max(dynamic, static - l_bias) < l_threshold:
        return "auxiliary"
    return "dynamic" if dynamic >= static - l_bias else "static"


def request(method, dynamic, static, **options):
    """A drafter after a prompt whose last tokens match `dynamic` tokens of the prompt and `static` of the corpus.

    The dynamic match continues with 900, the static one with 800.
    """
    tail = list(range(100, 100 + max(dynamic, static)))
    prompt = [1, *tail[len(tail) - dynamic :], 900, 901, 902, 2, *tail]
    documents = [[*tail[len(tail) - static :], 800, 801, 802]] if static else []
    drafter = make_drafter(method, static=StaticAutomaton.build(documents), **options)
    drafter.begin(ids(prompt if dynamic else [2, *tail]))
    return drafter


def source_of(drafter, room=3):
    draft = drafter.propose(room)
    return {"none": "auxiliary", "token_recycling": "auxiliary"}.get(draft.source, draft.source), draft


# --- the selection rule -----------------------------------------------------------------------------------------------

RULES = [
    # dynamic, static, l_bias, l_threshold -> source
    (5, 0, 5, 5, "dynamic"),
    (4, 0, 5, 5, "auxiliary"),
    (0, 10, 5, 5, "static"),
    (0, 9, 5, 5, "auxiliary"),
    (5, 10, 5, 5, "dynamic"),  # a tie
    (5, 11, 5, 5, "static"),
    (6, 11, 5, 5, "dynamic"),
    (4, 10, 5, 5, "static"),
    (4, 9, 5, 5, "auxiliary"),
    (1, 1, 0, 1, "dynamic"),
    (1, 2, 0, 1, "static"),
    (0, 1, 0, 1, "static"),
    (0, 0, 0, 1, "auxiliary"),
    (12, 30, 1000, 5, "dynamic"),
    (3, 30, 1000, 5, "auxiliary"),
    (12, 1, -1000, 5, "static"),
    (12, 30, 0, 1000, "auxiliary"),
    (12, 30, 0, 30, "static"),
    (12, 30, 0, 31, "auxiliary"),
]


@pytest.mark.parametrize("method", ["sam", "sam[t]"])
@pytest.mark.parametrize(("dynamic", "static", "l_bias", "l_threshold", "source"), RULES)
def test_who_drafts(method, dynamic, static, l_bias, l_threshold, source):
    drafter = request(method, dynamic, static, l_bias=l_bias, l_threshold=l_threshold)
    found, draft = source_of(drafter)
    assert found == source
    assert source == expected_source(dynamic, static, l_bias=l_bias, l_threshold=l_threshold)
    if source != "auxiliary":
        assert draft.match_length == {"dynamic": dynamic, "static": static}[source]
        assert draft.tokens[0] == {"dynamic": 900, "static": 800}[source]


@pytest.mark.parametrize(
    ("method", "dynamic", "static", "source"),
    [
        ("sam", 1, 0, "dynamic"),
        ("sam", 0, 1, "static"),
        ("sam", 3, 3, "dynamic"),
        ("sam", 3, 4, "static"),
        ("sam[t]", 4, 9, "auxiliary"),
        ("sam[t]", 5, 10, "dynamic"),
        ("sam[t]", 4, 10, "static"),
    ],
)
def test_the_defaults_are_the_authors(method, dynamic, static, source):
    assert source_of(request(method, dynamic, static))[0] == source


@pytest.mark.parametrize("l_bias", [-1000, 0, 5])
def test_without_a_static_match_the_bias_means_nothing(l_bias):
    """A very negative bias must not let a static match of length 0 win."""
    assert source_of(request("sam", 2, 0, l_bias=l_bias))[0] == "dynamic"
    drafter = make_drafter("sam", l_bias=l_bias)
    drafter.begin(ids([1, 2, 1]))
    assert source_of(drafter)[0] == "dynamic"


# --- what is drafted ------------------------------------------------------------


@pytest.mark.parametrize(("match", "size"), [(1, 5), (2, 9), (9, 37), (10, 40), (20, 40)])
def test_sam_alone_sizes_a_dynamic_draft_by_the_match(match, size):
    assert len(source_of(request("sam", match, 0), room=99)[1].tokens) == size


@pytest.mark.parametrize(("match", "size"), [(1, 5), (9, 37), (10, 40), (20, 40)])
def test_sam_alone_sizes_a_static_tree_by_the_raw_match(match, size):
    tail = list(range(100, 100 + match))
    documents = [[*tail, 1000 + branch, *range(2000, 2003)] for branch in range(50)]
    for l_bias in (0, -3):
        drafter = make_drafter("sam", static=StaticAutomaton.build(documents), l_bias=l_bias)
        drafter.begin(ids([2, *tail]))
        draft = drafter.propose(99)
        assert (draft.source, draft.match_length, len(draft.tokens)) == ("static", match, size)


def test_sam_with_an_auxiliary_copies_40_tokens_whatever_the_match():
    assert len(source_of(request("sam[t]", 5, 0), room=99)[1].tokens) == 40
    documents = [[*range(100, 200)], [*range(100, 110), *range(300, 400)]]
    drafter = make_drafter("sam[t]", static=StaticAutomaton.build(documents))
    drafter.begin(ids([2, *range(100, 110)]))
    draft = drafter.propose(99)
    assert (draft.source, draft.tokens.tolist()) == ("static", list(range(110, 150)))
    assert draft.parents.tolist() == list(range(-1, 39))


@pytest.mark.parametrize("method", ["sam", "sam[t]"])
@given(
    prompt=texts(20, SMALL_IDS).filter(bool),
    stream=texts(30, SMALL_IDS).filter(bool),
    documents=corpora(alphabets=SMALL_IDS),
    l_bias=st.integers(-2, 4),
    l_threshold=st.integers(1, 4),
    draft_size=st.integers(1, 20),
)
def test_every_step_of_a_request(method, prompt, stream, documents, l_bias, l_threshold, draft_size):
    options = {"l_bias": l_bias, "l_threshold": l_threshold}
    drafter = make_drafter(method, static=StaticAutomaton.build(documents), draft_size=draft_size, **options)
    oracle = NaiveStatic(documents)
    for step in replay(drafter, prompt, stream, max_room=12):
        dynamic, static = NaiveDynamic(step.known), oracle.match_length(step.known)
        bias = l_bias if static else static - dynamic.match_length  # no static match, so none to prefer
        source = expected_source(dynamic.match_length, static, l_bias=bias, l_threshold=l_threshold)
        if source == "auxiliary":
            assert step.draft.source in ("token_recycling", "none")
        elif step.room:
            assert step.draft.source == source
            check_retrieval(step, method, draft_size, dynamic, oracle)


def check_retrieval(step, method, draft_size, dynamic, oracle):
    """The draft of a step whose source is "dynamic" or "static"."""
    draft = step.draft
    is_dynamic = draft.source == "dynamic"
    match = dynamic.match_length if is_dynamic else oracle.match_length(step.known)
    size = min(draft_size, 1 + 4 * match) if method == "sam" else draft_size
    assert draft.match_length == match
    if is_dynamic:
        assert draft.tokens.tolist() == dynamic.draft(min(size, step.room), "first")
    elif method == "sam[t]":
        assert draft.tokens.tolist() == oracle.draft(step.known, min(size, step.room), "first")
    elif step.room >= size:
        check_draft_tree(draft.tokens, draft.parents, oracle.remainders(step.known), size)


# --- both automata see everything ------------------------------------------------------------


def test_prompt_and_emitted_tokens_reach_both_automata():
    drafter = make_drafter("sam", static=StaticAutomaton.build([[1, 2, 3, 4, 5, 6, 7]]))
    drafter.begin(ids([1, 2, 3]))
    assert (drafter.propose(9).source, drafter.propose(9).match_length) == ("static", 3)
    drafter.observe(ids([4, 5]))
    assert (drafter.propose(9).match_length, drafter.propose(9).tokens.tolist()) == (5, [6, 7])
    drafter.observe(ids([9, 3, 4, 5, 9]))
    assert (drafter.propose(2).source, drafter.propose(2).tokens.tolist()) == ("dynamic", [3, 4])


def test_proposing_twice_gives_the_same_draft():
    drafter = request("sam[t]", 6, 0)
    assert drafter.propose(20).tokens.tolist() == drafter.propose(20).tokens.tolist()


def test_the_auxiliary_learns_while_retrieval_drafts():
    """Token Recycling is told of every verification, not only of those of its own drafts."""
    stream = np.random.default_rng(2).integers(0, 6, 40).tolist() * 3
    sources = {step.draft.source for step in replay(make_drafter("sam[t]"), stream[:3], stream)}
    assert {"dynamic", "token_recycling"} <= sources


def test_one_index_serves_several_drafters():
    index = StaticAutomaton.build([[1, 2, 3, 4], [1, 2, 5, 6]])
    drafters = [make_drafter("sam", static=index) for _ in range(2)]
    drafters[0].begin(ids([1, 2, 3]))
    drafters[1].begin(ids([1, 2, 5]))
    assert [drafter.propose(9).tokens.tolist() for drafter in drafters] == [[4], [6]]
