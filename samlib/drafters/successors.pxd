from libc.stdint cimport int32_t, int64_t

cdef class Successors:
    cdef readonly int32_t width     # successors known after each context
    cdef int32_t num_tokens         # rows of `after_token`
    cdef object token_rows          # arrays that own what the pointers point to
    cdef object pair_rows
    cdef object pair_keys
    cdef int32_t* after_token
    cdef int32_t* after_pair
    cdef int64_t* keys

    cdef int reserve(self, int32_t tokens) except -1
    cdef const int32_t* of_token(self, int32_t token) noexcept nogil
    cdef const int32_t* of_pair(self, int32_t before, int32_t token) noexcept nogil
