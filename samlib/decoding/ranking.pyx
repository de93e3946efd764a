"""The best values of each row of a matrix on the CPU: one pass at the speed of memory, where torch takes ten times that.

A row is read once for the maxima of its blocks. The k largest values lie in blocks whose maximum is at least the k-th
largest of these, so that few blocks are read again, from the fast caches.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc

import numpy as np


cdef enum:
    BLOCK = 256
    LANES = 32                  # maxima that are kept side by side, so that the compiler takes several at a time


def rank(const float[:, ::1] values, Py_ssize_t k):
    """(best, top): of each row the index of the largest value, and the indices of the k largest, best first.

    values: float32, shape (m, n), with n >= max(k, 1). best is a list of m ints; top an int32 array of shape (m, k), or
    None for k = 0. Of equal values the first counts as the larger one, as for torch.argmax; nan as the least.
    """
    cdef Py_ssize_t m = values.shape[0], n = values.shape[1], wanted = max(k, 1), row
    cdef Py_ssize_t num_blocks = (n + BLOCK - 1) // BLOCK
    top = np.empty((m, wanted), dtype=np.int32)
    cdef int32_t[:, ::1] out = top
    if n < wanted:
        raise ValueError(f"rows of {n} values have no {wanted} best ones")
    cdef float* maxima = <float*>malloc((num_blocks + wanted) * sizeof(float))
    if maxima == NULL:
        raise MemoryError
    with nogil:
        for row in range(m):
            rank_row(&values[row, 0], n, maxima, num_blocks, maxima + num_blocks, &out[row, 0], wanted)
    free(maxima)
    return top[:, 0].tolist(), top if k else None


cdef void rank_row(const float* x, Py_ssize_t n, float* maxima, Py_ssize_t num_blocks, float* kept, int32_t* out,
                   Py_ssize_t k) noexcept nogil:
    """Write the indices of the k largest of x[0 .. n - 1] to `out`; `maxima` and `kept` are space for the work."""
    cdef Py_ssize_t b, i
    cdef Py_ssize_t filled = 0
    cdef float bound
    for b in range(num_blocks):
        maxima[b] = largest(x + b * BLOCK, min(BLOCK, n - b * BLOCK))
        filled = insert(maxima[b], <int32_t>b, kept, out, filled, k)
    bound = kept[k - 1] if filled == k else -INFINITY
    filled = 0
    for b in range(num_blocks):
        if maxima[b] >= bound:
            for i in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
                filled = insert(x[i], <int32_t>i, kept, out, filled, k)


cdef inline Py_ssize_t insert(float value, int32_t index, float* kept, int32_t* out, Py_ssize_t filled,
                              Py_ssize_t k) noexcept nogil:
    """Insert a value into the `filled` ones kept, the largest first, behind its equals; return how many are kept."""
    cdef Py_ssize_t place
    if value != value:
        value = -INFINITY       # a nan that was kept would keep all others out
    if filled == k and not value > kept[k - 1]:
        return filled
    place = filled if filled < k else k - 1
    while place > 0 and value > kept[place - 1]:
        kept[place] = kept[place - 1]
        out[place] = out[place - 1]
        place -= 1
    kept[place] = value
    out[place] = index
    return filled + 1 if filled < k else k


cdef float largest(const float* x, Py_ssize_t n) noexcept nogil:
    """The largest of n values, nan left out; -inf for none."""
    cdef float lanes[LANES]
    cdef float best = -INFINITY
    cdef Py_ssize_t lane
    cdef Py_ssize_t i = 0
    for lane in range(LANES):
        lanes[lane] = -INFINITY
    while i + LANES <= n:
        for lane in range(LANES):
            lanes[lane] = x[i + lane] if x[i + lane] > lanes[lane] else lanes[lane]
        i += LANES
    while i < n:
        best = x[i] if x[i] > best else best
        i += 1
    for lane in range(LANES):
        best = lanes[lane] if lanes[lane] > best else best
    return best
