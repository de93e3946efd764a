"""Prompt lookup against a scan in plain Python."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samlib import make_drafter

from ..automaton.strategies import texts
from .replay import ids, replay


def scan(context, draft_size, max_ngram):
    """(draft, n-gram): what followed the earliest earlier occurrence of the longest n-gram that has a full draft."""
    for n in range(max_ngram, 0, -1):
        for end in range(n, len(context) - draft_size + 1):
            if len(context) > n and context[end - n : end] == context[-n:]:
                return context[end : end + draft_size], n
    return [], 0


@given(
    prompt=texts().filter(bool), stream=texts().filter(bool), draft_size=st.integers(1, 10), max_ngram=st.integers(1, 4)
)
def test_drafts_are_those_of_the_scan(prompt, stream, draft_size, max_ngram):
    drafter = make_drafter("pld", draft_size=draft_size, max_ngram=max_ngram)
    for proposal in replay(drafter, prompt, stream):
        expected, n = scan(proposal.known, draft_size, max_ngram)
        assert proposal.draft.tokens.tolist() == expected[: proposal.room]
        if proposal.room:
            assert (proposal.draft.source, proposal.draft.match_length) == (("pld", n) if expected else ("none", 0))


def test_the_defaults_are_spec_benchs():
    """n-grams of 3, then 2, then 1; ten tokens."""
    drafter = make_drafter("pld")
    drafter.begin(ids([7, 8, 9, *range(20, 35), 6, 8, 9, *range(40, 55), 7, 8, 9]))
    assert drafter.propose(99).tokens.tolist() == list(range(20, 30))
    drafter.begin(ids([7, 8, 9, *range(20, 35), 6, 8, 9, *range(40, 55), 5, 8, 9]))
    assert (drafter.propose(99).match_length, drafter.propose(4).tokens.tolist()) == (2, [20, 21, 22, 23])


@pytest.mark.parametrize("known", [9, 10, 11])
def test_an_occurrence_needs_a_full_continuation(known):
    drafter = make_drafter("pld")
    drafter.begin(ids([1, *range(20, 20 + known - 1), 1]))
    assert len(drafter.propose(99).tokens) == (10 if known >= 10 else 0)


def test_long_contexts_grow():
    drafter = make_drafter("pld")
    drafter.begin(ids(range(5000)))
    for token in range(5000, 9000):
        drafter.observe(ids([token]))
    drafter.observe(ids([17, 18, 19]))
    assert drafter.propose(99).tokens.tolist() == list(range(20, 30))
