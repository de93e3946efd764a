# cython: cdivision=True
# distutils: language = c++
"""sam_auto: at each step the draft tree with the most expected emitted tokens a second.

The project's own method, beyond the paper. Nothing is set by hand: how probable a token is follows from an acceptance
model learnt online (acceptance.pyx), and how many tokens are worth verifying from the measured cost T(n) of a forward.

At every place of the tree, the tokens that may come next are those that followed the longest match in the text and the
two next shorter ones, the same in the static index, and those that the target found likely after the last token and
after the last two (successors.pyx). The automata walk along with the tree, so that a branch that one source began goes
on by whatever the others know of it. The tree grows best-first by the probability of its paths, which are the chances
of its nodes to be accepted; of its sizes n the one is taken that maximises (1 + their sum) / T(n + 1).
"""

cimport numpy as cnp
from libc.math cimport exp, log
from libc.stdint cimport int32_t, int64_t
from libcpp.pair cimport pair
from libcpp.queue cimport priority_queue
from libcpp.vector cimport vector

import numpy as np

from samlib.automaton.arrays cimport ids_of, new_ids
from samlib.automaton.draft import Draft
from samlib.automaton.dynamic cimport DynamicAutomaton
from samlib.automaton.frozen cimport Place, place_reset
from samlib.automaton.online cimport NONE, ROOT, State, online_degree, online_target
from samlib.automaton.static cimport Cursor, StaticAutomaton
from samlib.drafters.acceptance cimport MAX_OPTIONS, NUM_MATCHES, NUM_RANKS, Acceptance, Option, Situation
from samlib.drafters.acceptance import LEARNING_RATE, load_prior
from samlib.drafters.protocol import Drafter
from samlib.drafters.successors cimport Successors

cnp.import_array()

cdef enum:
    LONGEST = 0                 # the matches, as acceptance.pyx numbers them: first those in the text, …
    STATIC = 3                  # … from here on in the static index
    MOST_CHILDREN = 8           # of a match are looked at
    MOST_EDGES = 32             # a match with more continuations than that says little
    UNKNOWN = -1

MAX_SIZE = 64                   # nodes of a tree
SOURCES = ("dynamic", "dynamic", "dynamic", "static", "static", "static")

cdef struct Context:            # where a place of the tree stands in all sources
    int32_t state               # of the longest match in the text, and …
    int32_t length              # … its length
    Place place                 # of the longest match in the static index
    int32_t token               # the last token, and …
    int32_t before              # … the one before it; UNKNOWN where there is none

cdef struct Candidate:
    int32_t token
    int32_t parent              # node of the tree, UNKNOWN for the root

ctypedef pair[double, int32_t] Ranked   # a candidate's probability, and its number


cdef class Foresight:
    """All sources over one request, and the acceptance model that weighs them. Not thread-safe."""

    cdef DynamicAutomaton dynamic
    cdef Cursor cursor                  # None without a static automaton
    cdef readonly Successors successors
    cdef readonly Acceptance acceptance
    cdef Context here                   # at the end of the text
    cdef Situation situation            # scratch
    cdef vector[Candidate] candidates

    def __init__(self, StaticAutomaton static, Acceptance acceptance):
        self.dynamic = DynamicAutomaton(occurrences=True)
        self.cursor = None if static is None else static.cursor()
        self.successors = Successors(NUM_RANKS)
        self.acceptance = acceptance
        self.begin()

    def begin(self):
        """Forget the text; what was learnt stays."""
        self.dynamic.reset()
        if self.cursor is not None:
            self.cursor.reset()
        self.here.token = self.here.before = UNKNOWN
        self.locate()

    @property
    def before(self):
        """The token before the last one, -1 where there is none."""
        return self.here.before

    # --- the text

    def extend(self, const int32_t[::1] tokens, bint learn):
        """Append tokens; with `learn` the acceptance model learns from each."""
        cdef int64_t i
        for i in range(tokens.shape[0]):
            if learn:
                self.look(&self.here)
                self.acceptance.judge(&self.situation)
                self.acceptance.learn(&self.situation, tokens[i])
            self.dynamic.append(&tokens[i], 1)
            if self.cursor is not None:
                self.cursor.step(&tokens[i], 1)
            self.here.before = self.here.token
            self.here.token = tokens[i]
            self.locate()

    cdef void locate(self) noexcept nogil:
        """`here`, from where automaton and cursor stand."""
        self.here.state = self.dynamic.match()
        self.here.length = self.dynamic.automaton.states[self.here.state].length
        if self.cursor is None:
            place_reset(&self.here.place)
        else:
            self.here.place = self.cursor.place

    cdef int follow(self, Context* at, int32_t token) except -1:
        """Move a context one token on, as if the text had gone on so."""
        cdef const State* states = self.dynamic.automaton.states
        cdef int32_t target = online_target(&self.dynamic.automaton, at.state, token)
        while target == NONE and at.state != ROOT:
            at.state = states[at.state].link
            at.length = states[at.state].length
            target = online_target(&self.dynamic.automaton, at.state, token)
        at.state = ROOT if target == NONE else target
        at.length = 0 if target == NONE else at.length + 1
        if self.cursor is not None:
            self.cursor.follow(&at.place, token)
        at.before = at.token
        at.token = token
        return 0

    # --- what may come next

    cdef int look(self, const Context* at) except -1:
        """Gather what all sources say of the next token at a context into `situation`."""
        cdef Situation* s = &self.situation
        cdef const State* states = self.dynamic.automaton.states
        cdef int32_t state = at.state
        cdef int32_t length = at.length
        cdef int32_t match
        s.size = 0
        for match in range(NUM_MATCHES):
            s.length[match] = 0
            s.count[match] = 0
        while state != ROOT and states[state].edges == NONE:
            state = states[state].link
            length = states[state].length
        for match in range(LONGEST, STATIC):
            if state == ROOT:
                break
            self.ask_dynamic(match, state, length)
            state = states[state].link
            length = states[state].length
        if self.cursor is not None and at.place.length:
            self.ask_static(&at.place)
        self.ask_successors(at)
        return 0

    cdef Option* option(self, int32_t token) noexcept nogil:
        """The option of this token, a new one if need be; NULL where there is no room for another."""
        cdef Situation* s = &self.situation
        cdef Option* option
        cdef int32_t i
        for i in range(s.size):
            if s.options[i].token == token:
                return &s.options[i]
        if s.size == MAX_OPTIONS:
            return NULL
        option = &s.options[s.size]
        s.size += 1
        option.token = token
        for i in range(NUM_MATCHES):
            option.share[i] = 1.0
        option.row = option.pair = NUM_RANKS
        option.latest = False
        return option

    cdef int ask_dynamic(self, int32_t match, int32_t state, int32_t length) except -1:
        """What followed a match in the text."""
        cdef int32_t[MOST_EDGES] tokens
        cdef int32_t[MOST_EDGES] counts
        cdef int32_t degree = online_degree(&self.dynamic.automaton, state)
        cdef int32_t last_end
        cdef Option* option
        if degree > MOST_EDGES:
            return 0
        self.dynamic.children(state, tokens, counts)
        self.offer(match, length, degree, tokens, counts)
        if match == LONGEST:
            last_end = self.dynamic.last_earlier_end(state)
            if last_end >= 0:
                option = self.option(self.dynamic.automaton.text[last_end + 1])
                if option != NULL:
                    option.latest = True
        return 0

    cdef int ask_static(self, const Place* longest) except -1:
        """What follows the longest match in the index, and the next shorter ones that occur more often."""
        cdef int32_t[MOST_CHILDREN] tokens
        cdef int32_t[MOST_CHILDREN] counts
        cdef Place place = longest[0]
        cdef int32_t count = 0
        cdef int32_t match, found
        for match in range(STATIC, NUM_MATCHES):
            while place.length and self.cursor.occurrences(&place) == count:
                self.cursor.shorten(&place)
            if place.length == 0:
                break
            count = self.cursor.occurrences(&place)
            found = self.cursor.children(&place, MOST_CHILDREN, tokens, counts)
            self.offer_of(match, place.length, count, found, tokens, counts)
        return 0

    cdef void offer(
        self, int32_t match, int32_t length, int32_t n, const int32_t* tokens, const int32_t* counts
    ) noexcept nogil:
        cdef int32_t total = 0
        cdef int32_t i
        for i in range(n):
            total += counts[i]
        self.offer_of(match, length, total, n, tokens, counts)

    cdef void offer_of(
        self, int32_t match, int32_t length, int32_t total, int32_t n, const int32_t* tokens, const int32_t* counts
    ) noexcept nogil:
        """The n tokens that followed a match of `length` tokens, which occurs `total` times."""
        cdef int32_t i
        cdef Option* option
        self.situation.length[match] = length
        self.situation.count[match] = total
        for i in range(n):
            option = self.option(tokens[i])
            if option != NULL:
                option.share[match] = log(<double>counts[i] / total)

    cdef void ask_successors(self, const Context* at) noexcept nogil:
        """What the target found likely after the last token, and after the last two."""
        cdef const int32_t* row = self.successors.of_token(at.token)
        cdef const int32_t* pair = self.successors.of_pair(at.before, at.token)
        cdef Option* option
        cdef int32_t rank
        self.situation.has_row = row != NULL
        self.situation.has_pair = pair != NULL
        for rank in range(NUM_RANKS):
            if pair != NULL and pair[rank] >= 0:
                option = self.option(pair[rank])
                if option != NULL:
                    option.pair = rank
            if row != NULL and row[rank] >= 0:
                option = self.option(row[rank])
                if option != NULL:
                    option.row = rank

    def options(self):
        """What may come next at the end of the text, as SamAuto.options."""
        self.look(&self.here)
        self.acceptance.judge(&self.situation)
        found = [self.described(&self.situation.options[i]) for i in range(self.situation.size)]
        return sorted(found, key=lambda option: -option["probability"])

    cdef described(self, const Option* option):
        cdef Situation* s = &self.situation
        cdef int32_t match
        matches = []
        for match in range(NUM_MATCHES):
            if s.length[match]:
                share = exp(option.share[match]) if option.share[match] <= 0 else 0.0
                matches.append((SOURCES[match], s.length[match], s.count[match], share))
        return {
            "token": option.token,
            "probability": option.probability,
            "matches": matches,
            "latest": option.latest,
            "rank": option.row if s.has_row and option.row < NUM_RANKS else None,
            "pair_rank": option.pair if s.has_pair and option.pair < NUM_RANKS else None,
        }

    # --- the tree

    def propose(self, int32_t room, const double[::1] cost):
        """The best tree of at most `room` levels, as a Draft.

        cost: of a forward over n tokens at n - 1, for n = 1 … its length: a tree has at most one node less.
        """
        cdef int32_t most = cost.shape[0] - 1
        cdef int32_t size = 0
        cdef int32_t best = 0
        cdef double gain = 1.0              # expected emitted tokens
        cdef double best_rate = 1.0 / cost[0]
        cdef priority_queue[Ranked] queue
        cdef vector[Context] contexts       # of the nodes
        cdef vector[int32_t] depths
        cdef Candidate taken
        cdef Context at
        cdef double probability
        cdef cnp.ndarray tokens = new_ids(most)
        cdef cnp.ndarray parents = new_ids(most)
        self.candidates.clear()
        self.offer_children(&self.here, UNKNOWN, 1.0, &queue)
        source, match_length = self.strongest()
        while not queue.empty() and can_gain(gain, queue.top().first, size, best_rate, cost):
            probability = queue.top().first
            taken = self.candidates[queue.top().second]
            queue.pop()
            ids_of(tokens)[size] = taken.token
            ids_of(parents)[size] = taken.parent
            depths.push_back(1 if taken.parent == UNKNOWN else depths[taken.parent] + 1)
            gain += probability
            size += 1
            if gain > best_rate * cost[size]:
                best_rate = gain / cost[size]
                best = size
            at = self.here if taken.parent == UNKNOWN else contexts[taken.parent]
            self.follow(&at, taken.token)
            contexts.push_back(at)
            if depths.back() < room:
                self.offer_children(&at, size - 1, probability, &queue)
        return Draft(tokens[:best], parents[:best], source, match_length) if best else Draft.empty()

    cdef int offer_children(
        self, const Context* at, int32_t parent, double probability, priority_queue[Ranked]* queue
    ) except -1:
        """Put what may come next at a node of the tree, accepted with this probability, into the queue."""
        cdef Candidate candidate
        cdef int32_t i
        self.look(at)
        self.acceptance.judge(&self.situation)
        candidate.parent = parent
        for i in range(self.situation.size):
            candidate.token = self.situation.options[i].token
            queue.push(Ranked(probability * self.situation.options[i].probability, <int32_t>self.candidates.size()))
            self.candidates.push_back(candidate)
        return 0

    cdef strongest(self):
        """(source, match length) of the likeliest option: the longest match that it continues, else the successors."""
        cdef Situation* s = &self.situation
        cdef Option* best = NULL
        cdef int32_t i
        for i in range(s.size):
            if best == NULL or s.options[i].probability > best.probability:
                best = &s.options[i]
        if best == NULL:
            return "none", 0
        lengths = [(s.length[i], SOURCES[i]) for i in range(NUM_MATCHES) if s.length[i] and best.share[i] <= 0]
        length, source = max(lengths, default=(0, "token_recycling"))
        return source, length


cdef bint can_gain(double gain, double probability, int32_t size, double best_rate, const double[::1] cost) noexcept:
    """Can a tree of more nodes do better than the best so far, if each further one is at most that probable?"""
    cdef int32_t n
    for n in range(size + 1, <int32_t>cost.shape[0]):
        if gain + (n - size) * probability > best_rate * cost[n]:
            return True
    return False


class SamAuto(Drafter):
    """Drafts the tree with the most expected emitted tokens a second, by all that is known.

    static: a StaticAutomaton, or None. draft_size: nodes of a tree at most, MAX_SIZE or less. cost: what says how long
    a forward takes, see Drafter; None to be given it by the decode loop. rate: of learning; 0.0 for none. prior: the
    acceptance model's first weights, {kind: array}; None for the ones that samlib brings.

    From request to request it keeps what it has learnt: the acceptance model, and the successors of tokens and pairs.
    A step takes time that depends on what is drafted, but not on the length of the text.
    """

    top_k = NUM_RANKS

    def __init__(self, static=None, draft_size=MAX_SIZE, cost=None, rate=LEARNING_RATE, prior=None):
        self.needs_cost, self.cost = cost is None, cost
        self._draft_size = draft_size
        acceptance = Acceptance(load_prior() if prior is None else prior, rate)
        self._foresight = Foresight(static, acceptance)

    def begin(self, prompt):
        if self.cost is None:
            raise ValueError("sam_auto weighs drafts by their cost: give it one, make_drafter('sam_auto', cost=…)")
        context = len(prompt)
        self._seconds = np.array([self.cost.seconds(1 + n, context) for n in range(self._draft_size + 1)])
        self._foresight.begin()
        self._foresight.extend(prompt, False)

    def propose(self, room):
        return self._foresight.propose(min(room, self._draft_size), self._seconds)

    def observe(self, emitted, verified=None):
        before = self._foresight.before
        self._foresight.extend(emitted, True)
        if verified is not None:
            self._foresight.successors.learn(before, verified)

    def reset(self):
        self._foresight.begin()
        self._foresight.successors.reset()
        self._foresight.acceptance.reset()

    def options(self):
        """What may come next, and why: a list of dicts, the likeliest first.

        token, probability; matches: of each match that goes on, (source, its length in tokens, how often it goes on or
        occurs, the share of these that went on so); latest: did it follow the longest match in the text last time?
        rank, pair_rank: its place among what the target found likely after the last token and the last two, or None.
        """
        return self._foresight.options()

    def learnt(self):
        """What the acceptance model has come to: {kind: array of weights}."""
        return self._foresight.acceptance.by_kind()
