"""The compact suffix automaton (CDAWG) under construction: the C core of the index builder.

Of the suffix automaton's states only those remain at which something happens: several continuations, or the end of a
document. All others lie inside an edge, whose label is a passage of the text. Nodes and edges live in flat arrays that
grow, addressed by integer ids, never by pointer.
"""

from libc.stdint cimport int32_t, int64_t

cdef enum:
    ROOT = 0
    NONE = -1
    LEAF = -1                   # target of an edge that runs to the end of its document

cdef struct Edge:
    int32_t token               # first token of the label; NONE marks a free slot of a hashed block
    int32_t target              # node at the end of the label, or LEAF
    int32_t start               # text position of the label's first token, in one of its occurrences
    int32_t length              # tokens of the label; of a LEAF edge, which may still grow: its document

cdef struct Node:
    int32_t length              # length of the longest string of the class
    int32_t link                # suffix link; NONE for the root
    int32_t degree              # number of outgoing edges …
    int32_t num_inner           # … of which so many lead to a node
    int32_t head                # where its block starts in `slots`; the block's size follows from the degree
    int32_t ending              # its Ending: NONE unless documents end in the class

cdef struct Ending:
    int32_t count               # number of documents whose text ends with the strings of the class
    int32_t first               # the earliest end among them: a position after a document's last token
    int32_t latest              # the last one

cdef struct Compact:
    Node* nodes
    int64_t num_nodes
    int64_t node_capacity
    Edge* slots                 # blocks of edges
    int64_t num_slots           # slots handed out so far
    int64_t slot_capacity
    int64_t free_blocks[40]     # per log2 size: the first free block, chained through Edge.start
    Ending* endings
    int64_t num_endings
    int64_t ending_capacity
    int32_t* text               # all documents, one after another
    int64_t size                # tokens in `text`
    int64_t text_capacity
    int32_t* document_ends      # per document: the position after its last token
    int64_t num_documents       # the open one included
    int64_t document_capacity
    int32_t base                # the longest suffix of the open document that stood somewhere before is: `base` …
    int32_t depth               # … and the last `depth` tokens of the text, which lie on …
    int64_t edge                # … this edge of it, if depth > 0
    int32_t one_token[32]       # the nodes of the tokens that come next, …
    int32_t two_tokens[32]      # … and of the pairs that end with them; only to load memory ahead

cdef int compact_init(Compact* self) except -1 nogil
cdef int compact_reserve(Compact* self, int64_t num_tokens) except -1 nogil
cdef void compact_free(Compact* self) noexcept nogil
cdef int make_room(void** array, int64_t* capacity, int64_t wanted, size_t item) except -1 nogil
cdef int compact_open(Compact* self) except -1 nogil
cdef int compact_extend(Compact* self, const int32_t* tokens, int64_t n) except -1 nogil
cdef int compact_close(Compact* self) except -1 nogil
cdef int64_t compact_nbytes(const Compact* self) noexcept nogil
cdef int64_t compact_block_size(int32_t degree) noexcept nogil
