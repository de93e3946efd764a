"""The dynamic suffix automaton: the text so far, and what followed its longest repeated suffix.

Paper: Section 3.2, Algorithm 1. The longest suffix that also ends at an earlier position is the suffix link of the
state of the whole text, so no second state is tracked.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

import numpy as np

from samlib.automaton.candidates cimport Candidate, candidate_pop, candidate_push
from samlib.automaton.draft import Draft
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
from samlib.automaton.ids import MAX_TOKEN_ID, as_ids, check_draft_size
from samlib.automaton.memory cimport grown, resize
from samlib.automaton.occurrences cimport (
    LinkNode,
    occurrences_add,
    occurrences_free,
    occurrences_init,
    occurrences_of,
    occurrences_record,
    occurrences_reserve,
    occurrences_split,
)

CHOICES = ("first", "latest", "frequent")
MAX_TREE = 1 << 20


cdef class DynamicAutomaton:
    """A suffix automaton over a growing sequence of token ids.

    occurrences: also count how often and where last each state occurs, which the choices "latest" and "frequent" and
    `draft_tree` need; exact, at O(log n) amortised a token instead of O(1).

    Thread-safety: one thread at a time; different automata are independent. The loops run without the GIL.
    """

    def __cinit__(self, *, occurrences=False):
        growing_init(&self.automaton, counted=False)
        occurrences_init(&self.occurrences)
        self.counted = occurrences
        self.text = NULL
        self.capacity = 0
        self.edges = NULL
        self.edge_capacity = 0
        self.reset()

    def __dealloc__(self):
        growing_free(&self.automaton)
        occurrences_free(&self.occurrences)
        free(self.text)
        free(self.edges)

    def extend(self, tokens):
        """Append one token id, or a one-dimensional sequence of ids; amortised O(1) a token.

        Raises ValueError for an id outside [0, 2**31 - 1] and TypeError for one that is not an integer; the automaton
        is then unchanged.
        """
        cdef int32_t token
        cdef const int32_t[::1] ids
        if type(tokens) is int and 0 <= tokens <= MAX_TOKEN_ID:
            token = tokens
            self.append(&token, 1)
            return
        ids = as_ids(tokens)
        if ids.shape[0]:
            with nogil:
                self.append(&ids[0], ids.shape[0])

    cdef int append(self, const int32_t* tokens, int64_t n) except -1 nogil:
        cdef int64_t i
        self._reserve(self.size + n)
        if self.counted:
            for i in range(n):
                self._append_counted(tokens[i])
            return 0
        growing_extend(&self.automaton, tokens, n, self.size)
        memcpy(self.text + self.size, tokens, n * sizeof(int32_t))
        self.size += n
        return 0

    cdef int _append_counted(self, int32_t token) except -1 nogil:
        """Append a token, and mirror in the link-cut tree what that did to the suffix links."""
        cdef Growing* a = &self.automaton
        cdef int32_t clone
        occurrences_reserve(&self.occurrences, a.num_states + 2)
        growing_extend(a, &token, 1, self.size)
        if a.split != NONE:
            clone = <int32_t>(a.num_states - 1)
            occurrences_split(&self.occurrences, a.split, clone, a.states[clone].link)
        occurrences_add(&self.occurrences, a.last, a.states[a.last].link)
        self.latest_end = occurrences_of(&self.occurrences, self.match()).last_end
        occurrences_record(&self.occurrences, a.last, <int32_t>self.size)
        self.text[self.size] = token
        self.size += 1
        return 0

    cdef int _reserve(self, int64_t wanted) except -1 nogil:
        cdef int64_t capacity
        if wanted > self.capacity:
            capacity = grown(self.capacity, wanted)
            resize(<void**>&self.text, capacity, sizeof(int32_t))
            self.capacity = capacity
        return 0

    cdef int32_t match(self) noexcept nogil:
        """The state of the longest suffix that ends earlier, too; the root if no suffix does."""
        cdef int32_t link = self.automaton.states[self.automaton.last].link
        return ROOT if link == NONE else link

    cdef void copy_after(self, int64_t start, int32_t* out, int64_t n) noexcept nogil:
        """n tokens from position `start`; past the end of the text the copy goes on over itself."""
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

        choice "first" copies from the match's first occurrence (the paper's min_endpos), "latest" from its most recent
        one; a copy that reaches the end of the text goes on periodically. "frequent" takes the most frequent
        continuation, token by token; where nothing has followed so far, that of the longest suffix that goes on.

        Raises ValueError for a negative n, an unknown choice, or one that needs occurrences=True.
        """
        cdef int64_t wanted = check_draft_size(n)
        cdef int32_t state = self.match()
        cdef int32_t found
        self._check_choice(choice)
        if state == ROOT:
            wanted = 0
        drafted = np.empty(wanted, dtype=np.int32)
        cdef int32_t[::1] out = drafted
        if wanted == 0:
            return drafted
        if choice == "frequent":
            found = self._most_frequent(&state, &out[0], <int32_t>min(wanted, MAX_TOKEN_ID))
            return drafted[:found]
        cdef int64_t end = self.latest_end if choice == "latest" else self.automaton.states[state].first_end
        with nogil:
            self.copy_after(end + 1, &out[0], wanted)
        return drafted

    def _check_choice(self, choice):
        if choice not in CHOICES:
            raise ValueError(f"choice={choice!r} is none of {', '.join(CHOICES)}")
        if choice != "first" and not self.counted:
            raise ValueError(f"choice={choice!r} needs DynamicAutomaton(occurrences=True)")

    cdef int32_t _load_edges(self, int32_t state) except -1 nogil:
        """Copy the edges of a state into the scratch array; return how many."""
        cdef int32_t degree = self.automaton.states[state].degree
        if degree > self.edge_capacity:
            resize(<void**>&self.edges, 2 * <int64_t>degree, sizeof(Edge))
            self.edge_capacity = 2 * degree
        return growing_edges(&self.automaton, state, self.edges)

    cdef int32_t _most_frequent(self, int32_t* state, int32_t* out, int32_t n) except -1 nogil:
        """Walk n tokens from `state` along the most frequent edges; return how many there were."""
        cdef int32_t i, degree, count, best_count, best
        cdef int32_t drafted = 0
        while drafted < n:
            while state[0] != ROOT and self.automaton.states[state[0]].degree == 0:
                state[0] = self.automaton.states[state[0]].link
            if state[0] == ROOT:
                break
            degree = self._load_edges(state[0])
            best = 0
            best_count = -1
            for i in range(degree):
                count = occurrences_of(&self.occurrences, self.edges[i].target).count
                if count > best_count:
                    best = i
                    best_count = count
            out[drafted] = self.edges[best].token
            state[0] = self.edges[best].target
            drafted += 1
        return drafted

    def draft_tree(self, n):
        """A Draft of the n most probable nodes under the match, by occurrence counts: best first, parents first.

        Raises ValueError for a negative n, or without occurrences=True.
        """
        if not self.counted:
            raise ValueError("draft_tree needs DynamicAutomaton(occurrences=True)")
        cdef int32_t wanted = min(check_draft_size(n), MAX_TREE)
        if self.match() == ROOT:
            wanted = 0
        tokens = np.empty(wanted, dtype=np.int32)
        parents = np.empty(wanted, dtype=np.int32)
        cdef int32_t[::1] token = tokens
        cdef int32_t[::1] parent = parents
        cdef int32_t found = 0
        if wanted:
            found = self._grow_tree(wanted, &token[0], &parent[0])
        return Draft(tokens[:found], parents[:found], "dynamic", self.match_length)

    cdef int32_t _grow_tree(self, int32_t n, int32_t* tokens, int32_t* parents) except -1 nogil:
        """Best-first: take the most frequent node known, then offer its children."""
        cdef Candidate* heap = NULL
        cdef void* moved
        cdef Candidate best
        cdef int32_t i, degree
        cdef int32_t size = 0
        cdef int32_t found = 0
        cdef int32_t node = 0
        best.state = self.match()
        best.parent = -1
        while True:
            degree = self._load_edges(best.state)
            moved = realloc(heap, <size_t>(size + degree + 1) * sizeof(Candidate))
            if moved == NULL:
                free(heap)
                with gil:
                    raise MemoryError
            heap = <Candidate*>moved
            for i in range(degree):
                self._offer(heap, size, found, self.edges[i], node - 1)
                size += 1
                found += 1
            if size == 0 or node == n:
                break
            best = candidate_pop(heap, size)
            size -= 1
            tokens[node] = best.token
            parents[node] = best.parent
            node += 1
        free(heap)
        return node

    cdef void _offer(self, Candidate* heap, int32_t size, int32_t order, Edge edge, int32_t parent) noexcept nogil:
        """Put the node behind an edge on the heap."""
        cdef Candidate item
        item.count = occurrences_of(&self.occurrences, edge.target).count
        item.order = order
        item.token = edge.token
        item.state = edge.target
        item.parent = parent
        item.edge = 0
        item.depth = 0
        candidate_push(heap, size, item)

    def reset(self):
        """Forget the text; memory is kept for the next one."""
        growing_clear(&self.automaton)
        self.size = 0
        self.latest_end = NONE
        if self.counted:
            occurrences_reserve(&self.occurrences, 64)
            occurrences_add(&self.occurrences, ROOT, NONE)

    def __len__(self):
        return self.size

    @property
    def num_states(self):
        """Number of states, the root included: at most 2 * len(self)."""
        return self.automaton.num_states

    @property
    def nbytes(self):
        """Bytes reserved for states, edges and text."""
        cdef int64_t counts = self.occurrences.capacity * <int64_t>sizeof(LinkNode)
        return growing_nbytes(&self.automaton) + counts + self.capacity * <int64_t>sizeof(int32_t)

    def states(self):
        """The automaton as a list of dicts (length, link, first_end, edges), for drawing and teaching; O(states)."""
        return [self._state(state) for state in range(self.automaton.num_states)]

    def _state(self, int32_t state):
        cdef int32_t degree = self._load_edges(state)
        edges = {self.edges[i].token: self.edges[i].target for i in range(degree)}
        s = self.automaton.states[state]
        return {"length": s.length, "link": s.link, "first_end": s.first_end, "edges": dict(sorted(edges.items()))}

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
