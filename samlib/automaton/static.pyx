# cython: cdivision=True
"""The static suffix automaton: an immutable index over documents, and cursors that walk it.

Paper: Section 3.2 (static corpus). Generalised: documents never run into each other, so neither does a match or a
draft. The index is a set of flat arrays, in memory or mapped from a file.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

import numpy as np
from tqdm import tqdm

from samlib.automaton.candidates cimport Candidate, candidate_pop, candidate_push
from samlib.automaton.draft import Draft
from samlib.automaton.growing cimport (
    NONE,
    ROOT,
    Edge,
    Growing,
    growing_edges,
    growing_extend,
    growing_free,
    growing_init,
)
from samlib.automaton.ids import MAX_TOKEN_ID, as_ids, check_draft_size
from samlib.automaton.index_file import read_index, write_index
from samlib.errors import FingerprintError, IndexFormatError

SECTIONS = (
    "tokens", "document_ends", "link", "length", "count", "first", "latest", "edge_start", "edge_token", "edge_target",
)
MAX_TREE = 1 << 20
CHOICES = ("first", "latest", "frequent")


cdef class StaticAutomaton:
    """An immutable suffix automaton over documents of token ids.

    Made by `build` or `load`. Thread-safety: shared freely by threads; each has its own `cursor()`.
    """

    def __init__(self):
        raise TypeError("use StaticAutomaton.build(documents) or StaticAutomaton.load(path)")

    @staticmethod
    def build(documents, *, vocab_size=None, fingerprint=None, progress=False):
        """Index an iterable of documents, each a one-dimensional sequence of token ids. Time is linear in the tokens.

        vocab_size: ids must lie below it (ValueError otherwise). fingerprint: a string that names the tokenizer.
        Both are stored, and checked by `load`. progress: show a bar.
        """
        if fingerprint is not None and not isinstance(fingerprint, str):
            raise TypeError(f"fingerprint must be a string, not {type(fingerprint).__name__}")
        builder = _Builder()
        for document in tqdm(documents, desc="static automaton", unit="document", disable=not progress):
            if isinstance(document, int):
                raise TypeError("documents must be an iterable of documents: wrap a single document in a list")
            ids = as_ids(document)
            if vocab_size is not None and ids.size and int(ids.max()) >= vocab_size:
                raise ValueError(f"token id {int(ids.max())} is not below vocab_size={vocab_size}")
            builder.add(ids)
        return _from_arrays(builder.freeze(), vocab_size, fingerprint, None)

    @classmethod
    def from_texts(cls, texts, tokenizer, *, progress=False):
        """Index texts, tokenised without special tokens (so that none gets a second BOS)."""
        documents = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
        return cls.build(documents, vocab_size=len(tokenizer), progress=progress)

    def save(self, path):
        """Write the index to a file, atomically: an interrupted save leaves an older file whole."""
        write_index(path, self.arrays, vocab_size=self.vocab_size, fingerprint=self.fingerprint)
        self.path = str(path)

    @staticmethod
    def load(path, *, mmap=True, verify=False, vocab_size=None, fingerprint=None):
        """Open an index file; with mmap its pages are read when needed and shared between processes.

        verify: read the whole file and check every section. Raises IndexFormatError for a damaged or foreign file,
        FingerprintError where a given vocab_size or fingerprint differs from the file's.
        """
        arrays, header = read_index(path, mmap=mmap, verify=verify)
        for name, wanted in (("vocab_size", vocab_size), ("fingerprint", fingerprint)):
            if wanted is not None and header[name] != wanted:
                raise FingerprintError(
                    f"{path}: its {name} is {header[name]!r}, not {wanted!r}: build the index with this tokenizer"
                )
        if set(arrays) != set(SECTIONS):
            raise IndexFormatError(f"{path}: sections are missing: build the index again")
        return _from_arrays(arrays, header["vocab_size"], header["fingerprint"], str(path))

    def cursor(self):
        """A new cursor, before any token."""
        return Cursor(self)

    def __len__(self):
        return self.index.num_tokens

    @property
    def num_documents(self):
        """Number of documents, empty ones included."""
        return self.index.num_documents

    @property
    def num_states(self):
        """Number of states, the root included."""
        return self.index.num_states

    @property
    def nbytes(self):
        """Bytes of all arrays, the text included."""
        return sum(array.nbytes for array in self.arrays.values())

    def __reduce__(self):
        if self.path is None:
            raise TypeError("this index is in memory only: save(path) it first; what is pickled is then its path")
        return _load_pickled, (self.path, self.vocab_size, self.fingerprint)


def _load_pickled(path, vocab_size, fingerprint):
    return StaticAutomaton.load(path, vocab_size=vocab_size, fingerprint=fingerprint)


cdef const int32_t* _pointer(const int32_t[::1] array) noexcept:
    return &array[0] if array.shape[0] else NULL


cdef StaticAutomaton _from_arrays(dict arrays, vocab_size, fingerprint, path):
    cdef StaticAutomaton self = StaticAutomaton.__new__(StaticAutomaton)
    self.arrays = {name: arrays[name] for name in SECTIONS}
    self.vocab_size = vocab_size
    self.fingerprint = fingerprint
    self.path = path
    cdef Index* index = &self.index
    index.num_tokens = len(arrays["tokens"])
    index.num_documents = len(arrays["document_ends"])
    index.num_states = len(arrays["link"])
    index.num_edges = len(arrays["edge_token"])
    if (
        {len(arrays[name]) for name in ("link", "length", "count", "first", "latest")} != {index.num_states}
        or index.num_states < 1
        or len(arrays["edge_start"]) != index.num_states + 1
        or len(arrays["edge_target"]) != index.num_edges
    ):
        raise IndexFormatError(f"{path}: its sections do not fit each other: build the index again")
    index.tokens = _pointer(arrays["tokens"])
    index.document_ends = _pointer(arrays["document_ends"])
    index.link = _pointer(arrays["link"])
    index.length = _pointer(arrays["length"])
    index.count = _pointer(arrays["count"])
    index.first = _pointer(arrays["first"])
    index.latest = _pointer(arrays["latest"])
    index.edge_start = _pointer(arrays["edge_start"])
    index.edge_token = _pointer(arrays["edge_token"])
    index.edge_target = _pointer(arrays["edge_target"])
    return self


cdef class _Builder:
    """Grows an automaton document by document, then freezes it into flat arrays."""

    cdef Growing growing
    cdef list documents
    cdef int64_t size

    def __cinit__(self):
        growing_init(&self.growing, counted=True)
        self.documents = []
        self.size = 0

    def __dealloc__(self):
        growing_free(&self.growing)

    def add(self, const int32_t[::1] ids):
        self.growing.last = ROOT
        if ids.shape[0]:
            with nogil:
                growing_extend(&self.growing, &ids[0], ids.shape[0], self.size)
        self.documents.append(np.array(ids))  # a copy: the caller may reuse the buffer
        self.size += ids.shape[0]

    def freeze(self):
        """The arrays of the index; see static.pxd for what each holds."""
        cdef int64_t n = self.growing.num_states
        arrays = {
            "tokens": np.concatenate([np.empty(0, np.int32), *self.documents]),
            "document_ends": np.cumsum([len(d) for d in self.documents], dtype=np.int64).astype(np.int32),
            "link": np.empty(n, np.int32),
            "length": np.empty(n, np.int32),
            "count": np.empty(n, np.int32),
            "first": np.zeros(n, np.int32),
            "latest": np.zeros(n, np.int32),
        }
        cdef int32_t[::1] link = arrays["link"]
        cdef int32_t[::1] length = arrays["length"]
        cdef int64_t state
        for state in range(n):
            link[state] = self.growing.states[state].link
            length[state] = self.growing.states[state].length
        self._sum_along_links(np.argsort(arrays["length"], kind="stable").astype(np.int32))
        arrays["count"][:] = <int32_t[:n]>self.growing.occurrences
        self._freeze_edges(arrays)
        return arrays

    cdef _sum_along_links(self, const int32_t[::1] by_length):
        """Occurrences and last ends of a state are those of the states that link to it, and its own."""
        cdef Growing* g = &self.growing
        cdef int64_t i
        cdef int32_t state, link
        for i in range(by_length.shape[0] - 1, 0, -1):
            state = by_length[i]
            link = g.states[state].link
            g.occurrences[link] += g.occurrences[state]
            g.last_end[link] = max(g.last_end[link], g.last_end[state])

    cdef _freeze_edges(self, dict arrays):
        cdef Growing* g = &self.growing
        cdef int64_t n = g.num_states
        cdef int64_t total = 0
        cdef int64_t state
        for state in range(n):
            total += _stored_edges(g.states[state].degree)
        if total > 2147483647:
            raise ValueError("the corpus is too large for 32-bit edge ids: split it over several indexes")
        arrays["edge_start"] = np.empty(n + 1, np.int32)
        arrays["edge_token"] = np.empty(total, np.int32)
        arrays["edge_target"] = np.empty(total, np.int32)
        cdef int32_t[::1] start = arrays["edge_start"]
        cdef int32_t[::1] first = arrays["first"]
        cdef int32_t[::1] latest = arrays["latest"]
        cdef int64_t filled = 0
        for state in range(n):
            start[state] = <int32_t>filled
            filled = self._freeze_state(<int32_t>state, filled, arrays["edge_token"], arrays["edge_target"])
            self._continuations(
                start[state], g.states[state].degree, arrays["edge_target"], &first[state], &latest[state]
            )
        start[n] = <int32_t>filled

    cdef int64_t _freeze_state(self, int32_t state, int64_t at, int32_t[::1] token, int32_t[::1] target) except -1:
        """Write the edges of a state, the most frequent first, and a copy by token if they are many."""
        cdef int32_t degree = self.growing.states[state].degree
        cdef int64_t i
        cdef Edge* edges = <Edge*>malloc(max(degree, 1) * sizeof(Edge))
        if edges == NULL:
            raise MemoryError
        growing_edges(&self.growing, state, edges)
        if degree > LINEAR_LIMIT:
            order = sorted(range(degree), key=lambda i: edges[i].token)
            for i in range(degree):
                token[at + degree + i] = edges[<int64_t>order[i]].token
                target[at + degree + i] = edges[<int64_t>order[i]].target
            order.sort(key=lambda i: -self.growing.occurrences[edges[i].target])
            for i in range(degree):
                token[at + i] = edges[<int64_t>order[i]].token
                target[at + i] = edges[<int64_t>order[i]].target
        else:
            _sort_by_count(edges, degree, self.growing.occurrences)
            for i in range(degree):
                token[at + i] = edges[i].token
                target[at + i] = edges[i].target
        free(edges)
        return at + _stored_edges(degree)

    cdef int _continuations(
        self, int64_t at, int32_t degree, int32_t[::1] target, int32_t* first, int32_t* latest
    ) except -1:
        """Where the earliest and the last occurrence that have a continuation continue."""
        cdef Growing* g = &self.growing
        cdef int64_t i
        for i in range(at, at + degree):
            if i == at or g.states[target[i]].first_end < first[0]:
                first[0] = g.states[target[i]].first_end
            if i == at or g.last_end[target[i]] > latest[0]:
                latest[0] = g.last_end[target[i]]
        return 0


cdef inline int64_t _stored_edges(int32_t degree) noexcept nogil:
    return 2 * <int64_t>degree if degree > LINEAR_LIMIT else degree


cdef void _sort_by_count(Edge* edges, int32_t n, const int32_t* count) noexcept nogil:
    """Insertion sort: the most frequent first, ties by token."""
    cdef int32_t i, j
    cdef Edge edge
    for i in range(1, n):
        edge = edges[i]
        j = i
        while j > 0 and _before(&edge, &edges[j - 1], count):
            edges[j] = edges[j - 1]
            j -= 1
        edges[j] = edge


cdef inline bint _before(const Edge* a, const Edge* b, const int32_t* count) noexcept nogil:
    if count[a.target] != count[b.target]:
        return count[a.target] > count[b.target]
    return a.token < b.token


# --- reading the frozen index. Every id that comes out of an array is checked before it is used, since an index that
# was opened without `verify` may be damaged; -1 stands for "damaged".


cdef inline int32_t _degree(const Index* index, int32_t state, int32_t* start) noexcept nogil:
    """Number of edges of `state`, and where they start; -1 if damaged."""
    cdef int32_t begin = index.edge_start[state]
    cdef int32_t end = index.edge_start[state + 1]
    if begin < 0 or end < begin or end > index.num_edges:
        return -1
    start[0] = begin
    return (end - begin) // 2 if end - begin > LINEAR_LIMIT else end - begin


cdef inline int32_t _search(const Index* index, int32_t start, int32_t degree, int32_t token) noexcept nogil:
    """The edge of `token` among `degree` edges sorted by token from `start`, or -1."""
    cdef int32_t low = start
    cdef int32_t high = start + degree
    cdef int32_t middle
    while low < high:
        middle = low + (high - low) // 2
        if index.edge_token[middle] < token:
            low = middle + 1
        else:
            high = middle
    return low if low < start + degree and index.edge_token[low] == token else -1


cdef inline int _follow(const Index* index, int32_t state, int32_t token, int32_t* target) noexcept nogil:
    """1 and the target if `state` has an edge of `token`, 0 if not, -1 if damaged."""
    cdef int32_t start = 0
    cdef int32_t degree = _degree(index, state, &start)
    cdef int32_t edge = -1
    cdef int32_t i
    if degree > LINEAR_LIMIT:
        edge = _search(index, start + degree, degree, token)
    else:
        for i in range(start, start + degree):
            if index.edge_token[i] == token:
                edge = i
                break
    if edge < 0:
        return -1 if degree < 0 else 0
    target[0] = index.edge_target[edge]
    return 1 if 0 <= target[0] < index.num_states else -1


cdef inline int _shorten(const Index* index, int32_t* state, int32_t* length) noexcept nogil:
    """Follow the suffix link; -1 if damaged. Lengths must fall, so that no cycle can hold the caller."""
    cdef int32_t link = index.link[state[0]]
    if link < 0 or link >= index.num_states or index.length[link] >= index.length[state[0]] or index.length[link] < 0:
        return -1
    state[0] = link
    length[0] = index.length[link]
    return 0


cdef int _step(const Index* index, int32_t* state, int32_t* length, int32_t token) noexcept nogil:
    """Move to the longest suffix of (match + token) that is in the index and goes on there; -1 if damaged."""
    cdef int32_t target = 0
    cdef int32_t start = 0
    cdef int32_t degree
    cdef int found
    while True:
        found = _follow(index, state[0], token, &target)
        if found < 0:
            return -1
        if found:
            state[0] = target
            length[0] += 1
            break
        if state[0] == ROOT:
            return 0
        if _shorten(index, state, length) < 0:
            return -1
    while state[0] != ROOT:
        degree = _degree(index, state[0], &start)
        if degree < 0:
            return -1
        if degree > 0:
            break
        if _shorten(index, state, length) < 0:
            return -1
    return 0


cdef int32_t _document_end(const Index* index, int32_t position) noexcept nogil:
    """The end of the document that holds `position`; `position` itself if the index is damaged."""
    cdef int32_t low = 0
    cdef int32_t high = index.num_documents
    cdef int32_t middle
    while low < high:
        middle = low + (high - low) // 2
        if index.document_ends[middle] <= position:
            low = middle + 1
        else:
            high = middle
    if low == index.num_documents or index.document_ends[low] > index.num_tokens:
        return position
    return index.document_ends[low]


cdef int _offer(
    const Index* index, Candidate* heap, int32_t* size, int32_t* found, int32_t edge, int32_t last_edge, int32_t parent
) noexcept nogil:
    """Put the node behind `edge` on the heap; -1 if damaged."""
    cdef Candidate item
    cdef int32_t target = index.edge_target[edge]
    if target < 0 or target >= index.num_states:
        return -1
    item.count = index.count[target]
    item.order = found[0]
    item.token = index.edge_token[edge]
    item.target = target
    item.edge = edge
    item.last_edge = last_edge
    item.parent = parent
    candidate_push(heap, size[0], item)
    size[0] += 1
    found[0] += 1
    return 0


cdef int32_t _grow_tree(
    const Index* index, int32_t state, int32_t n, Candidate* heap, int32_t* tokens, int32_t* parents
) noexcept nogil:
    """Best-first: take the most frequent node known, then offer its next sibling and its first child."""
    cdef int32_t start = 0
    cdef int32_t size = 0
    cdef int32_t found = 0
    cdef int32_t node = 0
    cdef int32_t degree = _degree(index, state, &start)
    cdef Candidate best
    if degree < 0 or (degree and _offer(index, heap, &size, &found, start, start + degree, -1) < 0):
        return -1
    while size and node < n:
        best = candidate_pop(heap, size)
        size -= 1
        tokens[node] = best.token
        parents[node] = best.parent
        if best.edge + 1 < best.last_edge:
            if _offer(index, heap, &size, &found, best.edge + 1, best.last_edge, best.parent) < 0:
                return -1
        degree = _degree(index, best.target, &start)
        if degree < 0 or (degree and _offer(index, heap, &size, &found, start, start + degree, node) < 0):
            return -1
        node += 1
    return node


cdef int _raise_damaged() except -1 with gil:
    raise IndexFormatError("the index is damaged: open it with verify=True to see where, or build it again")


cdef class Cursor:
    """Walks a static index: holds the longest suffix of what it was told that goes on somewhere in the index.

    Thread-safety: one thread at a time; any number of cursors share one index.
    """

    def __cinit__(self, StaticAutomaton automaton not None):
        self.automaton = automaton
        self.state = ROOT
        self.length = 0

    def advance(self, tokens):
        """Tell the cursor the next token id, or a one-dimensional sequence of ids; amortised O(1) a token.

        An id that the index does not hold is simply no match. Raises as DynamicAutomaton.extend does.
        """
        cdef int32_t token
        cdef const int32_t[::1] ids
        if type(tokens) is int and 0 <= tokens <= MAX_TOKEN_ID:
            token = tokens
            self.step(&token, 1)
            return
        ids = as_ids(tokens)
        if ids.shape[0]:
            with nogil:
                self.step(&ids[0], ids.shape[0])

    cdef int step(self, const int32_t* tokens, int64_t n) except -1 nogil:
        cdef int64_t i
        for i in range(n):
            if _step(&self.automaton.index, &self.state, &self.length, tokens[i]) < 0:
                return _raise_damaged()
        return 0

    @property
    def match_length(self):
        """Length of the longest suffix of the tokens so far that has a continuation inside some document."""
        return self.length

    def draft(self, n, *, choice="first"):
        """What follows the match, as an int32 array of at most n tokens; it ends where the document ends.

        choice: "first" and "latest" copy from the earliest and the last occurrence that has a continuation;
        "frequent" takes the most frequent continuation, token by token.
        """
        cdef int64_t wanted = check_draft_size(n)
        if choice not in CHOICES:
            raise ValueError(f"choice={choice!r} is none of {', '.join(CHOICES)}")
        if choice == "frequent":
            return self._frequent(wanted)
        cdef Index* index = &self.automaton.index
        if self.length == 0 or wanted == 0:
            return np.empty(0, dtype=np.int32)
        cdef int32_t start = index.first[self.state] if choice == "first" else index.latest[self.state]
        drafted = np.empty(min(wanted, index.num_tokens), dtype=np.int32)
        cdef int32_t[::1] out = drafted
        return drafted[: self._copy(start, &out[0], out.shape[0])]

    cdef int32_t _copy(self, int32_t start, int32_t* out, int32_t n) except -1 nogil:
        """Copy at most n tokens from `start` to the end of its document; return how many."""
        cdef Index* index = &self.automaton.index
        if start < 0 or start >= index.num_tokens:
            return _raise_damaged()
        n = min(n, _document_end(index, start) - start)
        memcpy(out, index.tokens + start, n * sizeof(int32_t))
        return n

    cdef int32_t copy_first(self, int32_t* out, int32_t n) except -1 nogil:
        """As draft(n, choice="first"), into `out`."""
        if self.length == 0 or n == 0:
            return 0
        return self._copy(self.automaton.index.first[self.state], out, n)

    def _frequent(self, int64_t n):
        cdef Index* index = &self.automaton.index
        cdef int32_t state = self.state
        cdef int32_t start = 0
        cdef int32_t degree
        drafted = []
        while self.length and len(drafted) < n:
            degree = _degree(index, state, &start)
            if degree < 0:
                _raise_damaged()
            if degree == 0:
                break
            drafted.append(index.edge_token[start])
            state = index.edge_target[start]
            if state < 0 or state >= index.num_states:
                _raise_damaged()
        return np.array(drafted, dtype=np.int32)

    def draft_tree(self, n):
        """A Draft of the n most probable nodes under the match, by occurrence counts: best first, parents first."""
        cdef int32_t wanted = min(check_draft_size(n), MAX_TREE)
        if self.length == 0:
            wanted = 0
        tokens = np.empty(wanted, dtype=np.int32)
        parents = np.empty(wanted, dtype=np.int32)
        if wanted == 0:
            return Draft(tokens, parents, "static", self.length)
        cdef int32_t[::1] token = tokens
        cdef int32_t[::1] parent = parents
        cdef Candidate* heap = <Candidate*>malloc((<size_t>wanted + 2) * sizeof(Candidate))
        if heap == NULL:
            raise MemoryError
        cdef int32_t found
        with nogil:
            found = _grow_tree(&self.automaton.index, self.state, wanted, heap, &token[0], &parent[0])
            free(heap)
        if found < 0:
            _raise_damaged()
        return Draft(tokens[:found], parents[:found], "static", self.length)

    def reset(self):
        """Back to before any token."""
        self.state = ROOT
        self.length = 0

    def __reduce__(self):
        return _restore_cursor, (self.automaton, self.state, self.length)


def _restore_cursor(StaticAutomaton automaton, int32_t state, int32_t length):
    cdef Cursor cursor = automaton.cursor()
    if state < 0 or state >= automaton.index.num_states:
        raise IndexFormatError("the cursor belongs to another index")
    cursor.state = state
    cursor.length = length
    return cursor
