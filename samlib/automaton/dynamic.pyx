# cython: cdivision=True
"""The dynamic suffix automaton: the text so far, and what followed its longest repeated suffix.

Paper: Section 3.2, Algorithm 1. The longest suffix that also ends at an earlier position is the suffix link of the
state of the whole text, so no second state is tracked.
"""

cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

import numpy as np

from samlib.automaton.arrays cimport ids_of, new_ids, small_int
from samlib.automaton.memory cimport enlarge
from samlib.automaton.draft import Draft
from samlib.automaton.frontier cimport (
    Candidate,
    frontier_free,
    frontier_init,
    frontier_offer,
    frontier_start,
    frontier_take,
    least_count,
    put_node,
)
from samlib.automaton.ids import as_ids, check_draft_size, check_limit, check_number
from samlib.automaton.occurrences cimport (
    LinkNode,
    occurrences_clear,
    occurrences_free,
    occurrences_init,
    occurrences_of,
    occurrences_record,
    occurrences_reserve,
    occurrences_split,
)
from samlib.automaton.online cimport (
    NONE,
    ROOT,
    Edge,
    OnlineAutomaton,
    online_check,
    online_clear,
    online_degree,
    online_edges,
    online_extend,
    online_free,
    online_init,
    online_nbytes,
    online_reserve,
    online_target,
)

cnp.import_array()

cdef enum:
    MAX_ID = 2147483647
    MAX_TOKENS = 1 << 30        # at most two states a token, with ids below 2**31
    MAX_TREE = 1 << 20
    FEW = 64                    # tokens for which giving up the GIL does not pay

CHOICES = ("first", "latest", "frequent")


cdef int _raise_no_memory() except -1 with gil:
    raise MemoryError("the suffix automaton does not fit in memory: the text is as before the call")


cdef int _raise_too_long(int64_t most) except -1 with gil:
    raise ValueError(f"the text would exceed {most:,} tokens: start a new automaton, or reset() this one")


cdef class DynamicAutomaton:
    """A suffix automaton over a growing sequence of token ids.

    occurrences: also count how often and where last each state occurs, which the choices "latest" and "frequent" and
    `draft_tree` need; exact, at O(log n) amortised a token instead of O(1).

    Memory is linear in the text. Bytes reserved a token (`nbytes`), at 1 M tokens, without and with occurrences: real
    text 47 and 92; one token repeated 21 and 51; all different 55 and 85; random bits, the worst seen, 72 and 140. An
    array that grows exists twice for a moment.

    Thread-safety: one thread at a time; different automata are independent. A long `extend` runs without the GIL;
    whoever uses the automaton meanwhile gets a RuntimeError.
    """

    def __cinit__(self, *, occurrences=False):
        occurrences_init(&self.occurrences)
        frontier_init(&self.frontier)
        self.counted = occurrences
        self.max_tokens = MAX_TOKENS
        if online_init(&self.automaton) < 0 or (self.counted and occurrences_reserve(&self.occurrences, 1) < 0):
            raise MemoryError("no memory for an empty suffix automaton")
        self._clear()

    def __dealloc__(self):
        online_free(&self.automaton)
        occurrences_free(&self.occurrences)
        frontier_free(&self.frontier)
        free(self.edges)

    # --- the text

    def extend(self, tokens):
        """Append one token id, or a one-dimensional sequence of ids; amortised O(1) a token.

        Raises ValueError for an id outside [0, 2**31 - 1] or a text of more than 2**30 tokens, TypeError for an id that
        is not an integer, MemoryError where memory is short; the automaton is then as it was.
        """
        cdef int64_t one = small_int(tokens)
        cdef int32_t token = <int32_t>one
        cdef cnp.ndarray ids
        cdef const int32_t* first
        cdef int64_t n
        if one >= 0:
            self._check_idle()
            self.append(&token, 1)
            return
        ids = as_ids(tokens)
        first = ids_of(ids)
        n = cnp.PyArray_SIZE(ids)
        self._check_idle()
        if n < FEW:
            self.append(first, n)
            return
        self.busy = True
        try:
            with nogil:
                self.append(first, n)
        finally:
            self.busy = False

    cdef int append(self, const int32_t* tokens, int64_t n) except -1 nogil:
        """As `extend`, for ids that are known to be good."""
        cdef int64_t before = self.automaton.size
        if n > self.max_tokens - before:
            return _raise_too_long(self.max_tokens)
        if online_reserve(&self.automaton, before + n) < 0:
            return _raise_no_memory()
        if self._extend(tokens, n) < 0:
            self._clear()
            self._extend(self.automaton.text, before)   # takes what memory is there, and so cannot fail
            return _raise_no_memory()
        return 0

    cdef int _extend(self, const int32_t* tokens, int64_t n) noexcept nogil:
        cdef int64_t i
        if not self.counted:
            return online_extend(&self.automaton, tokens, n)
        for i in range(n):
            if self._append_counted(tokens[i]) < 0:
                return -1
        return 0

    cdef int _append_counted(self, int32_t token) noexcept nogil:
        """Append a token, and mirror in the link-cut tree what that did to the suffix links."""
        cdef OnlineAutomaton* a = &self.automaton
        cdef int32_t link
        if occurrences_reserve(&self.occurrences, a.num_states + 2) < 0 or online_extend(a, &token, 1) < 0:
            return -1
        link = a.states[a.last].link
        if a.split != NONE:
            occurrences_split(&self.occurrences, a.split, link)
        self.latest_end = occurrences_record(&self.occurrences, a.last, link, a.states[a.last].first_end)
        return 0

    cdef void _clear(self) noexcept nogil:
        online_clear(&self.automaton)
        self.latest_end = NONE
        if self.counted:
            occurrences_clear(&self.occurrences)

    def reset(self):
        """Forget the text, in O(1); memory is kept for the next one."""
        self._check_idle()
        self._clear()

    cdef int _check_idle(self) except -1:
        if self.busy:
            raise RuntimeError("another thread is extending this automaton: give each thread its own, or a lock")
        return 0

    def __len__(self):
        return self.automaton.size

    # --- the match, and what followed it

    cdef int32_t match(self) noexcept nogil:
        """The state of the longest suffix that ends earlier, too; the root if no suffix does."""
        cdef int32_t link = self.automaton.states[self.automaton.last].link
        return ROOT if link == NONE else link

    cdef void copy_after(self, int64_t start, int32_t* out, int64_t n) noexcept nogil:
        """n tokens from position `start`; past the end of the text the copy goes on over itself."""
        cdef int64_t done = min(n, self.automaton.size - start)
        cdef int64_t more
        memcpy(out, self.automaton.text + start, done * sizeof(int32_t))
        while done < n:             # `done` is a multiple of the period
            more = min(done, n - done)
            memcpy(out + done, out, more * sizeof(int32_t))
            done += more

    @property
    def match_length(self):
        """Length of the longest suffix of the text that also ends at an earlier position."""
        self._check_idle()
        return self.automaton.states[self.match()].length

    def draft(self, n, *, choice="first"):
        """What followed the longest earlier match, as an int32 array of n tokens (of none, if nothing matches).

        choice "first" copies from the match's first occurrence (the paper's min_endpos), "latest" from its most recent
        one; a copy that reaches the end of the text goes on periodically. "frequent" takes the most frequent
        continuation, token by token; where nothing has followed so far, that of the longest suffix that goes on.

        Raises ValueError for a negative n or one above 2**31 - 1, an unknown choice, or one that needs
        occurrences=True; TypeError for an n that is not an integer.
        """
        cdef int64_t wanted = small_int(n)
        cdef int32_t state
        cdef int64_t end
        if wanted < 0:
            wanted = check_draft_size(n, exact=True)
        if choice != "first":
            self._check_choice(choice)
        self._check_idle()
        state = self.match()
        if state == ROOT or wanted == 0:
            return new_ids(0)
        drafted = new_ids(wanted)
        if choice == "frequent":
            return drafted[: self._most_frequent(state, ids_of(drafted), wanted)]
        end = self.latest_end if choice == "latest" else self.automaton.states[state].first_end
        self.copy_after(end + 1, ids_of(drafted), wanted)
        return drafted

    def _check_choice(self, choice):
        if choice not in CHOICES:
            raise ValueError(f"choice={choice!r} is none of {', '.join(CHOICES)}")
        if not self.counted:
            raise ValueError(f"choice={choice!r} needs DynamicAutomaton(occurrences=True)")

    cdef int64_t _load_edges(self, int32_t state) except -1:
        """Copy the edges of a state into the scratch array; return how many."""
        cdef int64_t degree = online_degree(&self.automaton, state)
        if degree > self.edge_capacity:
            if enlarge(<void**>&self.edges, &self.edge_capacity, degree, sizeof(Edge), self.automaton.max_bytes) < 0:
                return _raise_no_memory()
        online_edges(&self.automaton, state, self.edges)
        return degree

    cdef int32_t _occurrences_of(self, int32_t state) noexcept nogil:
        return occurrences_of(&self.occurrences, state).count

    cdef int64_t _most_frequent(self, int32_t state, int32_t* out, int64_t n) except -1:
        """Walk n tokens from `state` along the most frequent edges; return how many there were."""
        cdef int64_t drafted, i, degree, best
        cdef int32_t count, best_count
        for drafted in range(n):
            while state != ROOT and self.automaton.states[state].edges == NONE:
                state = self.automaton.states[state].link
            if state == ROOT:
                return drafted
            degree = self._load_edges(state)
            best = 0
            best_count = -1
            for i in range(degree):
                count = self._occurrences_of(self.edges[i].target)
                if count > best_count:
                    best = i
                    best_count = count
            out[drafted] = self.edges[best].token
            state = self.edges[best].target
        return n

    def draft_tree(self, n, *, max_depth=None, min_probability=0.0, return_probabilities=False):
        """A Draft of the n most probable nodes under the match, by occurrence counts: best first, parents first.

        Fewer where fewer continuations have occurred: a path ends where the text does, since nothing has followed
        there that could be counted (a copy by `draft` goes on periodically).

        A node's probability is the share of the match's earlier occurrences that went on along its path. max_depth: no
        node deeper than that; None for no limit. min_probability: none less probable. return_probabilities: return
        (draft, float64 array of shape (len(draft),), the nodes' probabilities).

        Raises ValueError for a negative n, a max_depth below 1, a min_probability outside 0 … 1, or without
        occurrences=True; TypeError for what is no number.
        """
        cdef int32_t wanted = min(check_draft_size(n), MAX_TREE)
        cdef int32_t depth = check_limit("max_depth", max_depth)
        cdef double probability = check_number("min_probability", min_probability, 0, 1)
        cdef int32_t found = 0
        cdef int32_t of = 1
        cdef DraftNodes out
        if not self.counted:
            raise ValueError("draft_tree needs DynamicAutomaton(occurrences=True)")
        self._check_idle()
        if self.match() == ROOT:
            wanted = 0
        tokens, parents, counts = new_ids(wanted), new_ids(wanted), new_ids(wanted)
        if wanted:
            out.tokens, out.parents, out.counts = ids_of(tokens), ids_of(parents), ids_of(counts)
            of = self.earlier_occurrences(self.match())
            found = self.grow_tree(self.match(), wanted, depth, least_count(probability, of), &out)
        draft = Draft(tokens[:found], parents[:found], "dynamic", self.match_length)
        return (draft, counts[:found] / np.float64(of)) if return_probabilities else draft

    cdef int32_t children(self, int32_t state, int32_t* tokens, int32_t* counts) except -1:
        """Counted: write what followed a state's strings, in no order, and how often each; return how many."""
        cdef int64_t degree = self._load_edges(state)
        cdef int64_t i
        for i in range(degree):
            tokens[i] = self.edges[i].token
            counts[i] = self._occurrences_of(self.edges[i].target)
        return <int32_t>degree

    cdef int32_t last_earlier_end(self, int32_t state) noexcept nogil:
        """Counted: where a state's strings end last with something behind them, if that is known; else NONE.

        It is of the match, and of every string that is no suffix of the text.
        """
        cdef int32_t end = self.latest_end
        if state != self.match():
            end = occurrences_of(&self.occurrences, state).last_end
        return end if end + 1 < self.automaton.size else NONE

    cdef int32_t earlier_occurrences(self, int32_t state) noexcept nogil:
        """Counted: how often the strings of a state that is a suffix of the text ended before its end."""
        return self._occurrences_of(state) - 1

    cdef int32_t grow_tree(self, int32_t state, int32_t n, int32_t max_depth, int32_t least, DraftNodes* out) except -1:
        """Counted: write at most n (> 0) nodes of at least `least` occurrences under a state to `out`; return how many.

        Best-first: take the most frequent node known, then offer its children.
        """
        cdef Candidate best
        cdef int32_t node = 0
        frontier_start(&self.frontier, n, max_depth, least)
        self._offer_children(state, self.earlier_occurrences(state), -1, 1)
        while frontier_take(&self.frontier, &best):
            put_node(out, node, &best)
            if best.level < max_depth:
                self._offer_children(best.state, best.count, node, best.level + 1)
            node += 1
        return node

    cdef int _offer_children(self, int32_t state, int32_t count, int32_t parent, int32_t level) except -1:
        """Offer what follows the `count` occurrences of a state, as long as some of it may be frequent enough."""
        cdef int64_t degree = online_degree(&self.automaton, state)
        cdef int64_t spare = count - degree     # occurrences that are left once each edge has one
        cdef int64_t i
        cdef Candidate item
        if spare + 1 < self.frontier.least:
            return 0
        self._load_edges(state)
        item.parent = parent
        item.level = level
        item.edge = item.depth = 0
        for i in range(degree):
            item.token = self.edges[i].token
            item.state = self.edges[i].target
            item.count = self._occurrences_of(item.state)
            if frontier_offer(&self.frontier, &item) < 0:
                return _raise_no_memory()
            spare -= item.count - 1
            if spare + 1 < self.frontier.least:
                return 0
        return 0

    # --- size, inspection

    @property
    def num_states(self):
        """Number of states, the root included: at most 2 * len(self)."""
        return self.automaton.num_states

    @property
    def nbytes(self):
        """Bytes reserved, for text, states, edges, counts and scratch; `reset` keeps them."""
        cdef int64_t scratch = self.edge_capacity * <int64_t>sizeof(Edge)
        scratch += self.frontier.capacity * <int64_t>sizeof(Candidate)
        return online_nbytes(&self.automaton) + self.occurrences.capacity * <int64_t>sizeof(LinkNode) + scratch

    def states(self):
        """The automaton as a list of dicts (length, link, first_end, edges), for drawing and teaching; O(states)."""
        self._check_idle()
        return [self._state(state) for state in range(self.automaton.num_states)]

    def _state(self, int32_t state):
        cdef int64_t degree = self._load_edges(state)
        edges = {self.edges[i].token: self.edges[i].target for i in range(degree)}
        s = self.automaton.states[state]
        return {"length": s.length, "link": s.link, "first_end": s.first_end, "edges": dict(sorted(edges.items()))}

    def __reduce__(self):
        raise TypeError("a DynamicAutomaton is not pickled: send the token ids and extend a new one")

    # --- for tests

    def _limit(self, *, max_tokens=MAX_TOKENS, max_bytes=1 << 62):
        """Refuse texts of more than `max_tokens` tokens, and arrays that would have to grow beyond `max_bytes`."""
        self.max_tokens = max_tokens
        self.automaton.max_bytes = self.occurrences.max_bytes = self.frontier.max_bytes = max_bytes

    def _check_invariants(self):
        """Walk the whole structure and raise AssertionError where it contradicts itself; O(states)."""
        online_check(&self.automaton)
        states = self.states()
        text = [self.automaton.text[i] for i in range(self.automaton.size)]
        assert states[ROOT]["link"] == NONE and states[ROOT]["length"] == 0 and states[ROOT]["first_end"] == -1
        assert len(states) <= max(2 * len(text), 1)
        assert sum(len(state["edges"]) for state in states) <= max(3 * len(text), 1)
        assert states[self.automaton.last]["length"] == len(text)
        for number in range(1, len(states)):
            self._check_link(states, number)
        for number, state in enumerate(states):
            for token, target in state["edges"].items():
                self._check_edge(states, text, number, token, target)
        if self.counted:
            self._check_counts(states)

    def _check_link(self, states, number):
        state = states[number]
        link = states[state["link"]]
        assert link["length"] < state["length"], number
        assert link["edges"].keys() >= state["edges"].keys(), number
        assert link["first_end"] <= state["first_end"] < self.automaton.size, number
        assert state["length"] <= state["first_end"] + 1, number

    def _check_edge(self, states, text, number, token, target):
        state, reached = states[number], states[target]
        assert online_target(&self.automaton, number, token) == target, (number, token)
        assert text[reached["first_end"]] == token, (number, token)
        assert reached["first_end"] > state["first_end"], (number, token)
        # what the class's strings become lies between the shortest and the longest string of the class reached
        assert states[reached["link"]]["length"] < state["length"] + 1 <= reached["length"], (number, token)

    def _check_counts(self, states):
        """A state occurs as often as those that link to it, and once more where it is a prefix of the text."""
        counts = [0] * len(states)
        latest = [-1] * len(states)
        for number in sorted(range(1, len(states)), key=lambda number: -states[number]["length"]):
            state = states[number]
            if state["length"] == state["first_end"] + 1:
                counts[number] += 1
                latest[number] = max(latest[number], state["first_end"])
            assert self._occurrences_of(number) == counts[number], number
            assert occurrences_of(&self.occurrences, number).last_end == latest[number], number
            counts[state["link"]] += counts[number]
            latest[state["link"]] = max(latest[state["link"]], latest[number])
