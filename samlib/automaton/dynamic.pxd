from libc.stdint cimport int32_t, int64_t

from samlib.automaton.frontier cimport DraftNodes, Frontier
from samlib.automaton.occurrences cimport Occurrences
from samlib.automaton.online cimport Edge, OnlineAutomaton

cdef class DynamicAutomaton:
    cdef OnlineAutomaton automaton
    cdef Occurrences occurrences
    cdef Frontier frontier      # of the draft tree that is being grown
    cdef Edge* edges            # scratch: the edges of one state
    cdef int64_t edge_capacity
    cdef int64_t max_tokens     # longer texts are refused; lowered by tests
    cdef int32_t latest_end     # counted: where the match ends last before the end of the text
    cdef bint counted           # whether `occurrences` is kept
    cdef bint busy              # a thread is extending the automaton without the GIL

    cdef int append(self, const int32_t* tokens, int64_t n) except -1 nogil
    cdef int _extend(self, const int32_t* tokens, int64_t n) noexcept nogil
    cdef int _append_counted(self, int32_t token) noexcept nogil
    cdef void _clear(self) noexcept nogil
    cdef int _check_idle(self) except -1
    cdef int32_t match(self) noexcept nogil
    cdef void copy_after(self, int64_t start, int32_t* out, int64_t n) noexcept nogil
    cdef int64_t _load_edges(self, int32_t state) except -1
    cdef int32_t _occurrences_of(self, int32_t state) noexcept nogil
    cdef int64_t _most_frequent(self, int32_t state, int32_t* out, int64_t n) except -1
    cdef int32_t children(self, int32_t state, int32_t* tokens, int32_t* counts) except -1
    cdef int32_t last_earlier_end(self, int32_t state) noexcept nogil
    cdef int32_t earlier_occurrences(self, int32_t state) noexcept nogil
    cdef int32_t grow_tree(self, int32_t state, int32_t n, int32_t max_depth, int32_t least, DraftNodes* out) except -1
    cdef int _offer_children(self, int32_t state, int32_t count, int32_t parent, int32_t level) except -1
