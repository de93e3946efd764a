from libc.stdint cimport int32_t

cdef enum:
    NUM_MATCHES = 6             # the sources that are matches: three in the text, three in the static index
    NUM_RANKS = 8               # of a row of likely successors
    MAX_OPTIONS = 40

cdef struct Option:             # a token that may come next, and what speaks for it
    int32_t token
    float share[NUM_MATCHES]    # per match: the logarithm of the share of it that went on so; > 0: it never did
    int32_t row                 # rank among what was likely after the last token; NUM_RANKS: it was not
    int32_t pair                # the same after the last two tokens
    bint latest                 # it followed the longest match when that occurred last
    double probability

cdef struct Situation:          # what is known about the next token
    int32_t length[NUM_MATCHES] # per match: its length in tokens, 0 where there is none
    int32_t count[NUM_MATCHES]  # … and how often it went on (in the index: how often it occurs)
    bint has_row
    bint has_pair
    int32_t size
    Option options[MAX_OPTIONS]

cdef class Acceptance:
    cdef object prior
    cdef double[::1] weights
    cdef double[::1] squares    # per weight: the sum of its squared gradients, and of the prior's worth of them
    cdef double rate

    cdef void judge(self, Situation* situation) noexcept nogil
    cdef void learn(self, Situation* situation, int32_t token) noexcept nogil
