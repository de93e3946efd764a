# cython: cdivision=True
"""The suffix automaton of one growing text. Amortised O(1) a token for a bounded alphabet.

A state's only edge needs no token of its own: it is the one that follows the state's first occurrence. Up to 31 edges
lie in a block that is scanned, more in a block that is hashed. No function here takes the GIL.

Where memory is short a token may be left half appended: the caller then clears the automaton and appends the text
again, which takes the memory that is there already, and so cannot fail.
"""

from libc.stdint cimport uint32_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from samlib.automaton.memory cimport enlarge

cdef enum:
    MAX_ID = 2147483647
    FIRST_BLOCK = 2             # log2 of the smallest block
    HASHED = 6                  # log2 of the smallest hashed block; smaller ones are scanned


cdef int online_init(OnlineAutomaton* self) noexcept nogil:
    """An automaton of the empty text."""
    self.text = NULL
    self.states = NULL
    self.slots = NULL
    self.text_capacity = 0
    self.state_capacity = 0
    self.slot_capacity = 0
    self.max_bytes = <int64_t>1 << 62
    if _reserve_states(self, 1) < 0:
        return -1
    online_clear(self)
    return 0


cdef void online_free(OnlineAutomaton* self) noexcept nogil:
    free(self.text)
    free(self.states)
    free(self.slots)


cdef void online_clear(OnlineAutomaton* self) noexcept nogil:
    """Back to the empty text; memory is kept."""
    cdef int i
    for i in range(32):
        self.free_blocks[i] = NONE
    self.size = 0
    self.num_slots = 0
    self.num_states = 0
    self.split = NONE
    self.last = _new_state(self, 0, NONE, NONE)


cdef int64_t online_nbytes(const OnlineAutomaton* self) noexcept nogil:
    """Bytes reserved for text, states and edges."""
    return (
        self.text_capacity * <int64_t>sizeof(int32_t)
        + self.state_capacity * <int64_t>sizeof(State)
        + self.slot_capacity * <int64_t>sizeof(Edge)
    )


cdef int online_reserve(OnlineAutomaton* self, int64_t n) noexcept nogil:
    """Make room for a text of n tokens."""
    if n <= self.text_capacity:
        return 0
    return enlarge(<void**>&self.text, &self.text_capacity, n, sizeof(int32_t), self.max_bytes)


cdef inline int _reserve_states(OnlineAutomaton* self, int64_t n) noexcept nogil:
    if n <= self.state_capacity:
        return 0
    return enlarge(<void**>&self.states, &self.state_capacity, n, sizeof(State), self.max_bytes)


cdef inline int _reserve_slots(OnlineAutomaton* self, int64_t n) noexcept nogil:
    if n <= self.slot_capacity:
        return 0
    if n >= MAX_ID:
        return -1
    return enlarge(<void**>&self.slots, &self.slot_capacity, n, sizeof(Edge), self.max_bytes)


cdef inline int32_t _new_state(OnlineAutomaton* self, int32_t length, int32_t link, int32_t first_end) noexcept nogil:
    """A state without edges; there is room for it."""
    cdef int32_t state = <int32_t>self.num_states
    cdef State* s = &self.states[state]
    s.length = length
    s.link = link
    s.first_end = first_end
    s.edges = NONE
    self.num_states += 1
    return state


# --- edges


cdef int _take_block(OnlineAutomaton* self, int log2_size, int32_t* out) noexcept nogil:
    """A block of 2**log2_size slots: a freed one, else from the end of the pool."""
    cdef int64_t wanted = self.num_slots + (<int64_t>1 << log2_size)
    cdef int32_t block = self.free_blocks[log2_size]
    if block != NONE:
        self.free_blocks[log2_size] = self.slots[block].target
        out[0] = block
        return 0
    if _reserve_slots(self, wanted) < 0:
        return -1
    out[0] = <int32_t>self.num_slots
    self.num_slots = wanted
    return 0


cdef inline void _give_back_block(OnlineAutomaton* self, int32_t block, int log2_size) noexcept nogil:
    self.slots[block].target = self.free_blocks[log2_size]
    self.free_blocks[log2_size] = block


cdef inline Edge* _block(const OnlineAutomaton* self, const State* s) noexcept nogil:
    """The block of a state with more than one edge. Its first slot is the header, its edges follow."""
    return self.slots + (-2 - s.edges)


cdef inline Edge* _probe(Edge* block, int32_t token) noexcept nogil:
    """The slot of `token` in a hashed block, or the free slot where it belongs."""
    cdef uint32_t size = <uint32_t>1 << block.target
    cdef uint32_t i = ((<uint32_t>token) * <uint32_t>2654435769) >> (32 - block.target)
    i += i == 0
    while block[i].token != token and block[i].token != NONE:
        i += 1
        if i == size:
            i = 1
    return &block[i]


cdef inline int32_t* _find(const OnlineAutomaton* self, int32_t state, int32_t token) noexcept nogil:
    """Where the target of the edge `token` of `state` is kept, or NULL if there is no such edge."""
    cdef State* s = &self.states[state]
    cdef Edge* block
    cdef Edge* edge
    cdef int32_t i
    if s.edges >= 0:
        return &s.edges if self.text[s.first_end + 1] == token else NULL
    if s.edges == NONE:
        return NULL
    block = _block(self, s)
    if block.target < HASHED:
        for i in range(1, block.token + 1):
            if block[i].token == token:
                return &block[i].target
        return NULL
    edge = _probe(block, token)
    return &edge.target if edge.token == token else NULL


cdef int _open_block(OnlineAutomaton* self, State* s, Edge edge) noexcept nogil:
    """Move a state's only edge into a block and add another."""
    cdef int32_t fresh = NONE
    cdef Edge* block
    if _take_block(self, FIRST_BLOCK, &fresh) < 0:
        return -1
    block = self.slots + fresh
    block[0].token = 2
    block[0].target = FIRST_BLOCK
    block[1].token = self.text[s.first_end + 1]
    block[1].target = s.edges
    block[2] = edge
    s.edges = -2 - fresh
    return 0


cdef int _enlarge(OnlineAutomaton* self, State* s, Edge edge) noexcept nogil:
    """Move the edges of a state to a block of twice the size and add another."""
    cdef int log2_size = _block(self, s).target + 1
    cdef int64_t size = <int64_t>1 << log2_size
    cdef int32_t fresh = NONE
    cdef int64_t i
    cdef Edge* old
    cdef Edge* block
    if _take_block(self, log2_size, &fresh) < 0:
        return -1
    old = _block(self, s)
    block = self.slots + fresh
    block[0].token = old[0].token + 1
    block[0].target = log2_size
    if log2_size < HASHED:
        memcpy(block + 1, old + 1, old[0].token * sizeof(Edge))
        block[block[0].token] = edge
    else:
        for i in range(1, size):
            block[i].token = NONE
        for i in range(1, size // 2):
            if old[i].token != NONE:
                _probe(block, old[i].token)[0] = old[i]
        _probe(block, edge.token)[0] = edge
    _give_back_block(self, -2 - s.edges, log2_size - 1)
    s.edges = -2 - fresh
    return 0


cdef inline int _place(
    OnlineAutomaton* self, int32_t state, int32_t token, int32_t target, int32_t** found
) noexcept nogil:
    """Add an edge and return 0; where there is one of this token, return 1 and where its target is kept."""
    cdef State* s = &self.states[state]
    cdef Edge edge
    cdef Edge* block
    cdef Edge* slot
    cdef int32_t i
    if s.edges == NONE:
        s.edges = target
        return 0
    edge.token = token
    edge.target = target
    if s.edges >= 0:
        if self.text[s.first_end + 1] != token:
            return _open_block(self, s, edge)
        found[0] = &s.edges
        return 1
    block = _block(self, s)
    if block.target < HASHED:
        for i in range(1, block.token + 1):
            if block[i].token == token:
                found[0] = &block[i].target
                return 1
        if block.token + 1 == 1 << block.target:
            return _enlarge(self, s, edge)
        slot = block + block.token + 1
    else:
        slot = _probe(block, token)
        if slot.token == token:
            found[0] = &slot.target
            return 1
        if block.token + 1 > 1 << (block.target - 1):       # at most half full
            return _enlarge(self, s, edge)
    slot[0] = edge
    block.token += 1
    return 0


cdef int _copy_edges(OnlineAutomaton* self, int32_t source, int32_t copy) noexcept nogil:
    """Give `copy`, which has no edges and ends first where `source` does, the edges of `source`."""
    cdef State* s = &self.states[source]
    cdef int32_t fresh = NONE
    cdef int log2_size
    cdef int64_t used
    if s.edges >= NONE:
        self.states[copy].edges = s.edges
        return 0
    log2_size = _block(self, s).target
    if _take_block(self, log2_size, &fresh) < 0:
        return -1
    used = _block(self, s).token + 1 if log2_size < HASHED else <int64_t>1 << log2_size
    memcpy(self.slots + fresh, _block(self, s), used * sizeof(Edge))
    self.states[copy].edges = -2 - fresh
    return 0


# --- appending


cdef int32_t _split(OnlineAutomaton* self, int32_t p, int32_t token, int32_t* edge) noexcept nogil:
    """The state of length len(p) + 1 that p's edge of `token`, kept in `edge`, should reach; cloned off if need be.

    -1 without memory for that.
    """
    cdef int32_t q = edge[0]
    cdef int32_t length = self.states[p].length + 1
    cdef int32_t clone
    if self.states[q].length == length:
        return q
    clone = _new_state(self, length, self.states[q].link, self.states[q].first_end)
    self.states[q].link = clone
    self.split = q
    while edge != NULL and edge[0] == q:
        edge[0] = clone
        p = self.states[p].link
        edge = NULL if p == NONE else _find(self, p, token)
    return clone if _copy_edges(self, q, clone) == 0 else -1


cdef inline int _append(OnlineAutomaton* self, int32_t token) noexcept nogil:
    cdef int32_t p = self.last
    cdef int32_t current
    cdef int32_t* edge = NULL
    cdef int placed = 0
    if _reserve_states(self, self.num_states + 2) < 0:
        return -1
    current = _new_state(self, self.states[p].length + 1, ROOT, <int32_t>self.size)
    self.text[self.size] = token
    self.split = NONE
    while p != NONE:
        placed = _place(self, p, token, current, &edge)
        if placed:
            break
        p = self.states[p].link
    if placed > 0:
        placed = _split(self, p, token, edge)
        self.states[current].link = placed
    self.last = current
    self.size += 1
    return 0 if placed >= 0 else -1


cdef int online_extend(OnlineAutomaton* self, const int32_t* tokens, int64_t n) noexcept nogil:
    """Append n tokens, for which `online_reserve` has made room."""
    cdef int64_t i
    for i in range(n):
        if _append(self, tokens[i]) < 0:
            return -1
    return 0


cdef int32_t online_target(const OnlineAutomaton* self, int32_t state, int32_t token) noexcept nogil:
    """The state that `token` leads to, or NONE."""
    cdef int32_t* target = _find(self, state, token)
    return NONE if target == NULL else target[0]


cdef int32_t online_degree(const OnlineAutomaton* self, int32_t state) noexcept nogil:
    """Number of edges of a state."""
    cdef const State* s = &self.states[state]
    return _block(self, s).token if s.edges < NONE else s.edges != NONE


cdef void online_edges(const OnlineAutomaton* self, int32_t state, Edge* out) noexcept nogil:
    """Write the edges of `state`, in no particular order, to `out`, which has room for `online_degree` of them."""
    cdef const State* s = &self.states[state]
    cdef Edge* block
    cdef int64_t written = 0
    cdef int64_t i
    if s.edges >= 0:
        out[0].token = self.text[s.first_end + 1]
        out[0].target = s.edges
    elif s.edges < NONE:
        block = _block(self, s)
        for i in range(1, block.token + 1 if block.target < HASHED else <int64_t>1 << block.target):
            if block[i].token != NONE:
                out[written] = block[i]
                written += 1


# --- checking


cdef int online_check(const OnlineAutomaton* self) except -1:
    """AssertionError unless used and free blocks make up the pool and agree with their headers; for tests."""
    cdef int32_t block
    cdef int64_t state
    cdef int log2_size
    blocks = []
    for state in range(self.num_states):
        if self.states[state].edges < NONE:
            blocks.append((-2 - self.states[state].edges, _check_block(_block(self, &self.states[state]))))
    for log2_size in range(32):
        block = self.free_blocks[log2_size]
        while block != NONE:
            blocks.append((block, 1 << log2_size))
            assert len(blocks) <= self.num_slots, "a cycle of free blocks"
            block = self.slots[block].target
    end = 0
    for start, size in sorted(blocks):
        assert start == end, f"the block at {start} should start at {end}"
        end = start + size
    assert end == self.num_slots <= self.slot_capacity
    assert self.size <= self.text_capacity and self.num_states <= self.state_capacity
    return 0


cdef _check_block(const Edge* block):
    """The size of a block, in slots."""
    cdef int64_t size = <int64_t>1 << block.target
    cdef int64_t last = block.token + 1 if block.target < HASHED else size
    tokens = [block[i].token for i in range(1, last) if block[i].token != NONE]
    assert FIRST_BLOCK <= block.target and 2 <= block.token < size
    assert len(set(tokens)) == len(tokens) == block.token, "a header that does not agree with its block"
    assert block.target < HASHED or 2 * block.token <= size, "a hashed block that is too full"
    return size
