"""What holds of every drafter on any stream of tokens, without a model."""

import pickle
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import samlib
from samlib import METHODS, Draft, StaticAutomaton, make_drafter

from ..automaton.strategies import SMALL_IDS, corpora, texts
from ..decoding.models import HEADS, means_of, random_model
from .eagle import bigram_head
from .replay import check_draft, replay

DOCUMENT_ORDER = (
    "autoregressive pld rest lookahead token_recycling eagle eagle2 sam sam[t] sam[e] sam[e2] suffix_decoding sam_auto"
).split()
LARGEST = {
    "autoregressive": 0,
    "pld": 10,
    "rest": 64,
    "lookahead": 56,
    "token_recycling": 60,
    "eagle": 25,
    "eagle2": 59,
    "sam": 40,
    "sam[t]": 60,
    "sam[e]": 40,
    "sam[e2]": 59,
    "suffix_decoding": 64,
    "sam_auto": 64,
}
STORE = StaticAutomaton.build([[1, 2, 3, 1, 2], [3, 1, 2, 0, 4]])
STREAM = np.random.default_rng(3).permutation(40)[:30].tolist() * 8
EVERY_METHOD = pytest.mark.parametrize("method", METHODS)


@pytest.fixture(scope="module")
def drafter_of(tmp_path_factory):
    """make_drafter, which gives the methods with a head a model and a head that knows STREAM, and sam_auto a cost."""
    head = cache(lambda: bigram_head(tmp_path_factory.mktemp("head"), random_model(), dict(pairwise(STREAM))))

    def make(method, **options):
        if method in HEADS:
            options = {"model": random_model(), "head": head()} | options
        return make_drafter(method, **means_of(method) if method not in HEADS else {}, **options)

    return make


def test_methods_stand_in_the_papers_order():
    assert list(METHODS) == [name for name in DOCUMENT_ORDER if name in METHODS]
    assert set(LARGEST) == set(METHODS)
    assert samlib.METHODS is METHODS


any_request = given(
    prompt=texts(20, SMALL_IDS).filter(bool),
    stream=texts(30, SMALL_IDS).filter(bool),
    documents=corpora(alphabets=SMALL_IDS),
    max_room=st.sampled_from([0, 1, 3, 99]),
)


def check_every_draft(method, drafter, prompt, stream, max_room):
    for proposal in replay(drafter, prompt, stream, max_room=max_room):
        check_draft(proposal.draft, room=proposal.room, size=LARGEST[method])


@pytest.mark.parametrize("method", [method for method in METHODS if method not in HEADS])
@any_request
def test_every_draft_is_well_formed(method, prompt, stream, documents, max_room):
    drafter = make_drafter(method, static=StaticAutomaton.build(documents), **means_of(method))
    check_every_draft(method, drafter, prompt, stream, max_room)


@pytest.mark.parametrize("method", HEADS)
@settings(max_examples=20)  # each of their drafts takes several forwards
@any_request
def test_every_draft_of_a_head_is_well_formed(drafter_of, method, prompt, stream, documents, max_room):
    drafter = drafter_of(method, static=StaticAutomaton.build(documents))
    check_every_draft(method, drafter, prompt, stream, max_room)


@EVERY_METHOD
def test_every_draft_of_a_repetitive_stream_is_well_formed_and_some_are_accepted(drafter_of, method):
    proposals = replay(drafter_of(method, static=StaticAutomaton.build([STREAM[:100]])), STREAM[:5], STREAM)
    for proposal in proposals:
        check_draft(proposal.draft, room=proposal.room, size=LARGEST[method])
    assert (len(proposals) < len(STREAM) / 2) == (method != "autoregressive")


@EVERY_METHOD
def test_a_request_begins_fresh(drafter_of, method):
    """Nothing is left of an older request after `reset`, nor, but for what is kept on purpose, after `begin`."""
    rng = np.random.default_rng(4)
    before, stream = rng.integers(0, 5, 80).tolist(), rng.integers(0, 5, 80).tolist()
    drafter = drafter_of(method, static=STORE)

    def drafts_of(stream):
        return [
            (p.draft.tokens.tolist(), p.draft.parents.tolist(), p.draft.source) for p in replay(drafter, [1, 2], stream)
        ]

    fresh = drafts_of(stream)
    drafter.reset()
    drafts_of(before)
    if method not in ("token_recycling", "sam[t]", "sam_auto"):
        assert drafts_of(stream) == fresh
    drafter.reset()
    assert drafts_of(stream) == fresh


@EVERY_METHOD
def test_no_room_means_no_draft(drafter_of, method):
    drafter = drafter_of(method, static=STORE)
    for proposal in replay(drafter, [1, 2, 1, 2, 1], [2, 1] * 20, max_room=0):
        assert len(proposal.draft.tokens) == 0


@EVERY_METHOD
@pytest.mark.parametrize("every", [2, 5])
def test_steps_that_ask_for_no_draft(drafter_of, method, every):
    """Their verification holds the root alone, whatever was proposed before; the drafter goes on from there."""
    drafter = drafter_of(method, static=StaticAutomaton.build([STREAM[:100]]))
    proposals = replay(drafter, STREAM[:5], STREAM, asks=lambda step: step % every > 0)
    for proposal in proposals:
        check_draft(proposal.draft, room=proposal.room, size=LARGEST[method])
    assert any(len(proposal.draft) for proposal in proposals[1::every]) == (method != "autoregressive")


@EVERY_METHOD
def test_drafts_pickle(drafter_of, method):
    drafts = [p.draft for p in replay(drafter_of(method, static=STORE), [1, 2, 3, 1, 2], [3, 1, 2] * 9)]
    for draft in drafts:
        copy = pickle.loads(pickle.dumps(draft))
        assert (copy.tokens.tolist(), copy.parents.tolist()) == (draft.tokens.tolist(), draft.parents.tolist())
        assert (copy.source, copy.match_length) == (draft.source, draft.match_length)


def test_a_draft_can_be_made_by_hand():
    draft = Draft(np.array([5, 6], dtype=np.int32), np.array([-1, 0], dtype=np.int32), "mine", 3)
    assert (draft.tokens.tolist(), draft.parents.tolist(), draft.source, draft.match_length) == (
        [5, 6],
        [-1, 0],
        "mine",
        3,
    )


# --- options ----------------------------------------------------------------------------------------------------------


def test_an_unknown_method_is_refused_with_the_nearest_name():
    with pytest.raises(ValueError, match=r"sam\[t\]"):
        make_drafter("sam[tt]")


@pytest.mark.parametrize(
    ("method", "misspelt", "meant"),
    [
        ("autoregressive", "draft_size", "autoregressive"),
        ("pld", "draft_sizes", "draft_size"),
        ("pld", "l_bias", "draft_size"),
        ("token_recycling", "treesize", "tree_size"),
        ("sam", "l_treshold", "l_threshold"),
        ("sam[t]", "lbias", "l_bias"),
        ("rest", "max_ngrams", "max_ngram"),
        ("lookahead", "windows", "window"),
        ("suffix_decoding", "min_prob", "min_token_prob"),
        ("eagle", "tree_sizes", "tree_size"),
        ("eagle", "depth", "head"),
        ("eagle2", "dept", "depth"),
        ("sam[e]", "vocab", "vocabulary"),
        ("sam[e2]", "topk", "top_k"),
        ("sam_auto", "costs", "cost"),
        ("sam_auto", "rates", "rate"),
    ],
)
def test_a_misspelt_option_is_refused_with_the_nearest_one(method, misspelt, meant):
    with pytest.raises(TypeError, match=meant) as caught:
        make_drafter(method, **{misspelt: 4})
    assert misspelt in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("method", "size"),
    [
        ("pld", "draft_size"),
        ("pld", "max_ngram"),
        ("token_recycling", "tree_size"),
        ("token_recycling", "k"),
        ("sam", "draft_size"),
        ("sam[t]", "draft_size"),
        ("sam[t]", "tree_size"),
        ("sam[t]", "k"),
        ("rest", "draft_size"),
        ("rest", "max_ngram"),
        ("rest", "min_ngram"),
        ("rest", "continuation"),
        ("lookahead", "window"),
        ("lookahead", "ngram"),
        ("lookahead", "guesses"),
        ("suffix_decoding", "draft_size"),
        ("suffix_decoding", "max_match_length"),
        ("sam_auto", "draft_size"),
    ],
)
def test_sizes_are_checked_when_the_drafter_is_made(method, size):
    for bad in (0, -1):
        with pytest.raises(ValueError, match=size):
            make_drafter(method, **{size: bad})
    for bad in (2.5, "3", None, True):
        with pytest.raises(TypeError, match=size):
            make_drafter(method, **{size: bad})


@pytest.mark.parametrize("option", ["l_bias", "l_threshold"])
@pytest.mark.parametrize("bad", ["3", None, 2.5])
def test_biases_and_thresholds_are_integers(option, bad):
    with pytest.raises(TypeError):
        make_drafter("sam", **{option: bad})


@pytest.mark.parametrize("method", ["rest", "sam", "sam[t]", "sam[e]", "sam[e2]", "suffix_decoding", "sam_auto"])
def test_a_static_index_must_be_one(drafter_of, method):
    with pytest.raises(TypeError):
        drafter_of(method, static=[[1, 2, 3]])


@pytest.mark.parametrize("size", [1, 2, 7])
@pytest.mark.parametrize(
    ("method", "option"),
    [
        ("pld", "draft_size"),
        ("rest", "draft_size"),
        ("token_recycling", "tree_size"),
        ("eagle", "tree_size"),
        ("eagle2", "tree_size"),
        ("sam", "draft_size"),
        ("suffix_decoding", "draft_size"),
        ("sam_auto", "draft_size"),
    ],
)
def test_sizes_count_drafted_tokens_only(drafter_of, method, option, size):
    """The root is never counted: a size of 1 proposes one token."""
    drafter = drafter_of(method, static=StaticAutomaton.build([[1, 2, 3] * 9]), **{option: size})
    proposals = replay(drafter, [1, 2, 3] * 9, [1, 2, 3] * 40)
    assert max(len(p.draft.tokens) for p in proposals) == size
