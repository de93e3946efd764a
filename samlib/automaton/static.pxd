from libc.stdint cimport int32_t, int64_t

from samlib.automaton.frontier cimport DraftNodes, Frontier
from samlib.automaton.frozen cimport Index, Place

cdef class StaticAutomaton:
    cdef Index index
    cdef dict arrays            # owns what `index` points into
    cdef readonly object vocab_size
    cdef readonly object fingerprint
    cdef readonly object path

cdef class Cursor:
    cdef readonly StaticAutomaton automaton
    cdef Place place
    cdef int32_t max_length     # longer matches are cut to it
    cdef Frontier frontier      # of the draft tree that is being grown

    cdef int step(self, const int32_t* tokens, int64_t n) except -1 nogil
    cdef int64_t continuation(self, bint latest, int64_t* end) except -1 nogil
    cdef int64_t copy_first(self, int32_t* out, int64_t n) except -1 nogil
    cdef int follow(self, Place* place, int32_t token) except -1 nogil
    cdef int shorten(self, Place* place) except -1 nogil
    cdef int32_t children(self, const Place* place, int32_t most, int32_t* tokens, int32_t* counts) except -1 nogil
    cdef int32_t occurrences(self, const Place* place) except -1 nogil
    cdef int32_t grow_tree(self, const Place* place, int32_t n, int32_t max_depth, int32_t least, DraftNodes* out
                           ) except -1 nogil
