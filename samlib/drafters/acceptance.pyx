# cython: cdivision=True
"""How probable is each token that may come next? A multinomial logit over what speaks for it, learnt online.

Each option (a token that some source proposes) has a utility, the sum of what each source says of it: by the length and
the number of occurrences of a match and the share of them that went on so, by the rank among what the target found
likely after the last tokens; a source that knows the situation but not the option speaks against it. The probability of
an option is its part in exp(utility), where "none of these" has a utility of zero. Sources that agree make each
other's options more probable than any makes its own, which a fixed preference among sources cannot.

After each emitted token the weights go one step of AdaGrad (Duchi et al. 2011) down the logarithmic loss. They begin at
a prior, fitted beforehand (see samlib.bench.fit_acceptance), which counts as `PRIOR_WORTH` of squared gradients, so
that a few requests of another kind do not overthrow it.
"""

from libc.math cimport exp, sqrt
from libc.stdint cimport int32_t
from libc.string cimport memset

import json
from pathlib import Path

import numpy as np

cdef enum:
    NUM_LENGTHS = 9             # classes of match lengths …
    NUM_COUNTS = 3              # … and of occurrences
    # Where each kind of weight begins:
    HIT = 0                                             # per match, length, count: it is one of the continuations
    SHARE = NUM_MATCHES * NUM_LENGTHS * NUM_COUNTS      # per match, length: times the logarithm of its share
    MISS = SHARE + NUM_MATCHES * NUM_LENGTHS            # per match, length: it is none of the continuations
    LATEST = MISS + NUM_MATCHES * NUM_LENGTHS           # per length of the longest match in the text
    ROW = LATEST + NUM_LENGTHS                          # per rank; the last one for no rank
    PAIR = ROW + NUM_RANKS + 1
    NUM_WEIGHTS = PAIR + NUM_RANKS + 1
    MOST_USED = 2 * NUM_MATCHES + 3

# name of a kind of weight -> its shape; in the order of their places
SHAPES = {
    "hit": (NUM_MATCHES, NUM_LENGTHS, NUM_COUNTS),
    "share": (NUM_MATCHES, NUM_LENGTHS),
    "miss": (NUM_MATCHES, NUM_LENGTHS),
    "latest": (NUM_LENGTHS,),
    "row": (NUM_RANKS + 1,),
    "pair": (NUM_RANKS + 1,),
}
LEARNING_RATE = 0.1
PRIOR_WORTH = 25.0
PRIOR_FILE = Path(__file__).with_name("acceptance_prior.json")


def load_prior():
    """The weights that samlib brings, {kind: array}."""
    parts = json.loads(PRIOR_FILE.read_text(encoding="utf-8"))
    return {name: np.array(parts[name]) for name in SHAPES}


cdef inline int32_t _length_class(int32_t length) noexcept nogil:
    """1, 2, 3, 4, 5-6, 7-9, 10-15, 16-31, 32 and more."""
    if length <= 4:
        return length - 1
    if length <= 6:
        return 4
    if length <= 9:
        return 5
    if length <= 15:
        return 6
    return 7 if length <= 31 else 8


cdef inline int32_t _count_class(int32_t count) noexcept nogil:
    """1, 2-3, 4 and more."""
    return 0 if count <= 1 else 1 if count <= 3 else 2


cdef int32_t _used(const Situation* situation, const Option* option, int32_t* places, double* values) noexcept nogil:
    """Which weights an option's utility is the sum of, and times what; returns how many."""
    cdef int32_t n = 0
    cdef int32_t match, length
    for match in range(NUM_MATCHES):
        if situation.length[match] == 0:
            continue
        length = match * NUM_LENGTHS + _length_class(situation.length[match])
        if option.share[match] > 0:
            places[n] = MISS + length
            values[n] = 1.0
            n += 1
            continue
        places[n] = HIT + length * NUM_COUNTS + _count_class(situation.count[match])
        values[n] = 1.0
        places[n + 1] = SHARE + length
        values[n + 1] = option.share[match]
        n += 2
    if option.latest:
        places[n] = LATEST + _length_class(situation.length[0])
        values[n] = 1.0
        n += 1
    if situation.has_row:
        places[n] = ROW + option.row
        values[n] = 1.0
        n += 1
    if situation.has_pair:
        places[n] = PAIR + option.pair
        values[n] = 1.0
        n += 1
    return n


cdef class Acceptance:
    """The model's weights, at first a prior's. Not thread-safe.

    prior: {kind: array}, of the shapes in SHAPES. rate: of learning, 0.0 for none. KeyError or ValueError for a prior
    of other kinds or shapes.
    """

    def __init__(self, prior, rate=LEARNING_RATE):
        parts = [np.asarray(prior[name], dtype=np.float64).reshape(shape) for name, shape in SHAPES.items()]
        self.prior = np.concatenate([part.ravel() for part in parts])
        self.rate = rate
        self.reset()

    def reset(self):
        """Back to the prior."""
        self.weights = self.prior.copy()
        self.squares = np.full(NUM_WEIGHTS, PRIOR_WORTH)

    def by_kind(self):
        """{kind: array}, a copy."""
        parts, start = {}, 0
        for name, shape in SHAPES.items():
            size = int(np.prod(shape))
            parts[name] = np.array(self.weights[start : start + size]).reshape(shape)
            start += size
        return parts

    cdef void judge(self, Situation* situation) noexcept nogil:
        """Set the options' probabilities."""
        cdef int32_t[MOST_USED] places
        cdef double[MOST_USED] values
        cdef double total = 1.0
        cdef double utility
        cdef int32_t i, j, n
        for i in range(situation.size):
            n = _used(situation, &situation.options[i], places, values)
            utility = 0.0
            for j in range(n):
                utility += self.weights[places[j]] * values[j]
            situation.options[i].probability = exp(max(-30.0, min(30.0, utility)))
            total += situation.options[i].probability
        for i in range(situation.size):
            situation.options[i].probability /= total

    cdef void learn(self, Situation* situation, int32_t token) noexcept nogil:
        """One step down the loss of a judged situation in which `token` came."""
        cdef int32_t[MOST_USED] places
        cdef double[MOST_USED] values
        cdef double[NUM_WEIGHTS] gradient
        cdef double error
        cdef int32_t i, j, n
        cdef Option* option
        memset(gradient, 0, sizeof(gradient))
        for i in range(situation.size):
            option = &situation.options[i]
            error = (1.0 if option.token == token else 0.0) - option.probability
            n = _used(situation, option, places, values)
            for j in range(n):
                gradient[places[j]] += error * values[j]
        for i in range(NUM_WEIGHTS):
            if gradient[i] != 0.0:
                self.squares[i] += gradient[i] * gradient[i]
                self.weights[i] += self.rate * gradient[i] / sqrt(self.squares[i])
