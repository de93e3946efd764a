"""SAM-Decoding's adaptive drafter: the match lengths decide, step by step, who drafts.

Paper: Section 3.3, Algorithm 2. Retrieval drafts iff max(dynamic, static - l_bias) >= l_threshold; the dynamic
automaton wins a tie; otherwise the auxiliary drafter does.
"""

from libc.stdint cimport int32_t, int64_t

import numpy as np

from samlib.automaton.draft import Draft
from samlib.automaton.dynamic cimport DynamicAutomaton
from samlib.automaton.static cimport Cursor, StaticAutomaton
from samlib.drafters.protocol import Drafter


cdef enum:
    SIZE_PER_MATCHED = 4        # SAM alone drafts at most 1 + 4 * match length tokens


cdef class _Retrieval:
    """Both automata over one request, and the choice between them."""

    cdef DynamicAutomaton dynamic
    cdef Cursor cursor          # None without a static automaton
    cdef int64_t l_bias
    cdef int64_t l_threshold

    def __init__(self, StaticAutomaton static, l_bias, l_threshold):
        self.dynamic = DynamicAutomaton()
        self.cursor = None if static is None else static.cursor()
        self.l_bias = l_bias
        self.l_threshold = l_threshold

    def reset(self):
        self.dynamic.reset()
        if self.cursor is not None:
            self.cursor.reset()

    def extend(self, const int32_t[::1] tokens):
        cdef int64_t n = tokens.shape[0]
        if n:
            with nogil:
                self.dynamic.append(&tokens[0], n)
                if self.cursor is not None:
                    self.cursor.step(&tokens[0], n)

    def select(self):
        """(source, match length) of the retrieval that is to draft, or None if the match is too short."""
        cdef int64_t dynamic = self.dynamic.automaton.states[self.dynamic.match()].length
        cdef int64_t static = 0 if self.cursor is None else self.cursor.place.length
        if static == 0 or dynamic >= static - self.l_bias:
            return ("dynamic", dynamic) if dynamic >= self.l_threshold else None
        return ("static", static) if static - self.l_bias >= self.l_threshold else None

    def copy(self, source, int32_t n):
        """A chain of at most n tokens after the match."""
        tokens = np.empty(n, dtype=np.int32)
        cdef int32_t[::1] out = tokens
        cdef int32_t state
        if n == 0:
            return tokens
        if source == "static":
            return tokens[: self.cursor.copy_first(&out[0], n)]
        state = self.dynamic.match()
        self.dynamic.copy_after(self.dynamic.automaton.states[state].first_end + 1, &out[0], n)
        return tokens

    def tree(self, int32_t n):
        """The n most frequent nodes under the static match."""
        return self.cursor.draft_tree(n)


class AdaptiveDrafter(Drafter):
    """Drafts from the dynamic or the static automaton where the match is long enough, else by the auxiliary drafter.

    static: a StaticAutomaton, or None. auxiliary: another Drafter, or None for none. draft_size: tokens at most.
    scaled: size the draft by the match, min(draft_size, 1 + 4 * match length), and draft a tree from the static
    automaton (SAM alone); otherwise every draft is a copy of draft_size tokens.
    """

    def __init__(self, static=None, auxiliary=None, *, draft_size=40, l_bias=5, l_threshold=5, scaled=False):
        self.auxiliary = Drafter() if auxiliary is None else auxiliary
        self.top_k = self.auxiliary.top_k
        self.needs_hidden, self.modules = self.auxiliary.needs_hidden, self.auxiliary.modules
        self.draft_size = draft_size
        self.scaled = scaled
        self._retrieval = _Retrieval(static, l_bias, l_threshold)

    def begin(self, prompt):
        self._retrieval.reset()
        self._retrieval.extend(prompt)
        self.auxiliary.begin(prompt)

    def propose(self, room):
        selected = self._retrieval.select()
        if selected is None:
            return self.auxiliary.propose(room)
        source, match_length = selected
        if match_length == 0:
            return Draft.empty()
        if not self.scaled:
            tokens = self._retrieval.copy(source, min(self.draft_size, room))
            return Draft.chain(tokens, source, match_length)
        return self._scaled_draft(source, match_length, room)

    def _scaled_draft(self, source, match_length, room):
        size = min(self.draft_size, 1 + SIZE_PER_MATCHED * match_length)
        if source == "static":
            return self._retrieval.tree(size)
        return Draft.chain(self._retrieval.copy(source, min(size, room)), source, match_length)

    def observe(self, emitted, verified=None):
        self._retrieval.extend(emitted)
        self.auxiliary.observe(emitted, verified)

    def reset(self):
        self._retrieval.reset()
        self.auxiliary.reset()
