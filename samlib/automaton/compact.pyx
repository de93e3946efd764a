# cython: cdivision=True
"""Online construction of the compact suffix automaton of several documents.

Inenaga, Hoshino, Shinohara, Takeda, Arikawa, Mauri, Pavesi: On-line construction of compact directed acyclic word
graphs (Discrete Applied Mathematics 146, 2005), which is linear in the text. Each document ends as if with a token of
its own; instead of an edge for that token, a node keeps an Ending. No function here takes the GIL, except to raise.
"""

from libc.stdlib cimport free
from libc.string cimport memcpy

from samlib.automaton.hashing cimport hash_of
from samlib.automaton.memory cimport ceil_log2, enlarge, prefetch

cdef enum:
    SCAN_LIMIT = 16             # blocks up to this many edges are scanned in order, larger ones are hashed
    MAX_ID = 2147483647
    AHEAD = 4                   # so many tokens ahead, memory is asked for
    RING = 31
    UNSEEN = -2                 # neither a node nor LEAF


cdef int _raise_too_large() except -1 with gil:
    raise ValueError("the corpus is too large for 32-bit ids: split it over several indexes")


cdef int make_room(void** array, int64_t* capacity, int64_t wanted, size_t item) except -1 nogil:
    """Room for `wanted` items of `item` bytes; MemoryError leaves the array as it was."""
    if wanted > capacity[0] and enlarge(array, capacity, wanted, item, (<int64_t>1) << 62) < 0:
        with gil:
            raise MemoryError("the index does not fit in memory: index fewer tokens, or split the corpus")
    return 0


cdef int compact_init(Compact* self) except -1 nogil:
    """The automaton of no document."""
    cdef int i
    self.nodes = NULL
    self.slots = NULL
    self.endings = NULL
    self.text = NULL
    self.document_ends = NULL
    self.num_nodes = self.node_capacity = 0
    self.num_slots = self.slot_capacity = 0
    self.num_endings = self.ending_capacity = 0
    self.size = self.text_capacity = 0
    self.num_documents = self.document_capacity = 0
    for i in range(40):
        self.free_blocks[i] = NONE
    for i in range(32):
        self.one_token[i] = self.two_tokens[i] = ROOT
    self.base = ROOT
    self.depth = 0
    self.edge = NONE
    _new_node(self, 0, NONE)
    return 0


cdef int compact_reserve(Compact* self, int64_t num_tokens) except -1 nogil:
    """Reserve room for so many tokens of real text: arrays that do not move keep their huge pages."""
    make_room(<void**>&self.text, &self.text_capacity, num_tokens, sizeof(int32_t))
    make_room(<void**>&self.nodes, &self.node_capacity, num_tokens // 4, sizeof(Node))
    make_room(<void**>&self.slots, &self.slot_capacity, 3 * (num_tokens // 2), sizeof(Edge))
    return 0


cdef void compact_free(Compact* self) noexcept nogil:
    free(self.nodes)
    free(self.slots)
    free(self.endings)
    free(self.text)
    free(self.document_ends)


cdef int64_t compact_nbytes(const Compact* self) noexcept nogil:
    """Bytes in use; what is reserved beyond takes no memory before it is touched."""
    return (
        self.num_nodes * <int64_t>sizeof(Node)
        + self.num_slots * <int64_t>sizeof(Edge)
        + self.num_endings * <int64_t>sizeof(Ending)
        + (self.size + self.num_documents) * <int64_t>sizeof(int32_t)
    )


# --- nodes, blocks of edges, endings


cdef int32_t _new_node(Compact* self, int32_t length, int32_t link) except -2 nogil:
    cdef Node* node
    if self.num_nodes >= MAX_ID:
        return _raise_too_large()
    make_room(<void**>&self.nodes, &self.node_capacity, self.num_nodes + 1, sizeof(Node))
    node = &self.nodes[self.num_nodes]
    node.length = length
    node.link = link
    node.degree = 0
    node.num_inner = 0
    node.head = 0
    node.ending = NONE
    self.num_nodes += 1
    return <int32_t>(self.num_nodes - 1)


cdef inline int _log2_size(int32_t degree) noexcept nogil:
    """log2 of the block size for this many edges (> 0); a hashed block is at most two thirds full."""
    if degree <= 2:
        return 1
    return ceil_log2(degree if degree <= SCAN_LIMIT else degree + <int64_t>degree // 2)


cdef int64_t compact_block_size(int32_t degree) noexcept nogil:
    """Slots of the block of a node: they hold its edges in front, or anywhere if the degree is above SCAN_LIMIT."""
    if degree == 0:
        return 0
    return degree if degree <= SCAN_LIMIT else (<int64_t>1) << _log2_size(degree)


cdef int64_t _take_block(Compact* self, int log2_size) except -2 nogil:
    """A block of 2**log2_size slots: a freed one, else from the end of the pool."""
    cdef int64_t size = (<int64_t>1) << log2_size
    cdef int64_t block = self.free_blocks[log2_size]
    if block != NONE:
        self.free_blocks[log2_size] = self.slots[block].start
        return block
    block = self.num_slots
    if block + size > MAX_ID:
        return _raise_too_large()
    make_room(<void**>&self.slots, &self.slot_capacity, block + size, sizeof(Edge))
    self.num_slots += size
    return block


cdef inline void _give_back_block(Compact* self, int64_t block, int log2_size) noexcept nogil:
    self.slots[block].start = <int32_t>self.free_blocks[log2_size]
    self.free_blocks[log2_size] = block


cdef inline int64_t _probe(const Edge* block, int32_t token, int64_t mask) noexcept nogil:
    """The slot of `token` in a hashed block, or the free slot where it belongs."""
    cdef int64_t i = hash_of(token) & mask
    while block[i].token != token and block[i].token != NONE:
        i = (i + 1) & mask
    return i


cdef inline int64_t _find(const Compact* self, int32_t node, int32_t token) noexcept nogil:
    """The slot of the edge of `node` that begins with `token`, or NONE."""
    cdef const Node* n = &self.nodes[node]
    cdef const Edge* block = self.slots + n.head
    cdef int64_t i
    if n.degree <= SCAN_LIMIT:
        for i in range(n.degree):
            if block[i].token == token:
                return n.head + i
        return NONE
    i = _probe(block, token, ((<int64_t>1) << _log2_size(n.degree)) - 1)
    return n.head + i if block[i].token == token else NONE


cdef int _move_edges(Compact* self, Node* n, int old_log2, int new_log2) except -1 nogil:
    """Move the edges of a node whose block is full to a larger one, hashed if the node is to pass SCAN_LIMIT."""
    cdef int64_t fresh = _take_block(self, new_log2)
    cdef int64_t size = (<int64_t>1) << new_log2
    cdef int64_t i
    cdef Edge* old
    cdef Edge* block = self.slots + fresh
    if n.degree:
        old = self.slots + n.head
        if n.degree < SCAN_LIMIT:
            memcpy(block, old, n.degree * sizeof(Edge))
        else:
            for i in range(size):
                block[i].token = NONE
            for i in range(compact_block_size(n.degree)):
                if old[i].token != NONE:
                    block[_probe(block, old[i].token, size - 1)] = old[i]
        _give_back_block(self, n.head, old_log2)
    n.head = <int32_t>fresh
    return 0


cdef int _add_edge(Compact* self, int32_t node, Edge edge) except -1 nogil:
    """Add an edge whose first token the node does not have yet."""
    cdef Node* n = &self.nodes[node]
    cdef int old_log2 = _log2_size(n.degree) if n.degree else 0
    cdef int new_log2 = _log2_size(n.degree + 1)
    if new_log2 != old_log2:
        _move_edges(self, n, old_log2, new_log2)
    if n.degree < SCAN_LIMIT:
        self.slots[n.head + n.degree] = edge
    else:
        self.slots[n.head + _probe(self.slots + n.head, edge.token, ((<int64_t>1) << new_log2) - 1)] = edge
    n.degree += 1
    return 0


cdef int _add_leaf(Compact* self, int32_t node, int32_t token, int64_t position) except -1 nogil:
    """An edge that runs from `position` to the end of the open document."""
    cdef Edge edge
    edge.token = token
    edge.target = LEAF
    edge.start = <int32_t>position
    edge.length = <int32_t>(self.num_documents - 1)
    return _add_edge(self, node, edge)


cdef int _record_ending(Compact* self, int32_t node, int32_t count, int32_t first, int32_t latest) except -1 nogil:
    """`count` more documents end in the class of `node`, the first and the last of them there."""
    cdef Ending* ending
    if self.nodes[node].ending == NONE:
        make_room(<void**>&self.endings, &self.ending_capacity, self.num_endings + 1, sizeof(Ending))
        self.nodes[node].ending = <int32_t>self.num_endings
        ending = &self.endings[self.num_endings]
        ending.count = 0
        ending.first = first
        self.num_endings += 1
    ending = &self.endings[self.nodes[node].ending]
    ending.count += count
    ending.latest = latest
    return 0


# --- the construction


cdef inline int64_t _label_end(const Compact* self, const Edge* edge) noexcept nogil:
    """The text position after the label."""
    return self.document_ends[edge.length] if edge.target == LEAF else edge.start + edge.length


cdef inline void _canonize(Compact* self) noexcept nogil:
    """Walk down from `base` by whole labels along the last `depth` tokens of the text, as far as they reach."""
    cdef Edge* edge
    while self.depth:
        self.edge = _find(self, self.base, self.text[self.size - self.depth])
        edge = &self.slots[self.edge]
        if edge.target == LEAF or self.depth < edge.length:
            break
        self.depth -= edge.length
        self.base = edge.target


cdef inline bint _drop_first(Compact* self) noexcept nogil:
    """Go on to the next shorter suffix that stands elsewhere; False if there is none."""
    if self.base != ROOT:
        self.base = self.nodes[self.base].link
    elif self.depth:
        self.depth -= 1
    else:
        return False
    _canonize(self)
    return True


cdef inline void _end_edge_at(Compact* self, int32_t node) noexcept nogil:
    """Let the active edge end at `node`, where the active suffix ends."""
    cdef Edge* edge = &self.slots[self.edge]
    self.nodes[self.base].num_inner += edge.target == LEAF
    edge.target = node
    edge.length = self.depth


cdef int32_t _split_edge(Compact* self) except -2 nogil:
    """Make a node of the place where the active suffix ends inside an edge."""
    cdef int32_t node = _new_node(self, self.nodes[self.base].length + self.depth, NONE)
    cdef Edge* edge = &self.slots[self.edge]
    cdef Edge rest = edge[0]
    _end_edge_at(self, node)
    rest.start += self.depth
    if rest.target != LEAF:
        rest.length -= self.depth
        self.nodes[node].num_inner = 1
    elif rest.start == self.document_ends[rest.length]:     # the very end of an earlier document
        _record_ending(self, node, 1, rest.start, rest.start)
        return node
    rest.token = self.text[rest.start]
    _add_edge(self, node, rest)
    return node


cdef int _branch(Compact* self, int32_t token) except -1 nogil:
    """Let every suffix of the text branch off to `token` (NONE: the document's end), until one has that edge already.

    The active suffix is then the longest one that stood before `token` somewhere else, without `token` itself; its
    edge is the one that goes on with it. Returns 0 if there is none, else 1.
    """
    cdef int32_t node
    cdef int32_t previous = NONE
    cdef int32_t split_from = UNSEEN
    cdef Edge* edge
    cdef int64_t at
    while True:
        prefetch(&self.nodes[max(self.nodes[self.base].link, 0)])      # where _drop_first goes
        if self.depth == 0:
            if token != NONE:
                self.edge = _find(self, self.base, token)
                if self.edge != NONE:
                    break
            node = self.base
        else:
            edge = &self.slots[self.edge]
            at = edge.start + self.depth
            if at < _label_end(self, edge) and self.text[at] == token:
                break
            if edge.target == split_from:               # of the class of the last split: it joins that node
                _end_edge_at(self, previous)
                if _drop_first(self):
                    continue
                return 0
            split_from = edge.target
            node = _split_edge(self)
        if token != NONE:
            _add_leaf(self, node, token, self.size)
        elif node != ROOT:
            _record_ending(self, node, 1, <int32_t>self.size, <int32_t>self.size)
        if previous != NONE:
            self.nodes[previous].link = node
        previous = node
        if not _drop_first(self):
            return 0
    if previous != NONE:
        self.nodes[previous].link = self.base
    return 1


cdef int32_t _clone(Compact* self, int32_t node, int32_t length) except -2 nogil:
    """A node for the strings of `node` of at most `length` tokens, which now stand where the longer ones do not."""
    cdef int32_t clone = _new_node(self, length, self.nodes[node].link)
    cdef Ending ending
    cdef int64_t block
    cdef Node* n
    if self.nodes[node].degree:
        block = _take_block(self, _log2_size(self.nodes[node].degree))
        n = &self.nodes[node]
        memcpy(self.slots + block, self.slots + n.head, compact_block_size(n.degree) * sizeof(Edge))
        self.nodes[clone].head = <int32_t>block
        self.nodes[clone].degree = n.degree
        self.nodes[clone].num_inner = n.num_inner
    if self.nodes[node].ending != NONE:
        ending = self.endings[self.nodes[node].ending]
        _record_ending(self, clone, ending.count, ending.first, ending.latest)
    self.nodes[node].link = clone
    return clone


cdef int _separate(Compact* self, int32_t token, int32_t node) except -1 nogil:
    """The active suffix and `token` reach `node`, whose longest string is longer: give them a node of their own."""
    cdef int32_t clone = _clone(self, node, self.nodes[self.base].length + self.depth + 1)
    cdef Edge* edge = &self.slots[self.edge]
    while edge.target == node and edge.length == self.depth + 1:
        edge.target = clone
        if not _drop_first(self):
            break
        if self.depth == 0:
            self.edge = _find(self, self.base, token)
        edge = &self.slots[self.edge]
    self.base = clone
    self.depth = 0
    return 0


cdef inline int _append(Compact* self, int32_t token) except -1 nogil:
    """Append a token to the open document."""
    cdef Edge* edge
    if not _branch(self, token):
        self.size += 1
        return 0
    edge = &self.slots[self.edge]
    if edge.target == LEAF or edge.length > self.depth + 1:
        self.depth += 1
    elif self.nodes[edge.target].length == self.nodes[self.base].length + self.depth + 1:
        self.base = edge.target
        self.depth = 0
    else:
        _separate(self, token, edge.target)
    self.size += 1
    return 0


cdef int compact_open(Compact* self) except -1 nogil:
    """Begin a document; the one before must be closed."""
    if self.num_documents >= MAX_ID:
        return _raise_too_large()
    make_room(<void**>&self.document_ends, &self.document_capacity, self.num_documents + 1, sizeof(int32_t))
    self.num_documents += 1
    self.document_ends[self.num_documents - 1] = MAX_ID
    return 0


cdef inline int64_t _likely_slot(const Compact* self, int32_t node, int32_t token) noexcept nogil:
    """Where `_find` begins to look."""
    cdef const Node* n = &self.nodes[node]
    if n.degree <= SCAN_LIMIT:
        return n.head
    return n.head + (hash_of(token) & (((<int64_t>1) << _log2_size(n.degree)) - 1))


cdef inline int32_t _child(const Compact* self, int32_t node, int32_t token) noexcept nogil:
    """The node one token below `node`; the root if there is none."""
    cdef int64_t edge = _find(self, node, token)
    if edge == NONE or self.slots[edge].target == LEAF or self.slots[edge].length != 1:
        return ROOT
    return self.slots[edge].target


cdef inline void _look_ahead(Compact* self, const int32_t* tokens, int64_t i) noexcept nogil:
    """Start to load what short contexts will ask for: the text is known before its tokens are appended.

    Most searches end in the blocks of one-token and two-token strings, which are too many for any cache. The nodes of
    the strings that end at a token are found step by step, each step when the memory that it reads has arrived.
    """
    cdef int64_t one = i + 3 * AHEAD
    cdef int64_t two = i + AHEAD
    prefetch(&self.slots[_likely_slot(self, ROOT, tokens[i + 4 * AHEAD])])
    self.one_token[one & RING] = _child(self, ROOT, tokens[one])
    prefetch(&self.nodes[self.one_token[one & RING]])
    one -= AHEAD
    prefetch(&self.slots[_likely_slot(self, self.one_token[one & RING], tokens[one + 1])])
    self.two_tokens[two & RING] = _child(self, self.one_token[(two - 1) & RING], tokens[two])
    prefetch(&self.nodes[self.two_tokens[two & RING]])
    two -= AHEAD // 2
    prefetch(&self.slots[_likely_slot(self, self.two_tokens[two & RING], tokens[two + 1])])


cdef int compact_extend(Compact* self, const int32_t* tokens, int64_t n) except -1 nogil:
    """Append n tokens to the open document."""
    cdef int64_t i
    if self.size + n >= MAX_ID:
        return _raise_too_large()
    make_room(<void**>&self.text, &self.text_capacity, self.size + n, sizeof(int32_t))
    memcpy(self.text + self.size, tokens, n * sizeof(int32_t))
    for i in range(n):
        if i + 4 * AHEAD < n:
            _look_ahead(self, tokens, i)
        _append(self, tokens[i])
    return 0


cdef int compact_close(Compact* self) except -1 nogil:
    """End the open document: every suffix of it that stands elsewhere, too, gets a node that knows of the end."""
    self.document_ends[self.num_documents - 1] = <int32_t>self.size
    _branch(self, NONE)                             # which ends at the root
    return 0
