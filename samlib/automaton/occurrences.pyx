# cython: cdivision=True
"""Occurrence counts under appends: one more occurrence for a state and all its suffix-link ancestors, at O(log n).

Walking the links to the root instead would be quadratic on a repeated token. The suffix-link tree is a link-cut tree
(Sleator and Tarjan 1983): a path to the root is one splay tree, and an update of the path is a note at its top.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free

from samlib.automaton.memory cimport grown, resize

cdef enum:
    NONE = -1


cdef void occurrences_init(Occurrences* self) noexcept nogil:
    self.nodes = NULL
    self.capacity = 0


cdef void occurrences_free(Occurrences* self) noexcept nogil:
    free(self.nodes)


cdef int occurrences_reserve(Occurrences* self, int64_t states) except -1 nogil:
    """Make room for `states` nodes."""
    cdef int64_t capacity
    if states > self.capacity:
        capacity = grown(self.capacity, states)
        resize(<void**>&self.nodes, capacity, sizeof(LinkNode))
        self.capacity = capacity
    return 0


cdef void occurrences_add(Occurrences* self, int32_t state, int32_t link) noexcept nogil:
    """A new state without occurrences, below `link` (NONE for the root)."""
    cdef LinkNode* node = &self.nodes[state]
    node.left = NONE
    node.right = NONE
    node.parent = link
    node.count = 0
    node.last_end = NONE
    node.pending_count = 0
    node.pending_end = NONE


cdef void occurrences_split(Occurrences* self, int32_t state, int32_t clone, int32_t link) noexcept nogil:
    """Put `clone`, with the occurrences of `state`, between `state` and its suffix link."""
    cdef LinkNode* node = &self.nodes[state]
    _access(self.nodes, state)
    if node.left != NONE:
        self.nodes[node.left].parent = NONE
        node.left = NONE
    occurrences_add(self, clone, link)
    self.nodes[clone].count = node.count
    self.nodes[clone].last_end = node.last_end
    node.parent = clone


cdef void occurrences_record(Occurrences* self, int32_t state, int32_t position) noexcept nogil:
    """One more occurrence of `state` and all above it, ending at `position`."""
    _access(self.nodes, state)
    _apply(self.nodes, state, 1, position)


cdef const LinkNode* occurrences_of(Occurrences* self, int32_t state) noexcept nogil:
    """The node of `state`, with its count and last end up to date."""
    _splay(self.nodes, state)
    return &self.nodes[state]


cdef inline void _apply(LinkNode* nodes, int32_t node, int32_t count, int32_t end) noexcept nogil:
    """Add an update to a node, and note it for what is below."""
    if node == NONE:
        return
    nodes[node].count += count
    nodes[node].pending_count += count
    if end != NONE:
        nodes[node].last_end = end
        nodes[node].pending_end = end


cdef inline void _push_down(LinkNode* nodes, int32_t node) noexcept nogil:
    cdef LinkNode* n = &nodes[node]
    _apply(nodes, n.left, n.pending_count, n.pending_end)
    _apply(nodes, n.right, n.pending_count, n.pending_end)
    n.pending_count = 0
    n.pending_end = NONE


cdef inline bint _is_top(const LinkNode* nodes, int32_t node) noexcept nogil:
    cdef int32_t parent = nodes[node].parent
    return parent == NONE or (nodes[parent].left != node and nodes[parent].right != node)


cdef inline void _rotate(LinkNode* nodes, int32_t node) noexcept nogil:
    """Move a node above its parent in the splay tree."""
    cdef int32_t parent = nodes[node].parent
    cdef int32_t above = nodes[parent].parent
    cdef int32_t moved
    if not _is_top(nodes, parent):
        if nodes[above].left == parent:
            nodes[above].left = node
        else:
            nodes[above].right = node
    if nodes[parent].left == node:
        moved = nodes[node].right
        nodes[parent].left = moved
        nodes[node].right = parent
    else:
        moved = nodes[node].left
        nodes[parent].right = moved
        nodes[node].left = parent
    if moved != NONE:
        nodes[moved].parent = parent
    nodes[parent].parent = node
    nodes[node].parent = above


cdef void _splay(LinkNode* nodes, int32_t node) noexcept nogil:
    """Bring a node to the top of its splay tree. Notes are pushed down on the way, each before it could be passed."""
    cdef int32_t parent, above
    while not _is_top(nodes, node):
        parent = nodes[node].parent
        if _is_top(nodes, parent):
            _push_down(nodes, parent)
            _push_down(nodes, node)
            _rotate(nodes, node)
            break
        above = nodes[parent].parent
        _push_down(nodes, above)
        _push_down(nodes, parent)
        _push_down(nodes, node)
        if (nodes[above].left == parent) == (nodes[parent].left == node):
            _rotate(nodes, parent)
        else:
            _rotate(nodes, node)
        _rotate(nodes, node)
    _push_down(nodes, node)


cdef void _access(LinkNode* nodes, int32_t node) noexcept nogil:
    """Make the path from the root to `node` one splay tree with `node` on top."""
    cdef int32_t below = NONE
    cdef int32_t top = node
    while top != NONE:
        _splay(nodes, top)
        nodes[top].right = below
        below = top
        top = nodes[top].parent
    _splay(nodes, node)
