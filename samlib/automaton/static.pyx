# cython: cdivision=True
"""The static suffix automaton: an immutable index over documents, and cursors that walk it.

Paper: Section 3.2 (static corpus). Generalised: documents never run into each other, so neither does a match or a
draft. The index is a set of flat arrays, in memory or mapped from a file: the compact suffix automaton of the documents.
"""

cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t

import numpy as np
from tqdm import tqdm

from samlib.automaton.arrays cimport address_of, ids_of, new_ids, small_int
from samlib.automaton.draft import Draft
from samlib.automaton.free_memory import available_memory
from samlib.automaton.freezing import Builder
from samlib.automaton.frontier cimport frontier_free, frontier_init, frontier_start, least_count
from samlib.automaton.frozen cimport (
    ANY_LENGTH,
    NO_MEMORY,
    NodeRecord,
    copy_document,
    document_end,
    place_advance,
    place_children,
    place_continuation,
    place_count,
    place_frequent,
    place_reset,
    place_restore,
    place_shorten,
    place_tree,
)
from samlib.automaton.ids import MAX_TOKEN_ID, as_ids, check_draft_size, check_limit, check_number
from samlib.automaton.index_file import read_index, write_index
from samlib.errors import FingerprintError, IndexFormatError

cnp.import_array()

MAX_TOKENS = 2**31 - 2      # text positions are 32-bit
BUILD_BYTES = 80            # a token of real text, at the peak of a build
FREEZE_BYTES = 25           # a token, of these, for the last part of it
RESERVED = 1 << 24          # tokens, where their number is not known beforehand
CHUNK = 1 << 20             # tokens between two looks at progress bar, memory and keyboard
MAX_TREE = 1 << 20
CHOICES = ("first", "latest", "frequent")
# name of an array -> its dimensions and the types that it may have
SECTIONS = {
    "text": (1, ("<u2", "<i4")), "document_ends": (1, ("<i4",)), "nodes": (2, ("<i4",)),
    "inner_token": (1, ("<u2", "<i4")), "inner_target": (1, ("<i4",)), "inner_length": (1, ("<u2", "<i4")),
    "leaf_token": (1, ("<u2", "<i4")), "leaf_start": (1, ("<i4",)), "special_first": (1, ("<i4",)),
    "special_latest": (1, ("<i4",)), "table_start": (1, ("<i4",)), "table": (1, ("<i4",)),
}


cdef class StaticAutomaton:
    """An immutable suffix automaton over documents of token ids, with occurrence counts.

    Made by `build` or `load`. On real text it takes 12 to 14 bytes a token, the text included, where all ids are below
    65,536, and some 4 more otherwise; building takes at most 60 (80) at its peak. On random text it is up to 60 and 200.

    Thread-safety: shared freely by threads; each has its own `cursor()`. Processes that `load` one file share its pages.
    """

    def __init__(self):
        raise TypeError("use StaticAutomaton.build(documents) or StaticAutomaton.load(path)")

    @staticmethod
    def build(documents, *, vocab_size=None, fingerprint=None, progress=False):
        """Index an iterable of documents, each a one-dimensional sequence of token ids. Time is linear in the tokens.

        vocab_size: ids must lie below it. fingerprint: a string that names the tokenizer. Both are stored, and checked
        by `load`. progress: show a bar.

        Raises TypeError for ids that are not integers, ValueError for ids out of range and for a corpus of more than
        2**31 - 2 tokens, MemoryError for one that would not fit: before it starts where the documents are a list or
        a tuple, else when memory runs short.
        """
        if fingerprint is not None and not isinstance(fingerprint, str):
            raise TypeError(f"fingerprint must be a string, not {type(fingerprint).__name__}")
        total = _total_tokens(documents)
        if total is not None:
            _check_room(total)
        builder = Builder()
        builder.reserve(RESERVED if total is None else total)
        with tqdm(total=total, desc="static automaton", unit="token", unit_scale=True, disable=not progress) as bar:
            for document in documents:
                if isinstance(document, int):
                    raise TypeError("documents must be an iterable of documents: wrap a single document in a list")
                _add_document(builder, _checked_ids(document, vocab_size), bar)
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
        FingerprintError where a given vocab_size or fingerprint differs from the file's. A mapped file must not be
        cut short by others while it is open (saving anew is safe: it replaces the file); where that may happen, use
        mmap=False: a mapped file that is cut off ends the process (SIGBUS).
        """
        arrays, header = read_index(path, mmap=mmap, verify=verify)
        for name, wanted in (("vocab_size", vocab_size), ("fingerprint", fingerprint)):
            if wanted is not None and header[name] != wanted:
                raise FingerprintError(
                    f"{path}: its {name} is {header[name]!r}, not {wanted!r}: build the index with this tokenizer"
                )
        return _from_arrays(arrays, header["vocab_size"], header["fingerprint"], str(path))

    def cursor(self, *, max_match_length=None):
        """A new cursor, before any token; its matches are at most `max_match_length` tokens long (None: no limit).

        Raises ValueError for a max_match_length below 1, TypeError for one that is not an integer.
        """
        return Cursor(self, max_match_length)

    def __len__(self):
        return self.index.num_tokens

    @property
    def num_documents(self):
        """Number of documents, empty ones included."""
        return self.index.num_documents

    @property
    def num_states(self):
        """Number of states that are stored, the root included: at most one a token, and one.

        Those from which several tokens follow, or at which a document ends; a state that has just one continuation
        lies inside an edge, and takes no memory.
        """
        return self.index.num_nodes

    @property
    def nbytes(self):
        """Bytes of all arrays, the text included."""
        return sum(array.nbytes for array in self.arrays.values())

    def _check_invariants(self):
        """Check the whole index against itself; raises AssertionError where it contradicts itself. For tests."""
        from samlib.automaton.invariants import check_index

        check_index(self.arrays)

    def __reduce__(self):
        if self.path is None:
            raise TypeError("this index is in memory only: save(path) it first; what is pickled is then its path")
        return _load_pickled, (self.path, self.vocab_size, self.fingerprint)


def _load_pickled(path, vocab_size, fingerprint):
    return StaticAutomaton.load(path, vocab_size=vocab_size, fingerprint=fingerprint)


def _total_tokens(documents):
    """Number of tokens of a list or tuple of sequences; None where that is not known beforehand."""
    if isinstance(documents, (list, tuple)) and all(hasattr(document, "__len__") for document in documents):
        return sum(map(len, documents))
    return None


def _check_room(int64_t num_tokens):
    """ValueError or MemoryError where a corpus of this size cannot be built."""
    if num_tokens > MAX_TOKENS:
        raise ValueError(f"{num_tokens:,} tokens are more than {MAX_TOKENS:,}: split the corpus over several indexes")
    free_bytes = available_memory()
    if free_bytes is not None and num_tokens * BUILD_BYTES > free_bytes:
        raise MemoryError(
            f"building an index of {num_tokens:,} tokens takes {num_tokens * BUILD_BYTES / 1e9:.1f} GB of memory, of "
            f"which {free_bytes / 1e9:.1f} GB are free: index fewer tokens, or split the corpus over several indexes"
        )


def _checked_ids(document, vocab_size):
    ids = as_ids(document)
    if vocab_size is not None and ids.size and int(ids.max()) >= vocab_size:
        raise ValueError(f"token id {int(ids.max())} is not below vocab_size={vocab_size}")
    return ids


def _add_document(builder, ids, bar):
    """Append a document in chunks."""
    builder.open()
    for start in range(0, len(ids), CHUNK):
        chunk = ids[start : start + CHUNK]
        after = builder.num_tokens + len(chunk)
        if after > MAX_TOKENS:
            raise ValueError(f"the corpus has more than {MAX_TOKENS:,} tokens: split it over several indexes")
        if after // CHUNK != builder.num_tokens // CHUNK:
            _check_growth(after)
        builder.extend(chunk)
        bar.update(len(chunk))
    builder.close()


def _check_growth(int64_t num_tokens):
    """MemoryError where neither another chunk nor the end of the build would fit."""
    free_bytes = available_memory()
    if free_bytes is not None and CHUNK * BUILD_BYTES + num_tokens * FREEZE_BYTES > free_bytes:
        raise MemoryError(
            f"memory runs short after {num_tokens:,} tokens ({free_bytes / 1e9:.1f} GB are free): index fewer tokens, "
            "or split the corpus over several indexes"
        )


cdef StaticAutomaton _from_arrays(dict arrays, vocab_size, fingerprint, path):
    """The automaton over these arrays; IndexFormatError where they do not fit each other."""
    _check_sections(arrays, path)
    cdef StaticAutomaton self = StaticAutomaton.__new__(StaticAutomaton)
    self.arrays = {name: arrays[name] for name in SECTIONS}
    self.vocab_size = vocab_size
    self.fingerprint = fingerprint
    self.path = path
    cdef Index* index = &self.index
    index.narrow = arrays["text"].itemsize == 2
    index.short_labels = arrays["inner_length"].itemsize == 2
    index.num_tokens = len(arrays["text"])
    index.num_documents = len(arrays["document_ends"])
    index.num_nodes = len(arrays["nodes"]) - 1
    index.num_inner = len(arrays["inner_target"])
    index.num_leaves = len(arrays["leaf_start"])
    index.num_special = len(arrays["special_first"])
    index.num_table = len(arrays["table"])
    index.text = address_of(arrays["text"])
    index.document_ends = <const int32_t*>address_of(arrays["document_ends"])
    index.nodes = <const NodeRecord*>address_of(arrays["nodes"])
    index.inner_token = address_of(arrays["inner_token"])
    index.inner_target = <const int32_t*>address_of(arrays["inner_target"])
    index.inner_length = address_of(arrays["inner_length"])
    index.leaf_token = address_of(arrays["leaf_token"])
    index.leaf_start = <const int32_t*>address_of(arrays["leaf_start"])
    index.special_first = <const int32_t*>address_of(arrays["special_first"])
    index.special_latest = <const int32_t*>address_of(arrays["special_latest"])
    index.table_start = <const int32_t*>address_of(arrays["table_start"])
    index.table = <const int32_t*>address_of(arrays["table"])
    return self


def _check_sections(arrays, path):
    """IndexFormatError unless the arrays are those of an index, and of sizes that fit each other."""
    size = {name: len(array) for name, array in arrays.items()}
    fits = set(arrays) == set(SECTIONS) and all(
        arrays[name].ndim == dimensions and arrays[name].dtype.str in types
        for name, (dimensions, types) in SECTIONS.items()
    )
    fits = fits and (
        arrays["nodes"].shape[1] * 4 == sizeof(NodeRecord)
        and 1 <= size["special_first"] < size["nodes"]
        and size["inner_token"] == size["inner_target"] == size["inner_length"]
        and size["leaf_token"] == size["leaf_start"]
        and size["special_first"] == size["special_latest"] == size["table_start"] - 1
        and size["text"] <= MAX_TOKEN_ID
    )
    if not fits:
        raise IndexFormatError(f"{path}: its sections do not fit each other: build the index again")
    widths = {arrays[name].itemsize for name in ("text", "inner_token", "leaf_token")}
    if len(widths) > 1:
        raise IndexFormatError(f"{path}: its sections do not fit each other: build the index again")


cdef int _raise_damaged() except -1 with gil:
    raise IndexFormatError("the index is damaged: open it with verify=True to see where, or build it again")


cdef int _raise_no_memory() except -1 with gil:
    raise MemoryError("the draft tree does not fit in memory: ask for fewer nodes")


cdef class Cursor:
    """Walks a static index: holds the longest suffix of what it was told that goes on somewhere in the index.

    max_match_length: suffixes of more tokens than that are not looked for; None for no limit.

    Thread-safety: one thread at a time; any number of cursors share one index.
    """

    def __cinit__(self, StaticAutomaton automaton not None, max_match_length=None):
        self.automaton = automaton
        self.max_length = ANY_LENGTH if max_match_length is None else check_limit("max_match_length", max_match_length)
        place_reset(&self.place)
        frontier_init(&self.frontier)

    def __dealloc__(self):
        frontier_free(&self.frontier)

    def advance(self, tokens):
        """Tell the cursor the next token id, or a one-dimensional sequence of ids; amortised O(1) a token.

        An id that the index does not hold is simply no match. Long sequences are read without the GIL. Raises
        TypeError and ValueError as DynamicAutomaton.extend does, IndexFormatError where the file turns out damaged.
        """
        cdef int64_t one = small_int(tokens)
        cdef int32_t token = <int32_t>one
        cdef cnp.ndarray ids
        cdef const int32_t* first
        cdef int64_t n
        if one >= 0:
            self.step(&token, 1)
            return
        ids = as_ids(tokens)
        first = ids_of(ids)
        n = cnp.PyArray_SIZE(ids)
        with nogil:
            self.step(first, n)

    cdef int step(self, const int32_t* tokens, int64_t n) except -1 nogil:
        cdef Place place = self.place
        if place_advance(&self.automaton.index, &place, tokens, n, self.max_length) < 0:
            return _raise_damaged()
        self.place = place
        return 0

    cdef int follow(self, Place* place, int32_t token) except -1 nogil:
        """Move a place as `advance(token)` moves the cursor; the cursor stays where it is."""
        return 0 if place_advance(&self.automaton.index, place, &token, 1, self.max_length) >= 0 else _raise_damaged()

    @property
    def match_length(self):
        """Length of the longest suffix of the tokens so far that has a continuation inside some document.

        At most `max_match_length`, where that was given.
        """
        return self.place.length

    def draft(self, n, *, choice="first"):
        """What follows the match, as an int32 array of at most n tokens; it ends where the document ends.

        choice: "first" and "latest" copy from the earliest and the last occurrence that has a continuation;
        "frequent" takes the most frequent continuation, token by token, the smaller id where two are equal.

        Raises ValueError for a negative n or an unknown choice, IndexFormatError where the file turns out damaged.
        """
        cdef Index* index = &self.automaton.index
        cdef int64_t wanted = small_int(n)
        cdef int64_t start, found
        cdef int64_t end = 0
        if wanted < 0:
            wanted = check_draft_size(n)
        if choice != "first" and choice not in CHOICES:
            raise ValueError(f"choice={choice!r} is none of {', '.join(CHOICES)}")
        if self.place.length == 0 or wanted == 0:
            return new_ids(0)
        if choice == "frequent":
            drafted = new_ids(min(wanted, index.num_tokens))
            found = place_frequent(index, &self.place, ids_of(drafted), min(wanted, index.num_tokens))
            if found < 0:
                _raise_damaged()
            return drafted[:found]
        start = self.continuation(choice == "latest", &end)
        drafted = new_ids(min(wanted, end - start))
        copy_document(index, start, ids_of(drafted), min(wanted, end - start))
        return drafted

    cdef int64_t continuation(self, bint latest, int64_t* end) except -1 nogil:
        """The position after the match's earliest or last occurrence that goes on, and the end of that document."""
        cdef int64_t start = place_continuation(&self.automaton.index, &self.place, latest)
        end[0] = document_end(&self.automaton.index, start)
        return start if end[0] >= 0 else _raise_damaged()

    cdef int64_t copy_first(self, int32_t* out, int64_t n) except -1 nogil:
        """As draft(n), into `out`; return how many tokens there were."""
        cdef int64_t start
        cdef int64_t end = 0
        if self.place.length == 0:
            return 0
        start = self.continuation(False, &end)
        return copy_document(&self.automaton.index, start, out, min(n, end - start))

    def draft_tree(self, n, *, max_depth=None, min_probability=0.0, return_probabilities=False):
        """A Draft of the n most probable nodes under the match, by occurrence counts: best first, parents first.

        A node's probability is the share of the match's occurrences, those at the ends of documents included, that go
        on along its path. max_depth: no node deeper than that; None for no limit. min_probability: none less probable.
        return_probabilities: return (draft, float64 array of shape (len(draft),), the nodes' probabilities).

        Raises ValueError for a negative n, a max_depth below 1 or a min_probability outside 0 … 1, TypeError for what
        is no number, IndexFormatError where the file turns out damaged.
        """
        cdef int32_t wanted = min(check_draft_size(n), MAX_TREE)
        cdef int32_t depth = check_limit("max_depth", max_depth)
        cdef double probability = check_number("min_probability", min_probability, 0, 1)
        cdef int32_t found = 0
        cdef int32_t of = 1
        cdef DraftNodes out
        if self.place.length == 0:
            wanted = 0
        tokens, parents, counts = new_ids(wanted), new_ids(wanted), new_ids(wanted)
        if wanted:
            out.tokens, out.parents, out.counts = ids_of(tokens), ids_of(parents), ids_of(counts)
            of = self.occurrences(&self.place)
            found = self.grow_tree(&self.place, wanted, depth, least_count(probability, of), &out)
        draft = Draft(tokens[:found], parents[:found], "static", self.place.length)
        return (draft, counts[:found] / np.float64(of)) if return_probabilities else draft

    cdef int shorten(self, Place* place) except -1 nogil:
        """Go on from a match (not the root) to the longest shorter one that stands somewhere else, too."""
        return 0 if place_shorten(&self.automaton.index, place) == 0 else _raise_damaged()

    cdef int32_t occurrences(self, const Place* place) except -1 nogil:
        """How often the match of a place (not the root) occurs, at the ends of documents, too."""
        cdef int32_t count = place_count(&self.automaton.index, place)
        return count if count > 0 else _raise_damaged()

    cdef int32_t children(self, const Place* place, int32_t most, int32_t* tokens, int32_t* counts) except -1 nogil:
        """Write what follows the match of a place, at most `most` (> 0) tokens, best first; return how many."""
        cdef int32_t found = place_children(&self.automaton.index, place, most, tokens, counts)
        return found if found >= 0 else _raise_damaged()

    cdef int32_t grow_tree(
        self, const Place* place, int32_t n, int32_t max_depth, int32_t least, DraftNodes* out
    ) except -1 nogil:
        """Write at most n (> 0) nodes of at least `least` occurrences to `out`; return how many there were."""
        cdef int32_t found
        frontier_start(&self.frontier, n, max_depth, least)
        found = place_tree(&self.automaton.index, place, &self.frontier, out)
        if found == NO_MEMORY:
            return _raise_no_memory()
        return found if found >= 0 else _raise_damaged()

    def reset(self):
        """Back to before any token."""
        place_reset(&self.place)

    def __reduce__(self):
        place = (self.place.node, self.place.edge, self.place.depth, self.place.length)
        return _restore_cursor, (self.automaton, *place, self.max_length)


def _restore_cursor(
    StaticAutomaton automaton, int32_t node, int32_t edge, int32_t depth, int32_t length, max_match_length=None
):
    cdef Cursor cursor = automaton.cursor(max_match_length=max_match_length)
    if place_restore(&automaton.index, &cursor.place, node, edge, depth, length) < 0:
        raise IndexFormatError("the cursor belongs to another index")
    return cursor
