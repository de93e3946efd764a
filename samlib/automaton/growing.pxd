"""The growing suffix automaton: the C core that the dynamic automaton and the index builder share.

States and edges live in two flat arrays that double when full; everything is addressed by integer ids, never by
pointer, so that growing cannot leave a dangling reference.
"""

from libc.stdint cimport int32_t, int64_t

cdef enum:
    ROOT = 0
    NONE = -1
    SCAN_LIMIT = 16             # blocks up to this many edges are scanned in order, larger ones are hashed

cdef struct Edge:
    int32_t token               # NONE marks a free slot of a hashed block
    int32_t target              # state id

cdef struct State:
    int32_t length              # length of the longest string of the class
    int32_t link                # suffix link; NONE for the root
    int32_t first_end           # text position at which the class ends first (min_endpos)
    int32_t degree              # number of outgoing edges
    int32_t head                # degree 1: the edge's token; above: where its block starts in `slots`
    int32_t aux                 # degree 1: the edge's target; above: log2 of the block's capacity

cdef struct Growing:
    State* states
    int64_t num_states
    int64_t state_capacity
    Edge* slots                 # blocks of 2, 4, 8, … edges
    int64_t num_slots           # slots handed out so far
    int64_t slot_capacity
    int32_t free_blocks[32]     # per log2 capacity: the first free block, chained through Edge.target
    int32_t split               # the state that the last append split (its clone is then the newest state), or NONE
    int32_t last                # the state of the whole text (of the current document)
    int32_t* occurrences        # per state: how often the text stood in it; NULL unless counted
    int32_t* last_end           # per state: where it stood last; NULL unless counted
    bint counted

cdef int growing_init(Growing* self, bint counted) except -1 nogil
cdef void growing_free(Growing* self) noexcept nogil
cdef void growing_clear(Growing* self) noexcept nogil
cdef int growing_extend(Growing* self, const int32_t* tokens, int64_t n, int64_t position) except -1 nogil
cdef int32_t growing_target(const Growing* self, int32_t state, int32_t token) noexcept nogil
cdef int32_t growing_edges(const Growing* self, int32_t state, Edge* out) noexcept nogil
cdef int64_t growing_nbytes(const Growing* self) noexcept nogil
