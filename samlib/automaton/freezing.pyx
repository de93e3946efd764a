# cython: cdivision=True
"""From documents to the flat arrays of a frozen index: build the compact automaton, count, number, sort, write."""

cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t
from libc.stdlib cimport free, qsort

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from samlib.automaton.arrays cimport address_of
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
    compact_reserve,
    make_room,
)
from samlib.automaton.frozen cimport SCAN_LIMIT, NodeRecord
from samlib.automaton.hashing cimport hash_of
from samlib.automaton.memory cimport prefetch

cdef enum:
    AHEAD = 8                   # so many nodes ahead, memory is asked for
    FEW = 24                    # so many edges are sorted by insertion
    MAX_ID = 2147483647
    NODE_FIELDS = sizeof(NodeRecord) // sizeof(int32_t)

cnp.import_array()

PAGE = 4096

cdef struct Keyed:              # an edge, and what it is sorted by
    int64_t key
    Edge edge

cdef struct Totals:             # of a node
    int32_t count               # number of occurrences
    int32_t first               # position after the earliest one
    int32_t latest              # position after the last one
    int32_t number              # its number in the frozen index


cdef struct Columns:            # the edges' arrays
    bint narrow                 # token ids take 2 bytes
    bint short_labels           # label lengths do
    void* inner_token
    int32_t* inner_target
    void* inner_length
    void* leaf_token
    int32_t* leaf_start


cdef class Builder:
    """Takes documents, and gives the arrays of their index. Thread-safety: one thread at a time."""

    cdef Compact automaton
    cdef Keyed* inner           # the edges of one node that lead to nodes …
    cdef int64_t inner_capacity
    cdef int32_t num_inner
    cdef Keyed* leaves          # … and those that run to the end of a document
    cdef int64_t leaf_capacity
    cdef int32_t num_leaves
    cdef Totals* totals         # per node
    cdef int64_t total_capacity
    cdef int32_t num_special    # number of special nodes
    cdef int32_t longest_label  # of an inner edge

    def __cinit__(self):
        compact_init(&self.automaton)

    def __dealloc__(self):
        compact_free(&self.automaton)
        free(self.inner)
        free(self.leaves)
        free(self.totals)

    @property
    def nbytes(self):
        """Bytes that the automaton takes."""
        return compact_nbytes(&self.automaton)

    @property
    def num_tokens(self):
        """Tokens taken so far."""
        return self.automaton.size

    def reserve(self, int64_t num_tokens):
        """Make room for so many tokens, if the system lets us; memory that is not needed is not taken."""
        try:
            compact_reserve(&self.automaton, num_tokens)
        except MemoryError:
            pass                                    # no harm: the arrays grow as needed

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
        text = _view(a.text, a.size)
        token_type = _narrow_type(text.max(initial=0))
        arrays = self._room(token_type)
        make_room(<void**>&self.totals, &self.total_capacity, a.num_nodes, sizeof(Totals))
        with ThreadPoolExecutor(max_workers=1) as beside:
            frozen_text = beside.submit(text.astype, token_type)
            beside.submit(_touch, arrays)
            self._sum_up(self._longest_first())
            self._number()
        arrays["inner_length"] = np.empty(len(arrays["inner_target"]), dtype=_narrow_type(self.longest_label))
        self._fill(arrays)
        arrays["text"] = frozen_text.result()
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
        cdef int32_t[::1] place = place_array       # per length: how many nodes are longer, then the next free place
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

    cdef _sum_up(self, int32_t[::1] order):
        """Occurrences of each node, and where the earliest and the last of them end, from those of its targets."""
        cdef Compact* a = &self.automaton
        cdef int64_t n = order.shape[0]
        cdef int64_t i
        with nogil:
            for i in range(n):
                if i + 3 * AHEAD < n:
                    prefetch(&a.nodes[order[i + 3 * AHEAD]])
                if i + 2 * AHEAD < n:
                    self._expect_node(order[i + 2 * AHEAD])
                if i + AHEAD < n:
                    self._expect_targets(order[i + AHEAD])
                self.totals[order[i]] = self._total(&a.nodes[order[i]])

    cdef void _expect_node(self, int64_t node) noexcept nogil:
        """Start to load the edges of a node."""
        prefetch(&self.automaton.slots[self.automaton.nodes[node].head])
        prefetch(&self.totals[node])

    cdef void _expect_targets(self, int64_t node) noexcept nogil:
        """Start to load what its first edges lead to, and its link."""
        cdef const Node* n = &self.automaton.nodes[node]
        cdef int64_t i
        if n.link != NONE:
            prefetch(&self.totals[n.link])
        for i in range(min(n.degree, FEW)):
            prefetch(&self.totals[max(self.automaton.slots[n.head + i].target, 0)])

    cdef Totals _total(self, const Node* node) noexcept nogil:
        cdef Totals total = Totals(0, MAX_ID, 0, 0)
        cdef const Ending* ending
        cdef const Totals* below
        cdef const Edge* edge
        cdef int64_t i
        if node.ending != NONE:
            ending = &self.automaton.endings[node.ending]
            total.count = ending.count
            total.first = ending.first
            total.latest = ending.latest
        for i in range(compact_block_size(node.degree)):
            edge = &self.automaton.slots[node.head + i]
            if edge.token == NONE:
                continue
            if edge.target == LEAF:
                total.count += 1
                total.first = min(total.first, edge.start)
                total.latest = max(total.latest, edge.start)
                continue
            below = &self.totals[edge.target]
            total.count += below.count
            total.first = min(total.first, below.first - edge.length)
            total.latest = max(total.latest, below.latest - edge.length)
            self.longest_label = max(self.longest_label, edge.length)
        if total.first == MAX_ID:                   # the root of an empty corpus
            total.first = 0
        return total

    cdef void _number(self) noexcept:
        """Give the special nodes the first numbers, the root 0."""
        cdef Compact* a = &self.automaton
        cdef int64_t node
        cdef int32_t number = 0
        cdef int32_t other = self.num_special
        for node in range(a.num_nodes):
            if _is_special(node, &a.nodes[node]):
                self.totals[node].number = number
                number += 1
            else:
                self.totals[node].number = other
                other += 1

    cdef _room(self, token):
        """The arrays that `_fill` fills, but `inner_length`; `token` is the type of token ids."""
        cdef Compact* a = &self.automaton
        cdef int64_t node
        cdef int64_t inner = 0
        cdef int64_t leaves = 0
        cdef int64_t table = 0
        self.num_special = 0
        for node in range(a.num_nodes):
            self.num_special += _is_special(node, &a.nodes[node])
            inner += a.nodes[node].num_inner
            leaves += a.nodes[node].degree - a.nodes[node].num_inner
            table += _table_size(a.nodes[node].num_inner)
        if max(inner, leaves, table) > MAX_ID:
            raise ValueError("the corpus is too large for 32-bit edge ids: split it over several indexes")
        return {
            "nodes": np.empty((a.num_nodes + 1, NODE_FIELDS), dtype=np.int32),
            "inner_token": np.empty(inner, dtype=token),
            "inner_target": np.empty(inner, dtype=np.int32),
            "leaf_token": np.empty(leaves, dtype=token),
            "leaf_start": np.empty(leaves, dtype=np.int32),
            "special_first": np.empty(self.num_special, dtype=np.int32),
            "special_latest": np.empty(self.num_special, dtype=np.int32),
            "table_start": np.empty(self.num_special + 1, dtype=np.int32),
            "table": np.empty(table, dtype=np.int32),
        }

    cdef _fill(self, dict arrays):
        """Write the nodes in the order of their numbers, and the edges of each, sorted."""
        cdef Compact* a = &self.automaton
        cdef int32_t[:, ::1] nodes = arrays["nodes"]
        cdef NodeRecord* records = <NodeRecord*>&nodes[0, 0]
        cdef int32_t[::1] special_first = arrays["special_first"]
        cdef int32_t[::1] special_latest = arrays["special_latest"]
        cdef int32_t[::1] table_start = arrays["table_start"]
        cdef int32_t[::1] table = arrays["table"]
        cdef Columns columns = Columns(
            arrays["inner_token"].itemsize == 2, arrays["inner_length"].itemsize == 2, address_of(arrays["inner_token"]),
            <int32_t*>address_of(arrays["inner_target"]), address_of(arrays["inner_length"]), address_of(arrays["leaf_token"]),
            <int32_t*>address_of(arrays["leaf_start"]),
        )
        cdef int64_t node
        cdef int32_t number
        cdef int32_t inner = 0
        cdef int32_t leaf = 0
        cdef int32_t entry = 0
        cdef bint special
        for special in (True, False):
            for node in range(a.num_nodes):
                if node + 2 * AHEAD < a.num_nodes:
                    self._expect_node(node + 2 * AHEAD)
                if node + AHEAD < a.num_nodes:
                    self._expect_targets(node + AHEAD)
                number = self.totals[node].number
                if special != (number < self.num_special):
                    continue
                self._sort_edges(&a.nodes[node])
                self._write_record(node, &records[number])
                records[number].inner = inner
                records[number].leaf = leaf
                self._write_edges(&columns, inner, leaf)
                if special:
                    special_first[number] = self._earliest()
                    special_latest[number] = self._last()
                    table_start[number] = entry
                    if _table_size(self.num_inner):
                        self._hash(&table[entry])
                        entry += _table_size(self.num_inner)
                inner += self.num_inner
                leaf += self.num_leaves
        records[a.num_nodes] = NodeRecord(NONE, 0, 0, 0, 0, inner, leaf)
        table_start[self.num_special] = entry

    cdef void _write_record(self, int64_t node, NodeRecord* record) noexcept:
        cdef const Node* n = &self.automaton.nodes[node]
        record.link = NONE if n.link == NONE else self.totals[n.link].number
        record.length = n.length
        record.count = self.totals[node].count
        record.first = self.totals[node].first
        record.latest = self.totals[node].latest

    cdef void _write_edges(self, const Columns* columns, int64_t inner, int64_t leaf) noexcept:
        cdef int32_t i
        for i in range(self.num_inner):
            _write(columns.inner_token, columns.narrow, inner + i, self.inner[i].edge.token)
            columns.inner_target[inner + i] = self.totals[self.inner[i].edge.target].number
            _write(columns.inner_length, columns.short_labels, inner + i, self.inner[i].edge.length)
        for i in range(self.num_leaves):
            _write(columns.leaf_token, columns.narrow, leaf + i, self.leaves[i].edge.token)
            columns.leaf_start[leaf + i] = self.leaves[i].edge.start

    cdef int _sort_edges(self, const Node* node) except -1:
        """Sort the edges of a node into `inner` (the most frequent first) and `leaves` (by token)."""
        cdef int64_t i
        cdef Edge* edge
        make_room(<void**>&self.inner, &self.inner_capacity, node.degree, sizeof(Keyed))
        make_room(<void**>&self.leaves, &self.leaf_capacity, node.degree, sizeof(Keyed))
        self.num_inner = self.num_leaves = 0
        for i in range(compact_block_size(node.degree)):
            edge = &self.automaton.slots[node.head + i]
            if edge.token == NONE:
                continue
            if edge.target == LEAF:
                self.leaves[self.num_leaves].key = edge.token
                self.leaves[self.num_leaves].edge = edge[0]
                self.num_leaves += 1
            else:
                self.inner[self.num_inner].key = (
                    (<int64_t>(MAX_ID - self.totals[edge.target].count)) << 32 | edge.token
                )
                self.inner[self.num_inner].edge = edge[0]
                self.num_inner += 1
        _sort(self.inner, self.num_inner)
        _sort(self.leaves, self.num_leaves)
        return 0

    cdef int32_t _earliest(self) noexcept:
        """Where the node's earliest occurrence that goes on goes on; 0 if none does."""
        cdef int32_t i
        cdef int32_t best = MAX_ID if self.num_inner + self.num_leaves else 0
        for i in range(self.num_inner):
            best = min(best, self.totals[self.inner[i].edge.target].first - self.inner[i].edge.length)
        for i in range(self.num_leaves):
            best = min(best, self.leaves[i].edge.start)
        return best

    cdef int32_t _last(self) noexcept:
        """Where the node's last occurrence that goes on goes on; 0 if none does."""
        cdef int32_t i
        cdef int32_t best = 0
        for i in range(self.num_inner):
            best = max(best, self.totals[self.inner[i].edge.target].latest - self.inner[i].edge.length)
        for i in range(self.num_leaves):
            best = max(best, self.leaves[i].edge.start)
        return best

    cdef void _hash(self, int32_t* table) noexcept:
        """Fill the hash table of a node with many inner edges."""
        cdef uint32_t mask = <uint32_t>_table_size(self.num_inner) - 1
        cdef uint32_t slot
        cdef int32_t i
        for slot in range(mask + 1):
            table[slot] = NONE
        for i in range(self.num_inner):
            slot = hash_of(self.inner[i].edge.token) & mask
            while table[slot] != NONE:
                slot = (slot + 1) & mask
            table[slot] = i


cdef inline bint _is_special(int64_t number, const Node* node) noexcept nogil:
    return number == ROOT or node.num_inner > SCAN_LIMIT or (node.ending != NONE and node.degree > 0)


cdef inline int32_t _table_size(int32_t num_inner) noexcept nogil:
    """Entries of the hash table of a node with so many inner edges: none if they are few, else at most 2/3 are taken."""
    cdef int32_t size = 2
    if num_inner <= SCAN_LIMIT:
        return 0
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


cdef inline void _write(void* array, bint narrow, int64_t i, int32_t value) noexcept nogil:
    if narrow:
        (<uint16_t*>array)[i] = <uint16_t>value
    else:
        (<int32_t*>array)[i] = value


def _touch(arrays):
    """Have the system provide the arrays' memory. That alone takes as long as filling them: it is done beside."""
    for array in arrays.values():
        array.reshape(-1).view(np.uint8)[::PAGE] = 0


def _narrow_type(largest):
    """The smaller of the two integer types of an index that holds `largest`."""
    return np.uint16 if largest < 1 << 16 else np.int32
