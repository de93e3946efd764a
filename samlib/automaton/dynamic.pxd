from libc.stdint cimport int32_t, int64_t

from samlib.automaton.growing cimport Growing

cdef class DynamicAutomaton:
    cdef Growing automaton
    cdef int32_t* text          # the tokens so far
    cdef int64_t size           # how many
    cdef int64_t capacity       # room in `text`

    cdef int _reserve(self, int64_t wanted) except -1 nogil
    cdef int append(self, const int32_t* tokens, int64_t n) except -1 nogil
    cdef int32_t match(self) noexcept nogil
    cdef void copy_after(self, int64_t start, int32_t* out, int64_t n) noexcept nogil
