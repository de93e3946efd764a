"""The dynamic suffix automaton: the text so far, and what followed its longest repeated suffix.

Paper: Section 3.2, Algorithm 1. The longest suffix that also ends at an earlier position is the suffix link of the
state of the whole text, so no second state is tracked.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

import numpy as np

from samlib.automaton.growing cimport (
    NONE,
    ROOT,
    Edge,
    growing_clear,
    growing_edges,
    growing_extend,
    growing_free,
    growing_init,
    growing_nbytes,
    growing_target,
)
from samlib.automaton.ids import as_ids, check_draft_size


cdef class DynamicAutomaton:
    """A suffix automaton over a growing sequence of token ids.

    Thread-safety: one thread at a time; different automata are independent. The loops run without the GIL.
    """

    def __cinit__(self):
        growing_init(&self.automaton, counted=False)
        self.text = NULL
        self.size = 0
        self.capacity = 0

    def __dealloc__(self):
        growing_free(&self.automaton)
        free(self.text)

    def extend(self, tokens):
        """Append one token id, or a one-dimensional sequence of ids; amortised O(1) a token.

        Raises ValueError for an id outside [0, 2**31 - 1] and TypeError for one that is not an integer; the automaton
        is then unchanged.
        """
        cdef const int32_t[::1] ids = as_ids(tokens)
        if ids.shape[0]:
            with nogil:
                self.append(&ids[0], ids.shape[0])

    cdef int append(self, const int32_t* tokens, int64_t n) except -1 nogil:
        self._reserve(self.size + n)
        growing_extend(&self.automaton, tokens, n, self.size)
        memcpy(self.text + self.size, tokens, n * sizeof(int32_t))
        self.size += n
        return 0

    cdef int _reserve(self, int64_t wanted) except -1 nogil:
        cdef int64_t capacity = self.capacity if self.capacity > 0 else 64
        cdef void* moved
        if wanted <= self.capacity:
            return 0
        while capacity < wanted:
            capacity += capacity // 2
        moved = realloc(self.text, <size_t>capacity * sizeof(int32_t))
        if moved == NULL:
            with gil:
                raise MemoryError("the text of the suffix automaton does not fit in memory")
        self.text = <int32_t*>moved
        self.capacity = capacity
        return 0

    cdef int32_t match(self) noexcept nogil:
        """The state of the longest suffix that ends earlier, too; the root if no suffix does."""
        cdef int32_t link = self.automaton.states[self.automaton.last].link
        return ROOT if link == NONE else link

    cdef void copy_after(self, int64_t start, int32_t* out, int64_t n) noexcept nogil:
        """n tokens from position `start`; past the end of the text the copy goes on over itself, with period size - start."""
        cdef int64_t i
        cdef int64_t period = self.size - start
        for i in range(n):
            out[i] = self.text[start + i] if i < period else out[i - period]

    @property
    def match_length(self):
        """Length of the longest suffix of the text that also ends at an earlier position."""
        return self.automaton.states[self.match()].length

    def draft(self, n, *, choice="first"):
        """What followed the longest earlier match, as an int32 array of n tokens (of none, if nothing matches).

        choice "first" copies from the match's first occurrence (the paper's min_endpos). A copy that reaches the end
        of the text goes on periodically. Raises ValueError for a negative n or an unknown choice.
        """
        cdef int64_t wanted = check_draft_size(n)
        cdef int32_t state = self.match()
        if choice != "first":
            raise ValueError(f"choice={choice!r} is not available on the dynamic automaton: use 'first'")
        if state == ROOT:
            wanted = 0
        drafted = np.empty(wanted, dtype=np.int32)
        cdef int32_t[::1] out = drafted
        if wanted:
            with nogil:
                self.copy_after(self.automaton.states[state].first_end + 1, &out[0], wanted)
        return drafted

    def reset(self):
        """Forget the text; memory is kept for the next one."""
        growing_clear(&self.automaton)
        self.size = 0

    def __len__(self):
        return self.size

    @property
    def num_states(self):
        """Number of states, the root included: at most 2 * len(self)."""
        return self.automaton.num_states

    @property
    def nbytes(self):
        """Bytes reserved for states, edges and text."""
        return growing_nbytes(&self.automaton) + self.capacity * <int64_t>sizeof(int32_t)

    def states(self):
        """The automaton as a list of dicts (length, link, first_end, edges), for drawing and teaching; O(states)."""
        return [self._state(state) for state in range(self.automaton.num_states)]

    def _state(self, int32_t state):
        cdef int32_t degree = self.automaton.states[state].degree
        cdef Edge* edges = <Edge*>malloc(max(degree, 1) * sizeof(Edge))
        if edges == NULL:
            raise MemoryError
        growing_edges(&self.automaton, state, edges)
        found = {edges[i].token: edges[i].target for i in range(degree)}
        free(edges)
        s = self.automaton.states[state]
        return {"length": s.length, "link": s.link, "first_end": s.first_end, "edges": dict(sorted(found.items()))}

    def __reduce__(self):
        raise TypeError("a DynamicAutomaton is not pickled: send the token ids and extend a new one")

    def _check_invariants(self):
        """Walk the whole structure and raise AssertionError where it contradicts itself; for tests."""
        states = self.states()
        assert states[ROOT]["link"] == NONE and states[ROOT]["length"] == 0
        assert len(states) <= max(2 * self.size, 1)
        for number, state in enumerate(states):
            for token, target in state["edges"].items():
                assert states[target]["length"] > state["length"], (number, token)
                assert growing_target(&self.automaton, number, token) == target, (number, token)
            if number != ROOT:
                link = states[state["link"]]
                assert link["length"] < state["length"], number
                assert set(link["edges"]) >= set(state["edges"]), number
                assert 0 <= link["first_end"] <= state["first_end"] < self.size or state["link"] == ROOT, number
        assert sum(len(state["edges"]) for state in states) <= max(3 * self.size, 1)
