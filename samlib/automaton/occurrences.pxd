"""Occurrence counts of a growing automaton's states, kept exact in a link-cut tree over the suffix links."""

from libc.stdint cimport int32_t, int64_t

cdef struct LinkNode:           # a state, as a node of the splay tree that holds its preferred path
    int32_t left                # nearer the root of the suffix-link tree
    int32_t right               # farther from it
    int32_t parent              # in the splay tree; at its root: the suffix link that leads on to the next path
    int32_t count               # occurrences of the state's strings
    int32_t last_end            # where they end last
    int32_t pending_count       # to be added below this node
    int32_t pending_end         # to be set below this node; NONE for nothing

cdef struct Occurrences:
    LinkNode* nodes
    int64_t capacity
    int64_t max_bytes           # a larger array is refused, as if memory were short; lowered by tests

cdef void occurrences_init(Occurrences* self) noexcept nogil
cdef void occurrences_free(Occurrences* self) noexcept nogil
cdef int occurrences_reserve(Occurrences* self, int64_t states) noexcept nogil
cdef void occurrences_clear(Occurrences* self) noexcept nogil
cdef void occurrences_split(Occurrences* self, int32_t state, int32_t clone) noexcept nogil
cdef int32_t occurrences_record(Occurrences* self, int32_t state, int32_t link, int32_t position) noexcept nogil
cdef const LinkNode* occurrences_of(Occurrences* self, int32_t state) noexcept nogil
