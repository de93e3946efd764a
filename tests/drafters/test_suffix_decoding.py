"""SuffixDecoding against its definition in plain Python."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samlib import StaticAutomaton, make_drafter

from ..automaton.naive import tree_paths
from ..automaton.strategies import SMALL_IDS, corpora, texts
from .naive import suffix_tree
from .replay import check_draft, ids, replay


def check_against_definition(step, documents, **options):
    """The draft of a step is the definition's; among nodes of equal count, any may have been taken."""
    expected = suffix_tree(documents, step.known, room=step.room, **options) if step.room else None
    if expected is None:
        assert (len(step.draft), step.draft.source) == (0, "none")
        return
    source, length, taken, counts, _ = expected
    paths = tree_paths(step.draft.tokens, step.draft.parents)
    assert (step.draft.source, step.draft.match_length) == (source, length)
    assert len(set(paths)) == len(paths)
    assert [counts[path] for path in paths] == taken


def started(prompt, documents=(), **options):
    drafter = make_drafter("suffix_decoding", static=StaticAutomaton.build(documents), **options)
    drafter.begin(ids(prompt))
    return drafter


@given(
    prompt=texts(20, SMALL_IDS).filter(bool),
    stream=texts(30, SMALL_IDS).filter(bool),
    documents=corpora(alphabets=SMALL_IDS),
    options=st.fixed_dictionaries(
        {
            "draft_size": st.integers(1, 20),
            "max_spec_factor": st.sampled_from([0, 0.29, 0.5, 1.0, 2.0, 7.3, float("inf")]),
            "min_token_prob": st.sampled_from([0, 0.1, 1 / 3, 0.5, 2 / 3, 1]),
            "max_match_length": st.integers(1, 12),
        }
    ),
    max_room=st.sampled_from([0, 1, 3, 99]),
)
def test_every_draft_is_that_of_the_definition(prompt, stream, documents, options, max_room):
    drafter = make_drafter("suffix_decoding", static=StaticAutomaton.build(documents), **options)
    for step in replay(drafter, prompt, stream, max_room=max_room):
        check_draft(step.draft, room=step.room, size=options["draft_size"])
        check_against_definition(step, documents, **options)


@pytest.mark.parametrize("max_match_length", [1, 3, 7, 64])
def test_long_random_requests_follow_the_definition(max_match_length):
    """Texts long enough for many splits of states, checked at every 17th step."""
    rng = np.random.default_rng(max_match_length)
    phrases = [rng.integers(0, 4, rng.integers(2, 30)).tolist() for _ in range(6)]
    stream = [token for _ in range(40) for token in phrases[rng.integers(6)]][:420]
    documents = [[*phrases[number], *phrases[number - 1]] for number in range(6)]
    drafter = started(stream[:10], documents, max_match_length=max_match_length)
    drafted = 0
    for size in range(10, len(stream)):
        if size % 17 == 0:
            draft = drafter.propose(50)
            expected = suffix_tree(documents, stream[:size], max_match_length=max_match_length, room=50)
            counts = [expected[3][path] for path in tree_paths(draft.tokens, draft.parents)]
            assert (draft.source, draft.match_length, counts) == expected[:3]
            drafted += len(draft)
        drafter.observe(ids(stream[size : size + 1]))
    assert drafted > 20


def test_the_defaults_are_arctic_inferences():
    """A factor of 1, probabilities of 0.1 and more, 64 tokens of match and of draft."""
    document = list(range(100, 300))
    for length in (1, 2, 30, 64, 65):
        draft = started([5, *document[:length]], [document]).propose(199)
        size = min(length, 64)
        assert (draft.match_length, draft.tokens.tolist()) == (size, document[length : length + size])
    common, rare = [[1, 2, 3, 4, 50]] * 9, [[1, 2, 3, 4, 60]]
    assert started([1, 2, 3, 4], common + rare).propose(9).tokens.tolist() == [50, 60]
    assert started([1, 2, 3, 4], common + common + rare).propose(9).tokens.tolist() == [50]


def test_the_larger_sum_of_probabilities_wins():
    """Both match two tokens. The source that went on in one way only is the surer one."""
    prompt = [1, 2, 7, 6, 1, 2]
    assert started(prompt, [[1, 2, 8], [1, 2, 9]]).propose(9).source == "dynamic"
    assert started([1, 2, 7, 5, 1, 2, 6, 4, 1, 2], [[1, 2, 8, 8]]).propose(9).tokens.tolist() == [8, 8]


def test_a_tie_goes_to_the_text_and_to_the_longer_match():
    draft = started([1, 2, 7, 8, 9, 1, 2], [[1, 2, 5, 6]]).propose(9)
    assert (draft.source, draft.match_length, draft.tokens.tolist()) == ("dynamic", 2, [7, 8])
    draft = started([3, 1, 7, 2, 1, 8, 5, 3, 1, 7, 4, 2, 1], []).propose(1)  # after 2 1: 8; after 1: 7 or 8
    assert (draft.match_length, draft.tokens.tolist()) == (2, [8])


def test_a_shorter_match_may_know_more():
    """In the store 1 2 3 is followed by 4 alone, and 2 3 mostly by 4 5; in the text 0 1 2 by 7, 8 or 9, 1 2 by 5 6."""
    draft = started([1, 2, 3], [[1, 2, 3, 4], *[[9, 2, 3, 4, 5]] * 10]).propose(9)
    assert (draft.source, draft.match_length, draft.tokens.tolist()) == ("static", 2, [4, 5])
    draft = started([0, 1, 2, 7, 0, 1, 2, 8, 0, 1, 2, 9, *[3, 1, 2, 5, 6] * 7, 0, 1, 2]).propose(9)
    assert (draft.source, draft.match_length, draft.tokens.tolist()) == ("dynamic", 2, [5, 6])


def test_the_last_occurrence_in_the_text_counts_for_nothing():
    """1 2 went on with 3 in its only earlier occurrence: certain, as far as is known."""
    assert started([1, 2, 3, 4, 1, 2], [], min_token_prob=1).propose(9).tokens.tolist() == [3, 4]


def test_documents_never_run_into_each_other():
    assert started([1, 2], [[1, 2], [3, 4]]).propose(9).source == "none"
    assert started([1, 2], [[1, 2, 5], [6, 7]]).propose(9).tokens.tolist() == [5]


def test_nothing_is_drafted_where_nothing_matches():
    assert started([1, 2, 3]).propose(9).source == "none"
    assert started([1, 1, 1], max_spec_factor=0.3).propose(9).source == "none"


def test_a_factor_is_not_rounded_down_by_floating_point():
    """0.29 * 100 is a little less than 29 as a float."""
    document = list(range(300))
    options = {"max_spec_factor": 0.29, "max_match_length": 100}
    assert len(started(document[:100], [document], **options).propose(99)) == 29


@pytest.mark.parametrize("option", ["max_spec_factor", "min_token_prob"])
def test_bad_numbers_are_refused_by_name(option):
    for bad in (-0.1, float("nan")):
        with pytest.raises(ValueError, match=option):
            make_drafter("suffix_decoding", **{option: bad})
    for bad in ("0.5", None, True, [0.5]):
        with pytest.raises(TypeError, match=option):
            make_drafter("suffix_decoding", **{option: bad})
    with pytest.raises(ValueError, match="min_token_prob"):
        make_drafter("suffix_decoding", min_token_prob=1.01)


@pytest.mark.parametrize("draft_size", [1, 2, 3, 16, 64, 2**40])
@pytest.mark.parametrize("source", ["dynamic", "static"])
def test_more_continuations_than_the_budget(source, draft_size):
    """One context that 300 tokens followed, and one with five long branches."""
    wide = [[6, 7, 1000 + other] for other in range(300)] + [[6, 7, 1005, 3]]
    long = [[8, 9] + [100 * branch + depth for depth in range(40)] for branch in range(1, 6)]
    options = {"draft_size": draft_size, "max_spec_factor": 50, "min_token_prob": 0}
    for documents, available in ((wide, 301), (long, 200)):
        query = documents[0][:2]
        text = [5, *query] if source == "static" else [token for document in documents for token in document] + query
        draft = started(text, documents if source == "static" else [], **options).propose(99)
        check_draft(draft, room=99, size=draft_size)
        assert (draft.source, len(draft)) == (source, min(draft_size, 100, available))


def test_one_token_for_long_costs_no_more_a_step():
    """No clock is read: each step is a moment's work, and would be minutes if it walked all matches of the text."""
    drafter = started(np.zeros(200_000, dtype=np.int32), [[0] * 1000])
    for _ in range(2000):
        assert len(drafter.propose(100)) == 64
        drafter.observe(ids([0]))
