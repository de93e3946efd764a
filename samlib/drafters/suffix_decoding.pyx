# cython: cdivision=True
"""SuffixDecoding: trees of frequent continuations, from the text of the request or from a fixed store.

Source: Oliaro et al. 2024 (arXiv 2411.04975), in the form of ArcticInference, drafting trees. For every length up to 64
the last tokens are looked up in both sources; a match of m tokens may draft m times a factor of 1. A node's estimated
probability is the share of the match's occurrences that go on along its path; the likeliest nodes are taken, none below
0.1. Of all these trees the one with the largest sum of probabilities is proposed.

The sources are the dynamic automaton, over prompt and generated tokens, and the static index, where the original has a
tree of earlier answers. The original's suffix trees are 64 tokens deep, match and draft together; here only the match
is bounded. The occurrence at the end of the text, of which nothing is known yet, is not counted.
"""

cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t

from samlib.automaton.arrays cimport ids_of, new_ids
from samlib.automaton.draft import Draft
from samlib.automaton.dynamic cimport DynamicAutomaton
from samlib.automaton.frontier cimport DraftNodes, least_count
from samlib.automaton.frozen cimport Place
from samlib.automaton.online cimport ROOT, State, online_target
from samlib.automaton.static cimport Cursor, StaticAutomaton
from samlib.drafters.protocol import Drafter

cnp.import_array()

cdef enum:
    MAX_SIZE = 1 << 20          # of drafts, matches and levels: more is never reached

cdef double ROUNDING = 1e-6     # a factor of 0.29 allows 29 tokens after a match of 100, not 28


cdef class _Candidates:
    """Both sources over one request, and the best tree among those of all match lengths."""

    cdef DynamicAutomaton dynamic
    cdef Cursor cursor          # None without a static automaton
    cdef double max_spec_factor
    cdef double min_token_prob
    cdef int32_t draft_size
    cdef int32_t max_length     # of a match
    cdef int32_t state          # where in the dynamic automaton the last `length` tokens of the text stand: …
    cdef int32_t length         # … max_length tokens, or the whole text
    cdef object tree            # arrays of tokens, parents and counts of the tree that is grown, …
    cdef object best            # … and of the best one so far, …
    cdef int32_t size           # … how many nodes that has, …
    cdef double score           # … the sum of their probabilities, …
    cdef int32_t match_length   # … the length of its match, …
    cdef object source          # … and where that was found

    def __init__(self, StaticAutomaton static, draft_size, max_spec_factor, min_token_prob, max_match_length):
        self.dynamic = DynamicAutomaton(occurrences=True)
        self.cursor = None if static is None else static.cursor(max_match_length=max_match_length)
        self.max_spec_factor = max_spec_factor
        self.min_token_prob = min_token_prob
        self.max_length = min(max_match_length, MAX_SIZE)
        self.draft_size = min(draft_size, MAX_SIZE)
        self.draft_size = self.budget(self.max_length)
        self.tree, self.best = ([new_ids(self.draft_size) for _ in range(3)] for _ in range(2))
        self.reset()

    def reset(self):
        self.dynamic.reset()
        self.state = ROOT
        self.length = 0
        if self.cursor is not None:
            self.cursor.reset()

    cdef int32_t budget(self, int32_t length) noexcept nogil:
        """How many tokens may be drafted after a match of that many."""
        cdef double allowed = self.max_spec_factor * length + ROUNDING
        return self.draft_size if allowed >= self.draft_size else <int32_t>allowed

    # --- the text

    def extend(self, const int32_t[::1] tokens):
        cdef int64_t i
        for i in range(tokens.shape[0]):
            self.dynamic.append(&tokens[i], 1)
            self.follow(tokens[i])
        if self.cursor is not None and tokens.shape[0]:
            self.cursor.step(&tokens[0], tokens.shape[0])

    cdef void follow(self, int32_t token) noexcept nogil:
        """Go on to the state of the last tokens, now that `token` was appended; amortised O(1).

        The append may have split the state; both halves lead on to the same states.
        """
        cdef const State* states = self.dynamic.automaton.states
        self.state = online_target(&self.dynamic.automaton, self.state, token)
        self.length = min(self.length + 1, self.max_length)
        while states[states[self.state].link].length >= self.length:     # its strings are too long
            self.state = states[self.state].link

    # --- the drafts

    def propose(self, int32_t room):
        """The best tree, of at most `room` (> 0) levels, as a Draft; an empty one where nothing matches."""
        self.size = 0
        self.score = 0.0
        self.try_dynamic(room)
        if self.cursor is not None:
            self.try_static(room)
        if self.size == 0:
            return Draft.empty()
        tokens, parents, _ = self.best
        return Draft(tokens[: self.size].copy(), parents[: self.size].copy(), self.source, self.match_length)

    cdef int try_dynamic(self, int32_t room) except -1:
        """Every match in the text, the longest first: one a state, since its strings are followed by the same."""
        cdef const State* states = self.dynamic.automaton.states
        cdef int32_t state = self.state
        cdef int32_t length = self.length
        cdef int32_t of, found
        cdef DraftNodes out
        if state == self.dynamic.automaton.last:            # these tokens have not occurred before
            state = self.dynamic.match()
            length = states[state].length
        while state != ROOT and self.budget(length) > self.score:
            out = self.nodes()
            of = self.dynamic.earlier_occurrences(state)
            found = self.dynamic.grow_tree(
                state, self.budget(length), room, least_count(self.min_token_prob, of), &out
            )
            self.keep_if_better(found, &out, of, length, "dynamic")
            state = states[state].link
            length = states[state].length
        return 0

    cdef int try_static(self, int32_t room) except -1:
        """Every match in the store, the longest first: one a place, likewise."""
        cdef Place place = self.cursor.place
        cdef int32_t of, found
        cdef DraftNodes out
        while place.length > 0 and self.budget(place.length) > self.score:
            out = self.nodes()
            of = self.cursor.occurrences(&place)
            found = self.cursor.grow_tree(
                &place, self.budget(place.length), room, least_count(self.min_token_prob, of), &out
            )
            self.keep_if_better(found, &out, of, place.length, "static")
            self.cursor.shorten(&place)
        return 0

    cdef DraftNodes nodes(self):
        """Where the next tree is written."""
        cdef DraftNodes out
        tokens, parents, counts = self.tree
        out.tokens, out.parents, out.counts = ids_of(tokens), ids_of(parents), ids_of(counts)
        return out

    cdef int keep_if_better(self, int32_t size, const DraftNodes* grown, int32_t of, int32_t length, source) except -1:
        """Keep a tree whose probabilities sum to more than those of the best so far."""
        cdef int64_t count = 0
        cdef int32_t i
        for i in range(size):
            count += grown.counts[i]
        if <double>count / of > self.score:
            self.score = <double>count / of
            self.size = size
            self.match_length = length
            self.source = source
            self.tree, self.best = self.best, self.tree
        return 0


class SuffixDecoding(Drafter):
    """Drafts the tree whose estimated probabilities sum to the most, from the text or the static index.

    static: a StaticAutomaton, or None to draft from the text only. draft_size: nodes of a tree at most. max_spec_factor:
    tokens drafted at most for each token of the match. min_token_prob: no node whose path is less probable.
    max_match_length: longer matches are not looked for. A tie goes to the text, then to the longer match.

    A step takes time that depends on these settings, and on how many different tokens followed the matches, but not on
    the length of the text.
    """

    def __init__(self, static=None, draft_size=64, max_spec_factor=1.0, min_token_prob=0.1, max_match_length=64):
        self._candidates = _Candidates(static, draft_size, max_spec_factor, min_token_prob, max_match_length)

    def begin(self, prompt):
        self._candidates.reset()
        self._candidates.extend(prompt)

    def observe(self, emitted, verified=None):
        self._candidates.extend(emitted)

    def propose(self, room):
        return self._candidates.propose(min(room, MAX_SIZE)) if room else Draft.empty()

    def reset(self):
        self._candidates.reset()
