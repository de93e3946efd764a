"""The frozen index in flat arrays, and places in it: what cursors are made of. INDEX_FORMAT.md describes the arrays."""

from libc.stdint cimport int32_t, int64_t

from samlib.automaton.frontier cimport DraftNodes, Frontier

cdef enum:
    ROOT = 0
    LEAF = -1                   # stands for the target of a leaf edge, which has none
    NOT_FOUND = -1
    DAMAGED = -2                # an id or a position in the arrays is out of range
    NO_MEMORY = -3
    SCAN_LIMIT = 32             # this many edges are scanned in order; more are searched
    ANY_LENGTH = 2147483647     # a match may be as long as it is

cdef struct NodeRecord:
    int32_t link                # suffix link, -1 for the root
    int32_t length              # length of the longest string of the class
    int32_t count               # number of occurrences
    int32_t first               # text position after the earliest occurrence
    int32_t latest              # text position after the last occurrence
    int32_t inner               # its first inner edge; the next node's is the end of them
    int32_t leaf                # its first leaf edge; the next node's is the end of them

cdef struct Index:
    bint narrow                 # token ids take 2 bytes instead of 4
    bint short_labels           # label lengths do
    int64_t num_tokens
    int64_t num_documents
    int64_t num_nodes
    int64_t num_inner
    int64_t num_leaves
    int64_t num_special         # nodes below are special: of many edges, or at the end of a document
    int64_t num_table
    const void* text            # the documents, one after another
    const int32_t* document_ends    # per document: the position after its last token
    const NodeRecord* nodes     # one more than there are nodes
    const void* inner_token     # first token of the label; edges of a node: the most frequent first, ties by token
    const int32_t* inner_target
    const void* inner_length    # tokens of the label
    const void* leaf_token      # first token of the label; edges of a node by token
    const int32_t* leaf_start   # text position of the label, which ends with its document
    const int32_t* special_first    # per special node: the position after its earliest occurrence that goes on
    const int32_t* special_latest   # … and after the last one
    const int32_t* table_start  # per special node: where its hash table starts in `table`; one more than special nodes
    const int32_t* table        # token -> which inner edge of the node; -1 is a free slot

cdef struct Place:
    int32_t node                # the place is `depth` tokens below this node, …
    int32_t edge                # … on this edge of it (inner edges are counted before leaf edges), if depth > 0
    int32_t depth
    int32_t length              # tokens of the match
    int32_t target              # node at the end of the edge, or LEAF
    int64_t position            # text position of the label's next token, in its earliest occurrence
    int64_t end                 # text position after the label

cdef void place_reset(Place* place) noexcept nogil
cdef int place_restore(const Index* index, Place* place, int32_t node, int32_t edge, int32_t depth, int32_t length
                       ) noexcept nogil
cdef int place_advance(const Index* index, Place* place, const int32_t* tokens, int64_t n, int32_t max_length
                       ) noexcept nogil
cdef int place_shorten(const Index* index, Place* place) noexcept nogil
cdef int32_t place_count(const Index* index, const Place* place) noexcept nogil
cdef int32_t place_children(const Index* index, const Place* place, int32_t most, int32_t* tokens, int32_t* counts
                            ) noexcept nogil
cdef int64_t place_continuation(const Index* index, const Place* place, bint latest) noexcept nogil
cdef int64_t copy_document(const Index* index, int64_t position, int32_t* out, int64_t n) noexcept nogil
cdef int64_t document_end(const Index* index, int64_t position) noexcept nogil
cdef int64_t place_frequent(const Index* index, const Place* place, int32_t* out, int64_t n) noexcept nogil
cdef int32_t place_tree(const Index* index, const Place* place, Frontier* frontier, DraftNodes* out) noexcept nogil
