"""A walk through memory in which each step waits for the one before: what a cache miss costs."""

from libc.stdint cimport int64_t


def chase(const int64_t[::1] following not None, int64_t hops):
    """Follow `following` from place 0 for that many hops and return the place reached.

    following: a permutation of its own places; nothing is checked while walking. Holds no lock meanwhile.
    """
    cdef int64_t place = 0, hop
    with nogil:
        for hop in range(hops):
            place = following[place]
    return place
