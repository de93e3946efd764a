# cython: cdivision=True
"""Walking a frozen index: find, follow, shorten, copy, rank. No function here takes the GIL.

The index may come from a damaged file that was opened without `verify`: every id and position that is read from the
arrays is checked before it is used, and every loop ends, since it consumes tokens or shortens the match.
"""

from libc.stdint cimport uint16_t, uint32_t
from libc.string cimport memcpy

from samlib.automaton.frontier cimport Candidate, frontier_offer, frontier_take, put_node
from samlib.automaton.hashing cimport hash_of

cdef struct Edges:              # of one node
    int32_t inner               # the first inner edge
    int32_t num_inner
    int32_t leaf                # the first leaf edge
    int32_t num_leaves


cdef inline int32_t _token(const Index* index, const void* tokens, int64_t i) noexcept nogil:
    return (<const uint16_t*>tokens)[i] if index.narrow else (<const int32_t*>tokens)[i]


cdef inline int32_t _label_length(const Index* index, int64_t inner) noexcept nogil:
    return (<const uint16_t*>index.inner_length)[inner] if index.short_labels else (<const int32_t*>index.inner_length)[inner]


cdef inline bint _is_node(const Index* index, int32_t node) noexcept nogil:
    return 0 <= node < index.num_nodes


cdef int64_t document_end(const Index* index, int64_t position) noexcept nogil:
    """The end of the document that holds `position`; DAMAGED if there is none."""
    cdef int64_t low = 0
    cdef int64_t high = index.num_documents
    cdef int64_t middle
    while low < high:
        middle = low + (high - low) // 2
        if index.document_ends[middle] <= position:
            low = middle + 1
        else:
            high = middle
    if position < 0 or low == index.num_documents or index.document_ends[low] > index.num_tokens:
        return DAMAGED
    return index.document_ends[low]


# --- the edges of a node


cdef inline int _edges(const Index* index, int32_t node, Edges* edges) noexcept nogil:
    """Which edges a node has; DAMAGED if they lie outside the arrays."""
    cdef const NodeRecord* record = &index.nodes[node]
    edges.inner = record.inner
    edges.leaf = record.leaf
    if record.inner < 0 or record[1].inner < record.inner or record[1].inner > index.num_inner:
        return DAMAGED
    if record.leaf < 0 or record[1].leaf < record.leaf or record[1].leaf > index.num_leaves:
        return DAMAGED
    edges.num_inner = record[1].inner - record.inner
    edges.num_leaves = record[1].leaf - record.leaf
    return 0


cdef inline int32_t _scan(const Index* index, const void* tokens, int32_t start, int32_t n, int32_t token) noexcept nogil:
    """Which of the n entries from `start` is `token`, or NOT_FOUND."""
    cdef int32_t i
    cdef const uint16_t* narrow = (<const uint16_t*>tokens) + start
    cdef const int32_t* wide = (<const int32_t*>tokens) + start
    if index.narrow:
        for i in range(n):
            if narrow[i] == token:
                return i
    else:
        for i in range(n):
            if wide[i] == token:
                return i
    return NOT_FOUND


cdef inline int32_t _find_leaf(const Index* index, const Edges* edges, int32_t token) noexcept nogil:
    """Binary search, down to a few entries, then in order."""
    cdef int32_t low = edges.leaf
    cdef int32_t high = edges.leaf + edges.num_leaves
    cdef int32_t middle, found
    while high - low > SCAN_LIMIT:
        middle = low + (high - low) // 2
        if _token(index, index.leaf_token, middle) <= token:
            low = middle
        else:
            high = middle
    found = _scan(index, index.leaf_token, low, high - low, token)
    return NOT_FOUND if found < 0 else low - edges.leaf + found


cdef int32_t _look_up(const Index* index, int32_t node, const Edges* edges, int32_t token) noexcept nogil:
    """Which inner edge of a special node begins with `token`, by its hash table; NOT_FOUND or DAMAGED."""
    cdef int32_t start = index.table_start[node]
    cdef int32_t mask = index.table_start[node + 1] - start - 1
    cdef uint32_t slot = hash_of(token)
    cdef int32_t probe, entry
    if start < 0 or mask < 0 or start + <int64_t>mask >= index.num_table or mask & (mask + 1):
        return DAMAGED
    for probe in range(mask + 1):
        entry = index.table[start + <int32_t>((slot + <uint32_t>probe) & <uint32_t>mask)]
        if entry < 0:
            return NOT_FOUND
        if entry >= edges.num_inner:
            return DAMAGED
        if _token(index, index.inner_token, edges.inner + entry) == token:
            return entry
    return NOT_FOUND


cdef int32_t _find(const Index* index, int32_t node, int32_t token) noexcept nogil:
    """Which edge of `node` begins with `token` (inner edges are counted before leaf edges); NOT_FOUND or DAMAGED."""
    cdef Edges edges
    cdef int32_t found
    if _edges(index, node, &edges) < 0:
        return DAMAGED
    if edges.num_inner <= SCAN_LIMIT:
        found = _scan(index, index.inner_token, edges.inner, edges.num_inner, token)
    else:
        found = _look_up(index, node, &edges, token) if node < index.num_special else DAMAGED
    if found != NOT_FOUND:
        return found
    found = _find_leaf(index, &edges, token)
    return found if found < 0 else edges.num_inner + found


# --- places


cdef void place_reset(Place* place) noexcept nogil:
    """The root: nothing is matched."""
    place.node = ROOT
    place.edge = 0
    place.depth = 0
    place.length = 0
    place.target = LEAF
    place.position = 0
    place.end = 0


cdef int _enter(const Index* index, Place* place, int32_t edge) noexcept nogil:
    """Onto an edge of the place's node, before its first token; the match length stays. DAMAGED if it leads nowhere."""
    cdef Edges edges
    cdef int32_t length
    if _edges(index, place.node, &edges) < 0 or edge < 0:
        return DAMAGED
    place.edge = edge
    place.depth = 0
    if edge < edges.num_inner:
        place.target = index.inner_target[edges.inner + edge]
        length = _label_length(index, edges.inner + edge)
        if not _is_node(index, place.target) or length < 1:
            return DAMAGED
        place.end = index.nodes[place.target].first
        place.position = place.end - length
        return 0 if place.position >= 0 and place.end <= index.num_tokens else DAMAGED
    if edge - edges.num_inner >= edges.num_leaves:
        return DAMAGED
    place.target = LEAF
    place.position = index.leaf_start[edges.leaf + edge - edges.num_inner]
    place.end = document_end(index, place.position)
    return 0 if 0 <= place.position < place.end else DAMAGED


cdef inline void _go_down(Place* place, int32_t tokens) noexcept nogil:
    """Down the label, which has at least so many tokens left; onto the node at its end, if that is reached."""
    place.position += tokens
    place.depth += tokens
    if place.position == place.end and place.target != LEAF:
        place.node = place.target
        place.depth = 0


cdef inline int _take(const Index* index, Place* place, int32_t token) noexcept nogil:
    """1 and one token further if the place goes on with `token`, else 0; or DAMAGED."""
    cdef int32_t edge
    if place.depth:
        if place.position == place.end or _token(index, index.text, place.position) != token:
            return 0
    else:
        edge = _find(index, place.node, token)
        if edge == NOT_FOUND:
            return 0
        if edge < 0 or _enter(index, place, edge) < 0:
            return DAMAGED
    _go_down(place, 1)
    place.length += 1
    return 1


cdef int place_shorten(const Index* index, Place* place) noexcept nogil:
    """Go on to the longest suffix of the match that stands somewhere else, too; DAMAGED if it cannot be found."""
    cdef int64_t label = place.position - place.depth       # the last `rest` tokens of the match, from here on
    cdef int32_t rest = place.depth
    cdef int32_t step, edge
    cdef int64_t length
    if place.node == ROOT:
        label += 1
        rest -= 1
        length = rest
    else:
        place.node = index.nodes[place.node].link
        if not _is_node(index, place.node):
            return DAMAGED
        length = <int64_t>index.nodes[place.node].length + rest
    if length < 0 or length >= place.length:
        return DAMAGED
    place.length = <int32_t>length
    place.depth = 0
    while rest:
        edge = _find(index, place.node, _token(index, index.text, label))
        if edge < 0 or _enter(index, place, edge) < 0:
            return DAMAGED
        step = <int32_t>min(<int64_t>rest, place.end - place.position)
        _go_down(place, step)
        label += step
        rest -= step
        if rest and place.depth:
            return DAMAGED                                  # the label ends with a document
    return 0


cdef int _goes_on(const Index* index, const Place* place) noexcept nogil:
    """1 if the match has a continuation, else 0; or DAMAGED. The root counts as one that has."""
    cdef Edges edges
    if place.depth:
        return place.position < place.end
    if place.node == ROOT:
        return 1
    if _edges(index, place.node, &edges) < 0:
        return DAMAGED
    return edges.num_inner + edges.num_leaves > 0


cdef int _step(const Index* index, Place* place, int32_t token) noexcept nogil:
    """Move to the longest suffix of (match + token) that is in the index and goes on there; DAMAGED or 0."""
    cdef int answer = _take(index, place, token)
    while answer == 0:
        if place.node == ROOT and place.depth == 0:
            return 0
        if place_shorten(index, place) < 0:
            return DAMAGED
        answer = _take(index, place, token)
    if answer == 1:
        answer = _goes_on(index, place)
    while answer == 0:
        if place_shorten(index, place) < 0:
            return DAMAGED
        answer = _goes_on(index, place)
    return 0 if answer == 1 else DAMAGED


cdef int _cut(const Index* index, Place* place, int32_t max_length) noexcept nogil:
    """The last `max_length` tokens of a match that is one token longer; DAMAGED or 0."""
    cdef Place shorter = place[0]
    if place_shorten(index, &shorter) < 0:
        return DAMAGED
    if shorter.length == max_length:
        place[0] = shorter
    place.length = max_length   # else they stand in the same place as the longer match
    return 0


cdef int place_advance(
    const Index* index, Place* place, const int32_t* tokens, int64_t n, int32_t max_length
) noexcept nogil:
    """Follow n tokens, with matches of at most `max_length` (> 0) tokens; DAMAGED or 0."""
    cdef int64_t i
    for i in range(n):
        if _step(index, place, tokens[i]) < 0:
            return DAMAGED
        if place.length > max_length and _cut(index, place, max_length) < 0:
            return DAMAGED
    return 0


cdef int place_restore(
    const Index* index, Place* place, int32_t node, int32_t edge, int32_t depth, int32_t length
) noexcept nogil:
    """The place of these four numbers; DAMAGED if the index has none such."""
    place_reset(place)
    if not _is_node(index, node) or depth < 0 or length < depth:
        return DAMAGED
    place.node = node
    place.length = length
    if depth:
        if _enter(index, place, edge) < 0 or place.end - place.position < depth:
            return DAMAGED
        _go_down(place, depth)
    return 0 if _goes_on(index, place) == 1 else DAMAGED


# --- drafts


cdef int64_t place_continuation(const Index* index, const Place* place, bint latest) noexcept nogil:
    """Where the match goes on: after its earliest or last occurrence that has a continuation."""
    cdef const NodeRecord* record
    if place.depth:
        if not latest or place.target == LEAF:
            return place.position
        return index.nodes[place.target].latest - (place.end - place.position)
    if place.node < index.num_special:
        return index.special_latest[place.node] if latest else index.special_first[place.node]
    record = &index.nodes[place.node]
    return record.latest if latest else record.first


cdef int32_t place_count(const Index* index, const Place* place) noexcept nogil:
    """How often the match occurs, at the ends of documents, too."""
    if place.depth == 0:
        return index.nodes[place.node].count
    return 1 if place.target == LEAF else index.nodes[place.target].count


cdef int32_t place_children(
    const Index* index, const Place* place, int32_t most, int32_t* tokens, int32_t* counts
) noexcept nogil:
    """Write the tokens that follow the match, at most `most` (> 0), the most frequent first, and how often each does.

    Returns how many were written, or DAMAGED.
    """
    cdef Place at = place[0]
    cdef Edges edges
    cdef int32_t edge, found
    if place.depth:
        if place.position == place.end:
            return 0
        tokens[0] = _token(index, index.text, place.position)
        counts[0] = place_count(index, place)
        return 1
    if _edges(index, place.node, &edges) < 0:
        return DAMAGED
    found = min(most, edges.num_inner + edges.num_leaves)
    for edge in range(found):
        if _enter(index, &at, edge) < 0:
            return DAMAGED
        tokens[edge] = _token(index, index.text, at.position)
        counts[edge] = 1 if at.target == LEAF else index.nodes[at.target].count
    return found


cdef int64_t copy_document(const Index* index, int64_t position, int32_t* out, int64_t n) noexcept nogil:
    """Copy n tokens from `position`, which lie in one document."""
    cdef int64_t i
    cdef const uint16_t* narrow = (<const uint16_t*>index.text) + position
    if index.narrow:
        for i in range(n):
            out[i] = narrow[i]
    else:
        memcpy(out, (<const int32_t*>index.text) + position, n * sizeof(int32_t))
    return n


cdef int64_t place_frequent(const Index* index, const Place* place, int32_t* out, int64_t n) noexcept nogil:
    """The most frequent continuation, token by token, at most n; how many there were, or DAMAGED."""
    cdef Place at = place[0]
    cdef Edges edges
    cdef int64_t drafted = 0
    cdef int64_t run
    while drafted < n:
        if at.depth == 0:
            if _edges(index, at.node, &edges) < 0:
                return DAMAGED
            if edges.num_inner + edges.num_leaves == 0:
                break
            if _enter(index, &at, 0) < 0:
                return DAMAGED
        run = min(n - drafted, at.end - at.position)
        if run == 0:
            break
        drafted += copy_document(index, at.position, out + drafted, run)
        _go_down(&at, <int32_t>run)
    return drafted


cdef int _offer(
    const Index* index, Frontier* frontier, Place* at, int32_t edge, int32_t depth, int32_t parent, int32_t level
) noexcept nogil:
    """Offer what stands `depth` tokens down an edge of `at`'s node, and put `at` there; DAMAGED, NO_MEMORY or 0."""
    cdef Candidate item
    if _enter(index, at, edge) < 0:
        return DAMAGED
    item.count = 1 if at.target == LEAF else index.nodes[at.target].count
    item.level = level
    item.token = _token(index, index.text, at.position + depth - 1)
    item.parent = parent
    item.state = at.node
    item.edge = edge
    item.depth = depth
    return NO_MEMORY if frontier_offer(frontier, &item) < 0 else 0


cdef int _offer_below(
    const Index* index, Frontier* frontier, const Place* place, int32_t parent, int32_t level
) noexcept nogil:
    """Offer the next token of the label, or the most frequent edge of the node; nothing below the lowest level."""
    cdef Place at = place[0]
    cdef Edges edges
    if level > frontier.max_level:
        return 0
    if place.depth:
        if place.position == place.end:
            return 0
        return _offer(index, frontier, &at, place.edge, place.depth + 1, parent, level)
    if _edges(index, place.node, &edges) < 0:
        return DAMAGED
    if edges.num_inner + edges.num_leaves == 0:
        return 0
    return _offer(index, frontier, &at, 0, 1, parent, level)


cdef int _offer_sibling(const Index* index, Frontier* frontier, const Candidate* best) noexcept nogil:
    """Offer the next edge after that of `best`, unless `best` lies further down or is the last."""
    cdef Place at
    cdef Edges edges
    if best.depth > 1:
        return 0
    if _edges(index, best.state, &edges) < 0:
        return DAMAGED
    if best.edge + 1 >= edges.num_inner + edges.num_leaves:
        return 0
    at.node = best.state
    return _offer(index, frontier, &at, best.edge + 1, 1, best.parent, best.level)


cdef int32_t place_tree(const Index* index, const Place* place, Frontier* frontier, DraftNodes* out) noexcept nogil:
    """Best-first: take the most frequent node known, then offer its next sibling and its first child.

    The frontier has been started, and says how many nodes are wanted. Returns how many there were, or DAMAGED, or
    NO_MEMORY for the frontier.
    """
    cdef int32_t node = 0
    cdef int error
    cdef Place at
    cdef Candidate best
    error = _offer_below(index, frontier, place, -1, 1)
    while error == 0 and frontier_take(frontier, &best):
        put_node(out, node, &best)
        at.node = best.state
        if _enter(index, &at, best.edge) < 0:
            return DAMAGED
        _go_down(&at, best.depth)
        error = _offer_sibling(index, frontier, &best)
        if error == 0:
            error = _offer_below(index, frontier, &at, node, best.level + 1)
        node += 1
    return node if error == 0 else error
