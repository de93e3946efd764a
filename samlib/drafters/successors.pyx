# cython: cdivision=True
"""What the target found likely after a token, and after two tokens, when it last verified them.

Rows after one token are Token Recycling's adjacency matrix (Luo et al. 2024, arXiv 2408.08696). Rows after two tokens
are the same idea one token further back: fewer contexts are known, and those more surely.
"""

cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

import numpy as np

from samlib.automaton.arrays cimport address_of, ids_of

cnp.import_array()

cdef enum:
    UNKNOWN = -1
    LOG_PAIRS = 15              # 32,768 pairs are kept, in 1.3 MB: of two that fall on one place, the later


cdef inline int64_t _key(int32_t before, int32_t token) noexcept nogil:
    return <int64_t>((<uint64_t>before << 32) | <uint32_t>token)


cdef inline int64_t _place(int64_t key) noexcept nogil:
    """Where the row of a pair lies, by Fibonacci hashing."""
    return <int64_t>((<uint64_t>key * <uint64_t>0x9E3779B97F4A7C15) >> (64 - LOG_PAIRS))


cdef class Successors:
    """The `width` likeliest next tokens after each token, and after each of the last pairs of tokens; -1 for unknown.

    Not thread-safe.
    """

    def __init__(self, width):
        self.width = width
        self.reset()

    def reset(self):
        """Forget everything."""
        self.num_tokens = 0
        self.reserve(1)
        self.pair_rows = np.empty((1 << LOG_PAIRS, self.width), dtype=np.int32)
        self.pair_keys = np.full(1 << LOG_PAIRS, UNKNOWN, dtype=np.int64)
        self.after_pair = ids_of(self.pair_rows)
        self.keys = <int64_t*>address_of(self.pair_keys)

    def learn(self, before, verified):
        """Take what a verification forward found likely after each of its tokens.

        before: the token before the root, or -1 where there is none. verified: a Verified with `top` and `parents`.
        """
        cdef const int32_t[::1] tokens = verified.tokens
        cdef const int32_t[::1] parents = verified.parents
        cdef const int32_t[:, ::1] top = np.ascontiguousarray(verified.top)
        cdef int32_t known = min(self.width, <int32_t>top.shape[1])
        cdef int32_t i, previous
        cdef int64_t place
        self.reserve(1 + int(verified.tokens.max()))
        for i in range(tokens.shape[0]):
            _fill(&top[i, 0], known, self.after_token + <int64_t>tokens[i] * self.width, self.width)
            previous = tokens[parents[i]] if parents[i] >= 0 else <int32_t>before
            if previous >= 0:
                place = _place(_key(previous, tokens[i]))
                self.keys[place] = _key(previous, tokens[i])
                _fill(&top[i, 0], known, self.after_pair + place * self.width, self.width)

    def row(self, token, before=None):
        """The ids that were likely after a token, or after the pair (before, token), the likeliest first; a list."""
        cdef const int32_t* ids = self.of_token(token) if before is None else self.of_pair(before, token)
        return [ids[i] for i in range(self.width) if ids[i] != UNKNOWN] if ids != NULL else []

    cdef int reserve(self, int32_t tokens) except -1:
        """Make room for the rows of tokens 0 … tokens - 1."""
        if tokens > self.num_tokens:
            rows = np.full((max(tokens, 2 * self.num_tokens), self.width), UNKNOWN, dtype=np.int32)
            if self.num_tokens:
                rows[: self.num_tokens] = self.token_rows
            self.token_rows = rows
            self.after_token = ids_of(rows)
            self.num_tokens = rows.shape[0]
        return 0

    cdef const int32_t* of_token(self, int32_t token) noexcept nogil:
        """The row after a token, -1 beyond its last id; NULL where nothing is known."""
        cdef const int32_t* row
        if not 0 <= token < self.num_tokens:
            return NULL
        row = self.after_token + <int64_t>token * self.width
        if row[0] == UNKNOWN:
            return NULL
        return row

    cdef const int32_t* of_pair(self, int32_t before, int32_t token) noexcept nogil:
        """The row after a pair of tokens, likewise."""
        cdef int64_t key = _key(before, token)
        if before < 0 or self.keys[_place(key)] != key:
            return NULL
        return self.after_pair + _place(key) * self.width


cdef void _fill(const int32_t* ids, int32_t n, int32_t* row, int32_t width) noexcept nogil:
    """Write a row; a model of few tokens has fewer likely ones than fit."""
    cdef int32_t i
    for i in range(width):
        row[i] = ids[i] if i < n else UNKNOWN
