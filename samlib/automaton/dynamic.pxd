from libc.stdint cimport int32_t, int64_t

from samlib.automaton.candidates cimport Candidate
from samlib.automaton.growing cimport Edge, Growing
from samlib.automaton.occurrences cimport Occurrences

cdef class DynamicAutomaton:
    cdef Growing automaton
    cdef Occurrences occurrences
    cdef bint counted           # whether `occurrences` is kept
    cdef int32_t latest_end     # counted: where the match ends last before the end of the text
    cdef int32_t* text          # the tokens so far
    cdef int64_t size           # how many
    cdef int64_t capacity       # room in `text`
    cdef Edge* edges            # scratch: the edges of one state
    cdef int32_t edge_capacity

    cdef int _reserve(self, int64_t wanted) except -1 nogil
    cdef int append(self, const int32_t* tokens, int64_t n) except -1 nogil
    cdef int _append_counted(self, int32_t token) except -1 nogil
    cdef int32_t match(self) noexcept nogil
    cdef void copy_after(self, int64_t start, int32_t* out, int64_t n) noexcept nogil
    cdef int32_t _load_edges(self, int32_t state) except -1 nogil
    cdef int32_t _most_frequent(self, int32_t* state, int32_t* out, int32_t n) except -1 nogil
    cdef int32_t _grow_tree(self, int32_t n, int32_t* tokens, int32_t* parents) except -1 nogil
    cdef void _offer(self, Candidate* heap, int32_t size, int32_t order, Edge edge, int32_t parent) noexcept nogil
