"""Arrays that grow by half at a time; shared by all that grows here."""

from libc.stdint cimport int64_t
from libc.stdlib cimport realloc

cdef extern from *:
    """
    #include <stdint.h>
    #if defined(__linux__)
    #include <sys/mman.h>
    #endif

    /* Ask for huge pages where an array is many of them: random reads then miss the TLB less. Only a hint. */
    static inline void samlib_prefer_huge_pages(void* start, int64_t bytes) {
    #if defined(__linux__) && defined(MADV_HUGEPAGE)
        const uintptr_t huge = (uintptr_t)1 << 21;
        uintptr_t from = ((uintptr_t)start + huge - 1) & ~(huge - 1);
        uintptr_t to = ((uintptr_t)start + (uintptr_t)bytes) & ~(huge - 1);
        if (bytes >= (int64_t)(4 * huge)) madvise((void*)from, to - from, MADV_HUGEPAGE);
    #endif
    }

    /* Start to load what is read in a moment. */
    #if defined(__GNUC__)
    #define samlib_prefetch(address) __builtin_prefetch(address)
    #else
    #define samlib_prefetch(address) ((void)(address))
    #endif

    /* The smallest k with 2**k >= x, for x > 1. */
    static inline int samlib_ceil_log2(int64_t x) {
    #if defined(__GNUC__)
        return 64 - __builtin_clzll((unsigned long long)x - 1);
    #else
        int k = 0;
        while (((int64_t)1 << k) < x) k++;
        return k;
    #endif
    }
    """
    void samlib_prefer_huge_pages(void* start, int64_t bytes) noexcept nogil
    int ceil_log2 "samlib_ceil_log2" (int64_t x) noexcept nogil
    void prefetch "samlib_prefetch" (const void* address) noexcept nogil


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
    samlib_prefer_huge_pages(moved, capacity * <int64_t>item)
    return capacity
