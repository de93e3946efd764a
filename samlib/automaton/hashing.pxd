"""The hash of token ids. Index files depend on it: INDEX_FORMAT.md states it, and a change needs a new version there."""

from libc.stdint cimport int32_t, uint32_t


cdef inline uint32_t hash_of(int32_t token) noexcept nogil:
    cdef uint32_t h = (<uint32_t>token) * <uint32_t>2654435769
    return h ^ (h >> 15)
