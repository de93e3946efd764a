"""The frontier of a best-first search for n nodes: a heap that forgets what cannot be among them.

It holds at most twice as many candidates as are still wanted, however many children a state has. Shared by both automata.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free

from samlib.automaton.memory cimport enlarge

cdef struct Candidate:
    int32_t count               # occurrences of the draft-tree node
    int32_t order               # when it was offered: the tie-breaker
    int32_t token
    int32_t parent              # the draft-tree node above it, -1 for the root
    int32_t state               # the state that it stands in; in a frozen index: the node …
    int32_t edge                # … on which edge of that, …
    int32_t depth               # … so many tokens down
    int32_t level               # tokens from the root of the draft tree: 1 for a child of it

cdef struct DraftNodes:         # of a draft tree, best first, in arrays of the caller's
    int32_t* tokens
    int32_t* parents
    int32_t* counts             # occurrences of each node's path

cdef struct Frontier:
    Candidate* heap
    int64_t capacity
    int64_t max_bytes           # a larger heap is refused, as if memory were short; lowered by tests
    int32_t size
    int32_t offered             # candidates so far; the tie-breaker
    int32_t wanted              # nodes still to be taken
    int32_t max_level           # nodes at this level get no children
    int32_t least               # candidates of a lower count are of no use, whatever is wanted
    bint full                   # candidates no better than `floor` are of no use
    Candidate floor


cdef inline void frontier_init(Frontier* self) noexcept nogil:
    self.heap = NULL
    self.capacity = 0
    self.max_bytes = <int64_t>1 << 62


cdef inline void frontier_free(Frontier* self) noexcept nogil:
    free(self.heap)


cdef inline void frontier_start(Frontier* self, int32_t wanted, int32_t max_level, int32_t least) noexcept nogil:
    """Begin a search for `wanted` (> 0) nodes, none below `max_level` (> 0), none of less than `least` occurrences.

    Memory is kept.
    """
    self.size = 0
    self.offered = 0
    self.wanted = wanted
    self.max_level = max_level
    self.least = least
    self.full = False


cdef inline int32_t least_count(double probability, int32_t of) noexcept nogil:
    """The smallest count (> 0) that is at least the share `probability` of `of` occurrences, by division."""
    cdef int32_t count = max(1, <int32_t>(probability * of))
    while <double>count / of < probability:
        count += 1
    return count


cdef inline bint candidate_better(const Candidate* a, const Candidate* b) noexcept nogil:
    return a.count > b.count or (a.count == b.count and a.order < b.order)


cdef inline void candidate_push(Candidate* heap, int32_t size, Candidate item) noexcept nogil:
    """Add to a heap of `size` candidates, which has room for one more."""
    cdef int32_t i = size
    while i > 0 and candidate_better(&item, &heap[(i - 1) // 2]):
        heap[i] = heap[(i - 1) // 2]
        i = (i - 1) // 2
    heap[i] = item


cdef inline Candidate candidate_pop(Candidate* heap, int32_t size) noexcept nogil:
    """Take the best from a heap of `size` (> 0) candidates."""
    cdef Candidate top = heap[0]
    cdef Candidate item = heap[size - 1]
    cdef int32_t i = 0
    cdef int32_t child
    while True:
        child = 2 * i + 1
        if child >= size - 1:
            break
        if child + 1 < size - 1 and candidate_better(&heap[child + 1], &heap[child]):
            child += 1
        if not candidate_better(&heap[child], &item):
            break
        heap[i] = heap[child]
        i = child
    heap[i] = item
    return top


cdef inline void frontier_prune(Frontier* self) noexcept nogil:
    """Keep the best `wanted` (> 0) of at least twice as many candidates."""
    cdef int32_t i
    for i in range(self.wanted):
        self.heap[self.size - 1 - i] = candidate_pop(self.heap, self.size - i)
    for i in range(self.wanted):            # they now lie at the end, the best last
        self.heap[i] = self.heap[self.size - 1 - i]
    self.size = self.wanted
    self.floor = self.heap[self.wanted - 1]
    self.full = True


cdef inline int frontier_offer(Frontier* self, Candidate* item) noexcept nogil:
    """Add a candidate, which gets its `order` here; -1 without memory for it."""
    item.order = self.offered
    self.offered += 1
    if item.count < self.least or self.wanted == 0 or (self.full and not candidate_better(item, &self.floor)):
        return 0
    if self.size >= 2 * self.wanted:
        frontier_prune(self)
    if self.size >= self.capacity:
        if enlarge(<void**>&self.heap, &self.capacity, self.size + 1, sizeof(Candidate), self.max_bytes) < 0:
            return -1
    candidate_push(self.heap, self.size, item[0])
    self.size += 1
    return 0


cdef inline bint frontier_take(Frontier* self, Candidate* best) noexcept nogil:
    """Take the best candidate; False if there is none, or if enough were taken."""
    if self.size == 0 or self.wanted == 0:
        return False
    best[0] = candidate_pop(self.heap, self.size)
    self.size -= 1
    self.wanted -= 1
    return True


cdef inline void put_node(DraftNodes* out, int32_t node, const Candidate* taken) noexcept nogil:
    """Write what was taken as the draft tree's node of this number."""
    out.tokens[node] = taken.token
    out.parents[node] = taken.parent
    out.counts[node] = taken.count
