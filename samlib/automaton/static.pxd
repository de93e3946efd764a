from libc.stdint cimport int32_t, int64_t

cdef enum:
    LINEAR_LIMIT = 32           # states of more edges keep a second copy of them, sorted by token, for binary search

cdef struct Index:
    const int32_t* tokens       # the documents, one after another
    const int32_t* document_ends    # per document: the position after its last token
    const int32_t* link         # per state: suffix link, -1 for the root
    const int32_t* length       # per state: length of the longest string of the class
    const int32_t* count        # per state: number of occurrences
    const int32_t* first        # per state: where its earliest occurrence with a continuation continues
    const int32_t* latest       # per state: where its last occurrence with a continuation continues
    const int32_t* edge_start   # per state: its first edge; one more entry than states
    const int32_t* edge_token   # edges of a state, the most frequent first
    const int32_t* edge_target
    int32_t num_tokens
    int32_t num_documents
    int32_t num_states
    int32_t num_edges

cdef class StaticAutomaton:
    cdef Index index
    cdef dict arrays            # owns what `index` points into
    cdef object views
    cdef readonly object vocab_size
    cdef readonly object fingerprint
    cdef readonly object path

cdef class Cursor:
    cdef readonly StaticAutomaton automaton
    cdef int32_t state
    cdef int32_t length

    cdef int step(self, const int32_t* tokens, int64_t n) except -1 nogil
    cdef int32_t _copy(self, int32_t start, int32_t* out, int32_t n) except -1 nogil
    cdef int32_t copy_first(self, int32_t* out, int32_t n) except -1 nogil
