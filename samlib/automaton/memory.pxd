"""Arrays that grow by half at a time; shared by all that grows here."""

from libc.stdint cimport int64_t
from libc.stdlib cimport realloc


cdef inline int64_t grown(int64_t capacity, int64_t wanted) noexcept nogil:
    """The capacity to take so that `wanted` (> capacity) items fit."""
    capacity = max(capacity, 64)
    while capacity < wanted:
        capacity += capacity // 2
    return capacity


cdef inline int64_t resize(void** array, int64_t capacity, size_t item) except -1 nogil:
    """Make room for `capacity` items of `item` bytes, and return it; MemoryError leaves the array as it was."""
    cdef void* moved = realloc(array[0], <size_t>capacity * item)
    if moved == NULL:
        with gil:
            raise MemoryError("the suffix automaton does not fit in memory")
    array[0] = moved
    return capacity
