# cython: cdivision=True
"""Online construction of a suffix automaton (Blumer et al. 1985), generalised to several documents.

Amortised O(1) a token for a bounded alphabet. A state keeps one edge inline, up to 16 in a block that is scanned, more
in a block that is hashed. No function here takes the GIL, except to raise.
"""

from libc.stdint cimport uint32_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from samlib.automaton.memory cimport grown, resize

cdef enum:
    MAX_ID = 2147483647


cdef int _raise_too_large() except -1 with gil:
    raise ValueError("the text is too large for 32-bit state ids: split it over several automata")


cdef int growing_init(Growing* self, bint counted) except -1 nogil:
    """An automaton of the empty text. `counted` keeps occurrences and last ends, as an index build needs."""
    self.states = NULL
    self.slots = NULL
    self.occurrences = NULL
    self.last_end = NULL
    self.state_capacity = 0
    self.slot_capacity = 0
    self.counted = counted
    _reserve_states(self, 64)
    growing_clear(self)
    return 0


cdef void growing_free(Growing* self) noexcept nogil:
    free(self.states)
    free(self.slots)
    free(self.occurrences)
    free(self.last_end)


cdef void growing_clear(Growing* self) noexcept nogil:
    """Back to the empty text; memory is kept."""
    cdef int i
    for i in range(32):
        self.free_blocks[i] = NONE
    self.num_slots = 0
    self.num_states = 1
    self.last = ROOT
    self.split = NONE
    _init_state(self, ROOT, 0, NONE, NONE)


cdef int64_t growing_nbytes(const Growing* self) noexcept nogil:
    """Bytes reserved for states and edges."""
    cdef int64_t a_state = sizeof(State) + (2 * sizeof(int32_t) if self.counted else 0)
    return self.state_capacity * a_state + self.slot_capacity * <int64_t>sizeof(Edge)


cdef inline void _init_state(
    Growing* self, int32_t state, int32_t length, int32_t link, int32_t first_end
) noexcept nogil:
    cdef State* s = &self.states[state]
    s.length = length
    s.link = link
    s.first_end = first_end
    s.degree = 0
    s.head = NONE
    s.aux = NONE
    if self.counted:
        self.occurrences[state] = 0
        self.last_end[state] = first_end


cdef int _reserve_states(Growing* self, int64_t wanted) except -1 nogil:
    cdef int64_t capacity
    if wanted <= self.state_capacity:
        return 0
    if wanted > MAX_ID:
        return _raise_too_large()
    capacity = grown(self.state_capacity, wanted)
    resize(<void**>&self.states, capacity, sizeof(State))
    if self.counted:
        resize(<void**>&self.occurrences, capacity, sizeof(int32_t))
        resize(<void**>&self.last_end, capacity, sizeof(int32_t))
    self.state_capacity = capacity
    return 0


cdef int _take_block(Growing* self, int log2_capacity, int32_t* out) except -1 nogil:
    """A block of 2**log2_capacity slots: a freed one, else from the end of the pool."""
    cdef int64_t size = (<int64_t>1) << log2_capacity
    cdef int64_t capacity
    cdef int32_t block = self.free_blocks[log2_capacity]
    if block != NONE:
        self.free_blocks[log2_capacity] = self.slots[block].target
        out[0] = block
        return 0
    if self.num_slots + size > self.slot_capacity:
        if self.num_slots + size > MAX_ID:
            return _raise_too_large()
        capacity = grown(self.slot_capacity, self.num_slots + size)
        resize(<void**>&self.slots, capacity, sizeof(Edge))
        self.slot_capacity = capacity
    out[0] = <int32_t>self.num_slots
    self.num_slots += size
    return 0


cdef inline void _give_back_block(Growing* self, int32_t block, int log2_capacity) noexcept nogil:
    self.slots[block].target = self.free_blocks[log2_capacity]
    self.free_blocks[log2_capacity] = block


cdef inline uint32_t _hash(int32_t token) noexcept nogil:
    cdef uint32_t h = (<uint32_t>token) * <uint32_t>2654435769
    return h ^ (h >> 15)


cdef inline Edge* _probe(Edge* block, int32_t token, uint32_t mask) noexcept nogil:
    """The slot of `token` in a hashed block, or the free slot where it belongs."""
    cdef uint32_t i = _hash(token) & mask
    while block[i].token != token and block[i].token != NONE:
        i = (i + 1) & mask
    return &block[i]


cdef inline int32_t* _find(const Growing* self, int32_t state, int32_t token) noexcept nogil:
    """Where the target of the edge `token` of `state` is kept, or NULL if there is no such edge."""
    cdef State* s = &self.states[state]
    cdef Edge* block
    cdef Edge* edge
    cdef int32_t i
    if s.degree <= 1:
        return &s.aux if s.degree == 1 and s.head == token else NULL
    block = self.slots + s.head
    if s.degree <= SCAN_LIMIT:
        for i in range(s.degree):
            if block[i].token == token:
                return &block[i].target
        return NULL
    edge = _probe(block, token, (<uint32_t>1 << s.aux) - 1)
    return &edge.target if edge.token == token else NULL


cdef int _rehash(Growing* self, State* s, int log2_capacity) except -1 nogil:
    """Move the edges of a state of degree SCAN_LIMIT or more into a hashed block of the given size."""
    cdef int64_t i
    cdef int64_t old_size = s.degree if s.degree <= SCAN_LIMIT else (<int64_t>1) << s.aux
    cdef int64_t size = (<int64_t>1) << log2_capacity
    cdef int32_t fresh = NONE
    cdef Edge* old
    cdef Edge* block
    _take_block(self, log2_capacity, &fresh)
    old = self.slots + s.head
    block = self.slots + fresh
    for i in range(size):
        block[i].token = NONE
    for i in range(old_size):
        if old[i].token != NONE:
            _probe(block, old[i].token, <uint32_t>(size - 1))[0] = old[i]
    _give_back_block(self, s.head, s.aux)
    s.head = fresh
    s.aux = log2_capacity
    return 0


cdef int _widen(Growing* self, State* s) except -1 nogil:
    """Make room for one more edge in the scanned block of a state whose block is full."""
    cdef int32_t fresh = NONE
    _take_block(self, s.aux + 1, &fresh)
    memcpy(self.slots + fresh, self.slots + s.head, s.degree * sizeof(Edge))
    _give_back_block(self, s.head, s.aux)
    s.head = fresh
    s.aux += 1
    return 0


cdef int _add(Growing* self, int32_t state, int32_t token, int32_t target) except -1 nogil:
    """Add an edge that is known not to exist."""
    cdef State* s = &self.states[state]
    cdef Edge edge
    cdef int32_t block = NONE
    edge.token = token
    edge.target = target
    if s.degree == 0:
        s.head = token
        s.aux = target
    elif s.degree == 1:
        _take_block(self, 1, &block)
        self.slots[block].token = s.head
        self.slots[block].target = s.aux
        self.slots[block + 1] = edge
        s.head = block
        s.aux = 1
    elif s.degree < SCAN_LIMIT:
        if s.degree == (1 << s.aux):
            _widen(self, s)
        self.slots[s.head + s.degree] = edge
    else:
        # a hashed block stays at most half full; SCAN_LIMIT edges move to 4 * SCAN_LIMIT slots
        if s.degree == SCAN_LIMIT:
            _rehash(self, s, 6)
        elif 2 * (<int64_t>s.degree + 1) > (<int64_t>1) << s.aux:
            _rehash(self, s, s.aux + 1)
        _probe(self.slots + s.head, token, (<uint32_t>1 << s.aux) - 1)[0] = edge
    s.degree += 1
    return 0


cdef int _new_state(Growing* self, int32_t length, int32_t first_end, int32_t* out) except -1 nogil:
    if self.num_states >= self.state_capacity:
        _reserve_states(self, self.num_states + 1)
    out[0] = <int32_t>self.num_states
    _init_state(self, out[0], length, ROOT, first_end)
    self.num_states += 1
    return 0


cdef int _copy_edges(Growing* self, int32_t source, int32_t copy) except -1 nogil:
    cdef State* s
    cdef State* c
    cdef int32_t block = NONE
    cdef size_t used
    if self.states[source].degree > 1:
        _take_block(self, self.states[source].aux, &block)
    s = &self.states[source]
    c = &self.states[copy]
    c.degree = s.degree
    c.head = s.head
    c.aux = s.aux
    if s.degree > 1:
        used = <size_t>s.degree if s.degree <= SCAN_LIMIT else (<size_t>1) << s.aux
        memcpy(self.slots + block, self.slots + s.head, used * sizeof(Edge))
        c.head = block
    return 0


cdef int _split(Growing* self, int32_t p, int32_t token, int32_t q, int32_t* out) except -1 nogil:
    """The state reached from p by `token` with length len(p) + 1: q itself, or a clone of q made for it."""
    cdef int32_t clone = NONE
    cdef int32_t* target
    if self.states[q].length == self.states[p].length + 1:
        out[0] = q
        return 0
    _new_state(self, self.states[p].length + 1, self.states[q].first_end, &clone)
    _copy_edges(self, q, clone)
    self.states[clone].link = self.states[q].link
    self.states[q].link = clone
    self.split = q
    while p != NONE:
        target = _find(self, p, token)
        if target == NULL or target[0] != q:
            break
        target[0] = clone
        p = self.states[p].link
    out[0] = clone
    return 0


cdef int _append(Growing* self, int32_t token, int32_t position) except -1 nogil:
    """Append one token to the text of `last`."""
    cdef int32_t p = self.last
    cdef int32_t current = NONE
    cdef int32_t found = NONE
    cdef int32_t* target = _find(self, p, token)
    self.split = NONE
    if target != NULL:          # only a second document can walk along what an earlier one wrote
        _split(self, p, token, target[0], &current)
    else:
        _new_state(self, self.states[p].length + 1, position, &current)
        while p != NONE:
            target = _find(self, p, token)
            if target != NULL:
                break
            _add(self, p, token, current)
            p = self.states[p].link
        if p != NONE:
            _split(self, p, token, target[0], &found)
            self.states[current].link = found
    if self.counted:
        self.occurrences[current] += 1
        self.last_end[current] = position
    self.last = current
    return 0


cdef int growing_extend(Growing* self, const int32_t* tokens, int64_t n, int64_t position) except -1 nogil:
    """Append n tokens, of which the first stands at text position `position`."""
    cdef int64_t i
    if position + n > MAX_ID // 2:
        return _raise_too_large()
    for i in range(n):
        _append(self, tokens[i], <int32_t>(position + i))
    return 0


cdef int32_t growing_target(const Growing* self, int32_t state, int32_t token) noexcept nogil:
    """The state that `token` leads to, or NONE."""
    cdef int32_t* target = _find(self, state, token)
    return NONE if target == NULL else target[0]


cdef int32_t growing_edges(const Growing* self, int32_t state, Edge* out) noexcept nogil:
    """Write the edges of `state` to `out` (in no particular order) and return how many there are."""
    cdef State* s = &self.states[state]
    cdef int32_t written = 0
    cdef int64_t i
    if s.degree == 1:
        out[0].token = s.head
        out[0].target = s.aux
    elif s.degree > 1 and s.degree <= SCAN_LIMIT:
        memcpy(out, self.slots + s.head, s.degree * sizeof(Edge))
    elif s.degree > SCAN_LIMIT:
        for i in range((<int64_t>1) << s.aux):
            if self.slots[s.head + i].token != NONE:
                out[written] = self.slots[s.head + i]
                written += 1
    return s.degree
