# cython: cdivision=True
"""From documents to the flat arrays of a frozen index: build the compact automaton, count, number, sort, write."""

from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport free, qsort

import numpy as np

from samlib.automaton.compact cimport (
    LEAF,
    NONE,
    ROOT,
    Compact,
    Edge,
    Ending,
    Node,
    compact_block_size,
    compact_close,
    compact_extend,
    compact_free,
    compact_init,
    compact_nbytes,
    compact_open,
)
from samlib.automaton.frozen cimport SCAN_LIMIT, NodeRecord
from samlib.automaton.memory cimport grown, resize

cdef enum:
    FEW = 24                    # so many edges are sorted by insertion
    NODE_FIELDS = sizeof(NodeRecord) // sizeof(int32_t)

cdef struct Keyed:              # an edge, and what it is sorted by
    int64_t key
    Edge edge

cdef struct Filled:             # how far the arrays are filled
    int32_t node
    int32_t inner
    int32_t leaf
    int32_t table


cdef class Builder:
    """Takes documents, and gives the arrays of their index. Thread-safety: one thread at a time."""

    cdef Compact automaton
    cdef Keyed* inner           # the edges of one node that lead to nodes …
    cdef Keyed* leaves          # … and those that run to the end of a document
    cdef int64_t room           # for so many edges

    def __cinit__(self):
        compact_init(&self.automaton)
        self.inner = self.leaves = NULL
        self.room = 0

    def __dealloc__(self):
        compact_free(&self.automaton)
        free(self.inner)
        free(self.leaves)

    @property
    def nbytes(self):
        """Bytes reserved for the automaton."""
        return compact_nbytes(&self.automaton)

    @property
    def num_tokens(self):
        """Tokens taken so far."""
        return self.automaton.size

    def open(self):
        """Begin a document."""
        compact_open(&self.automaton)

    def extend(self, const int32_t[::1] ids):
        """Append token ids to the open document; without the GIL."""
        if ids.shape[0]:
            with nogil:
                compact_extend(&self.automaton, &ids[0], ids.shape[0])

    def close(self):
        """End the open document."""
        compact_close(&self.automaton)

    def freeze(self):
        """The arrays of the index by name, as INDEX_FORMAT.md describes them."""
        cdef Compact* a = &self.automaton
        n = a.num_nodes
        count, first, latest, num_inner = np.empty((4, n), dtype=np.int32)
        self._sum_up(self._longest_first(), count, first, latest, num_inner)
        numbers = np.empty(n, dtype=np.int32)
        num_special = self._number(num_inner, numbers)
        arrays = self._room_for(num_inner, num_special)
        with_counts = {"count": count, "first": first, "latest": latest, "numbers": numbers}
        self._fill(num_special, **with_counts, **arrays)
        arrays["text"] = _narrow(_view(a.text, a.size))
        for name in ("inner_token", "leaf_token"):
            arrays[name] = arrays[name].astype(arrays["text"].dtype, copy=False)
        arrays["inner_length"] = _narrow(arrays["inner_length"])
        arrays["document_ends"] = np.array(_view(a.document_ends, a.num_documents))
        return arrays

    cdef _longest_first(self):
        """All nodes by the length of their longest string, falling: every edge leads to an earlier one."""
        cdef Compact* a = &self.automaton
        cdef int64_t n = a.num_nodes
        cdef int64_t node, length
        cdef int64_t longest = 0
        for node in range(n):
            longest = max(longest, a.nodes[node].length)
        order_array, place_array = np.empty(n, dtype=np.int32), np.zeros(longest + 2, dtype=np.int32)
        cdef int32_t[::1] order = order_array
        cdef int32_t[::1] place = place_array       # per length: how many nodes are longer; then the next free place
        with nogil:
            for node in range(n):
                place[a.nodes[node].length] += 1
            for length in range(longest, -1, -1):
                place[length] += place[length + 1]
            for length in range(longest + 1):
                place[length] = place[length + 1]
            for node in range(n):
                length = a.nodes[node].length
                order[place[length]] = <int32_t>node
                place[length] += 1
        return order_array

    cdef _sum_up(self, int32_t[::1] order, int32_t[::1] count, int32_t[::1] first, int32_t[::1] latest,
                 int32_t[::1] num_inner):
        """Occurrences of each node, and where the earliest and the last of them end, from those of its targets."""
        cdef Compact* a = &self.automaton
        cdef int64_t i, j
        cdef int32_t node
        cdef Edge* edge
        cdef Ending* ending
        with nogil:
            for i in range(order.shape[0]):
                node = order[i]
                count[node] = num_inner[node] = 0
                first[node] = <int32_t>a.size
                latest[node] = 0
                if a.nodes[node].ending != NONE:
                    ending = &a.endings[a.nodes[node].ending]
                    count[node] = ending.count
                    first[node] = ending.first
                    latest[node] = ending.latest
                for j in range(compact_block_size(a.nodes[node].degree)):
                    edge = &a.slots[a.nodes[node].head + j]
                    if edge.token == NONE:
                        continue
                    if edge.target == LEAF:
                        count[node] += 1
                        first[node] = min(first[node], edge.start)
                        latest[node] = max(latest[node], edge.start)
                    else:
                        num_inner[node] += 1
                        count[node] += count[edge.target]
                        first[node] = min(first[node], first[edge.target] - edge.length)
                        latest[node] = max(latest[node], latest[edge.target] - edge.length)

    cdef _number(self, int32_t[::1] num_inner, int32_t[::1] numbers):
        """Give the special nodes the first numbers, the root 0, and return how many there are."""
        cdef Compact* a = &self.automaton
        cdef int64_t n = a.num_nodes
        cdef int64_t node
        cdef int32_t number = 0
        cdef bint special
        num_special = 0
        for special in (True, False):
            for node in range(n):
                if special == _is_special(node, &a.nodes[node], num_inner[node]):
                    numbers[node] = number
                    number += 1
            if special:
                num_special = number
        return num_special

    def _room_for(self, num_inner, num_special):
        """The arrays that `_fill` fills."""
        cdef Compact* a = &self.automaton
        cdef int64_t node
        cdef int64_t edges = 0
        for node in range(a.num_nodes):
            edges += a.nodes[node].degree
        inner = int(num_inner.sum(dtype=np.int64))
        wide = num_inner[num_inner > SCAN_LIMIT].tolist()
        table = sum(_table_size(degree) for degree in wide)
        if max(edges, table) > 2147483647:
            raise ValueError("the corpus is too large for 32-bit edge ids: split it over several indexes")
        sizes = {
            "inner_token": inner, "inner_target": inner, "inner_length": inner, "leaf_token": edges - inner,
            "leaf_start": edges - inner, "special_first": num_special, "special_latest": num_special,
            "table_start": num_special + 1,
        }
        arrays = {name: np.empty(size, dtype=np.int32) for name, size in sizes.items()}
        arrays["nodes"] = np.zeros((a.num_nodes + 1, NODE_FIELDS), dtype=np.int32)
        arrays["table"] = np.full(table, NONE, dtype=np.int32)
        return arrays

    def _fill(
        self, int32_t num_special, *, int32_t[::1] count, int32_t[::1] first, int32_t[::1] latest,
        int32_t[::1] numbers, int32_t[:, ::1] nodes, int32_t[::1] inner_token, int32_t[::1] inner_target,
        int32_t[::1] inner_length, int32_t[::1] leaf_token, int32_t[::1] leaf_start, int32_t[::1] special_first,
        int32_t[::1] special_latest, int32_t[::1] table_start, int32_t[::1] table
    ):
        """Write the nodes in the order of their numbers, and the edges of each, sorted."""
        cdef Compact* a = &self.automaton
        cdef Filled at = Filled(0, 0, 0, 0)
        cdef NodeRecord* record
        cdef Node* n
        cdef Edge* edge
        cdef int64_t node
        cdef int32_t i, num_inner, num_leaves
        cdef bint special
        for special in (True, False):
            for node in range(a.num_nodes):
                if special != (numbers[node] < num_special):
                    continue
                n = &a.nodes[node]
                num_inner = self._sort_edges(n, &count[0])
                num_leaves = n.degree - num_inner
                record = <NodeRecord*>&nodes[at.node, 0]
                record.link = NONE if n.link == NONE else numbers[n.link]
                record.length = n.length
                record.count = count[node]
                record.first = first[node]
                record.latest = latest[node]
                record.inner = at.inner
                record.leaf = at.leaf
                if special:
                    special_first[at.node] = self._extreme(num_inner, num_leaves, &first[0], False)
                    special_latest[at.node] = self._extreme(num_inner, num_leaves, &latest[0], True)
                    table_start[at.node] = at.table
                    if num_inner > SCAN_LIMIT:
                        self._hash(num_inner, &table[at.table])
                        at.table += _table_size(num_inner)
                for i in range(num_inner):
                    edge = &self.inner[i].edge
                    inner_token[at.inner + i] = edge.token
                    inner_target[at.inner + i] = numbers[edge.target]
                    inner_length[at.inner + i] = edge.length
                for i in range(num_leaves):
                    leaf_token[at.leaf + i] = self.leaves[i].edge.token
                    leaf_start[at.leaf + i] = self.leaves[i].edge.start
                at.node += 1
                at.inner += num_inner
                at.leaf += num_leaves
        nodes[at.node, 5] = at.inner
        nodes[at.node, 6] = at.leaf
        table_start[num_special] = at.table

    cdef int32_t _sort_edges(self, const Node* node, const int32_t* count) except -1:
        """Sort the edges of a node into `inner` (the most frequent first) and `leaves` (by token); how many inner."""
        cdef int64_t size = compact_block_size(node.degree)
        cdef int64_t i
        cdef int32_t num_inner = 0
        cdef int32_t num_leaves = 0
        cdef Edge* edge
        if node.degree > self.room:
            resize(<void**>&self.inner, grown(self.room, node.degree), sizeof(Keyed))
            self.room = resize(<void**>&self.leaves, grown(self.room, node.degree), sizeof(Keyed))
        for i in range(size):
            edge = &self.automaton.slots[node.head + i]
            if edge.token == NONE:
                continue
            if edge.target == LEAF:
                self.leaves[num_leaves].key = edge.token
                self.leaves[num_leaves].edge = edge[0]
                num_leaves += 1
            else:
                self.inner[num_inner].key = ((<int64_t>2147483647 - count[edge.target]) << 32) | edge.token
                self.inner[num_inner].edge = edge[0]
                num_inner += 1
        _sort(self.inner, num_inner)
        _sort(self.leaves, num_leaves)
        return num_inner

    cdef int32_t _extreme(self, int32_t num_inner, int32_t num_leaves, const int32_t* ends, bint latest) noexcept:
        """Where the node's earliest or last occurrence that goes on goes on; `ends` is `first` or `latest`."""
        cdef int32_t i, position
        cdef int32_t best = 0 if latest or num_inner + num_leaves == 0 else 2147483647
        cdef Edge* edge
        for i in range(num_inner + num_leaves):
            if i < num_inner:
                edge = &self.inner[i].edge
                position = ends[edge.target] - edge.length
            else:
                position = self.leaves[i - num_inner].edge.start
            best = max(best, position) if latest else min(best, position)
        return best

    cdef void _hash(self, int32_t num_inner, int32_t* table) noexcept:
        """Fill the hash table of a node with many inner edges."""
        cdef uint32_t mask = <uint32_t>_table_size(num_inner) - 1
        cdef uint32_t slot
        cdef int32_t i
        for i in range(num_inner):
            slot = (<uint32_t>self.inner[i].edge.token) * <uint32_t>2654435769
            slot = (slot ^ (slot >> 15)) & mask
            while table[slot] != NONE:
                slot = (slot + 1) & mask
            table[slot] = i


cdef inline bint _is_special(int64_t number, const Node* node, int32_t num_inner) noexcept nogil:
    return number == ROOT or num_inner > SCAN_LIMIT or (node.ending != NONE and node.degree > 0)


cdef inline int32_t _table_size(int32_t num_inner) noexcept nogil:
    """A power of two, so that the table is at most two thirds full."""
    cdef int32_t size = 2
    while size < num_inner + num_inner // 2:
        size *= 2
    return size


cdef int _by_key(const void* a, const void* b) noexcept nogil:
    cdef int64_t x = (<const Keyed*>a).key
    cdef int64_t y = (<const Keyed*>b).key
    return (x > y) - (x < y)


cdef void _sort(Keyed* items, int32_t n) noexcept nogil:
    """By key, rising."""
    cdef int32_t i, j
    cdef Keyed item
    if n > FEW:
        qsort(items, n, sizeof(Keyed), _by_key)
        return
    for i in range(1, n):
        item = items[i]
        j = i
        while j > 0 and items[j - 1].key > item.key:
            items[j] = items[j - 1]
            j -= 1
        items[j] = item


cdef _view(int32_t* values, int64_t n):
    """An array over memory that the automaton owns."""
    return np.asarray(<int32_t[:n]>values) if n else np.empty(0, dtype=np.int32)


def _narrow(array):
    """A copy in 2 bytes an entry where all are below 65,536, else in 4."""
    fits = array.size == 0 or int(array.max()) < 1 << 16
    return array.astype(np.uint16 if fits else np.int32)
