"""A binary heap of draft-tree nodes, the most frequent on top; shared by both automata."""

from libc.stdint cimport int32_t

cdef struct Candidate:
    int32_t count               # occurrences of the draft-tree node
    int32_t order               # when it was found: the tie-breaker
    int32_t token
    int32_t parent              # the draft-tree node above it, -1 for the root
    int32_t state               # the state that it stands in; in a frozen index: the node …
    int32_t edge                # … on which edge of that, …
    int32_t depth               # … so many tokens down


cdef inline bint candidate_better(const Candidate* a, const Candidate* b) noexcept nogil:
    return a.count > b.count or (a.count == b.count and a.order < b.order)


cdef inline void candidate_push(Candidate* heap, int32_t size, Candidate item) noexcept nogil:
    """Add to a heap of `size` candidates, which has room for one more."""
    cdef int32_t i = size
    while i > 0 and candidate_better(&item, &heap[(i - 1) // 2]):
        heap[i] = heap[(i - 1) // 2]
        i = (i - 1) // 2
    heap[i] = item


cdef inline Candidate candidate_pop(Candidate* heap, int32_t size) noexcept nogil:
    """Take the best from a heap of `size` (> 0) candidates."""
    cdef Candidate top = heap[0]
    cdef Candidate item = heap[size - 1]
    cdef int32_t i = 0
    cdef int32_t child
    while True:
        child = 2 * i + 1
        if child >= size - 1:
            break
        if child + 1 < size - 1 and candidate_better(&heap[child + 1], &heap[child]):
            child += 1
        if not candidate_better(&heap[child], &item):
            break
        heap[i] = heap[child]
        i = child
    heap[i] = item
    return top
