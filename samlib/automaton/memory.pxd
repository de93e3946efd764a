"""Memory for what grows here: arrays that grow by half at a time, the large ones in large pages; and hints ahead.

Past the reach of the TLB (a text of some 100,000 tokens) large pages save a sixth of the time of an append, and a
quarter of that of building an index. They are had only by asking for aligned memory, which realloc does not give.
"""

from libc.stdint cimport int64_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <stdlib.h>
    #include <string.h>
    #if defined(__linux__)
    #include <sys/mman.h>
    #endif

    /* As realloc, from `old` to `bytes` (> old) bytes. */
    static inline void* samlib_reallocate(void* array, size_t old, size_t bytes) {
    #if defined(__linux__) && defined(MADV_HUGEPAGE)
        const size_t page = (size_t)2 << 20;
        void* moved = NULL;
        if (bytes >= page) {
            bytes = (bytes + page - 1) & ~(page - 1);
            if (posix_memalign(&moved, page, bytes) != 0) return NULL;
            madvise(moved, bytes, MADV_HUGEPAGE);   /* only a wish: it may fail */
            if (old > 0) memcpy(moved, array, old);
            free(array);
            return moved;
        }
    #endif
        return realloc(array, bytes);
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
    void* samlib_reallocate(void* array, size_t old, size_t bytes) noexcept nogil
    int ceil_log2 "samlib_ceil_log2" (int64_t x) noexcept nogil
    void prefetch "samlib_prefetch" (const void* address) noexcept nogil

cdef enum:
    FEWEST = 64                 # items of the smallest array


cdef inline int enlarge(void** array, int64_t* capacity, int64_t wanted, size_t item, int64_t max_bytes) noexcept nogil:
    """Make room for `wanted` (> capacity) items of `item` bytes; -1 leaves the array as it was."""
    cdef int64_t larger = max(wanted, capacity[0] + capacity[0] // 2, FEWEST)
    cdef void* moved = NULL
    if larger <= max_bytes // <int64_t>item:
        moved = samlib_reallocate(array[0], <size_t>capacity[0] * item, <size_t>larger * item)
    if moved == NULL:
        return -1
    array[0] = moved
    capacity[0] = larger
    return 0
