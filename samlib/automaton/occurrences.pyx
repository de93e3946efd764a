# cython: cdivision=True
"""Occurrence counts under appends: one more occurrence for a state and all its suffix-link ancestors, at O(log n).

Walking the links to the root instead would be quadratic on a repeated token. The suffix-link tree is a link-cut tree
(Sleator and Tarjan 1983): a path to the root is one splay tree, and an update of the path is a note at its top.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free

from samlib.automaton.memory cimport enlarge
from samlib.automaton.online cimport NONE, ROOT


cdef void occurrences_init(Occurrences* self) noexcept nogil:
    self.nodes = NULL
    self.capacity = 0
    self.max_bytes = <int64_t>1 << 62


cdef void occurrences_free(Occurrences* self) noexcept nogil:
    free(self.nodes)


cdef int occurrences_reserve(Occurrences* self, int64_t states) noexcept nogil:
    """Make room for `states` nodes; -1 if there is no memory for them."""
    if states <= self.capacity:
        return 0
    return enlarge(<void**>&self.nodes, &self.capacity, states, sizeof(LinkNode), self.max_bytes)


cdef void occurrences_clear(Occurrences* self) noexcept nogil:
    """Back to the root alone, for which there is room."""
    _init_node(&self.nodes[ROOT], NONE, 0, NONE)


cdef inline void _init_node(LinkNode* node, int32_t parent, int32_t count, int32_t last_end) noexcept nogil:
    node.left = NONE
    node.right = NONE
    node.parent = parent
    node.count = count
    node.last_end = last_end
    node.pending_count = 0
    node.pending_end = NONE


cdef void occurrences_split(Occurrences* self, int32_t state, int32_t clone) noexcept nogil:
    """Put `clone`, with the occurrences of `state`, between `state` and its suffix link."""
    cdef LinkNode* node = &self.nodes[state]
    cdef LinkNode* upper = &self.nodes[clone]
    _access(self.nodes, state)
    _init_node(upper, NONE, node.count, node.last_end)
    upper.left = node.left
    if upper.left != NONE:
        self.nodes[upper.left].parent = clone
    node.left = NONE
    node.parent = clone


cdef int32_t occurrences_record(Occurrences* self, int32_t state, int32_t link, int32_t position) noexcept nogil:
    """A new state below `link` that ends at `position`, as all above it now do; return where `link` ended last before.

    The root is left out: nobody asks how often the empty string occurs.
    """
    cdef int32_t ended = NONE
    _init_node(&self.nodes[state], link, 1, position)
    if link != ROOT:
        _access(self.nodes, link)
        ended = self.nodes[link].last_end
        _apply(self.nodes, link, 1, position)
    return ended


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
