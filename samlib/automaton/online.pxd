"""Online construction of the suffix automaton of one text (Blumer et al. 1985): the C core of the dynamic automaton.

Text, states and edges live in flat arrays that grow when full; everything is addressed by integer ids, never by
pointer, so that growing cannot leave a dangling reference.
"""

from libc.stdint cimport int32_t, int64_t

cdef enum:
    ROOT = 0
    NONE = -1

cdef struct Edge:
    int32_t token               # NONE marks a free slot of a hashed block
    int32_t target              # state id

cdef struct State:              # 16 bytes, so that none lies across two cache lines
    int32_t length              # length of the longest string of the class
    int32_t link                # suffix link; NONE for the root
    int32_t first_end           # text position at which the class ends first (min_endpos); -1 for the root
    int32_t edges               # NONE: no edge; >= 0: target of the only edge, whose token is text[first_end + 1],
                                # since that is what follows the first occurrence; below: the block -2 - edges

cdef struct OnlineAutomaton:
    int32_t* text               # the tokens so far
    State* states
    Edge* slots                 # blocks of 4, 8, 16, … slots; a block's first holds its degree and the log2 of its size
    int64_t size                # tokens
    int64_t num_states
    int64_t num_slots           # slots handed out so far
    int64_t text_capacity
    int64_t state_capacity
    int64_t slot_capacity
    int64_t max_bytes           # larger arrays are refused, as if memory were short; lowered by tests
    int32_t free_blocks[32]     # per log2 size: the first free block, chained through Edge.target
    int32_t split               # the state that the last append split (its clone is then the newest state), or NONE
    int32_t last                # the state of the whole text

# Where memory is taken the result is -1 if there was none; only `online_check` raises.
cdef int online_init(OnlineAutomaton* self) noexcept nogil
cdef void online_free(OnlineAutomaton* self) noexcept nogil
cdef void online_clear(OnlineAutomaton* self) noexcept nogil
cdef int online_reserve(OnlineAutomaton* self, int64_t n) noexcept nogil
cdef int online_extend(OnlineAutomaton* self, const int32_t* tokens, int64_t n) noexcept nogil
cdef int32_t online_target(const OnlineAutomaton* self, int32_t state, int32_t token) noexcept nogil
cdef int32_t online_degree(const OnlineAutomaton* self, int32_t state) noexcept nogil
cdef void online_edges(const OnlineAutomaton* self, int32_t state, Edge* out) noexcept nogil
cdef int64_t online_nbytes(const OnlineAutomaton* self) noexcept nogil
cdef int online_check(const OnlineAutomaton* self) except -1
