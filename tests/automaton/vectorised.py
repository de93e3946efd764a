"""Oracles for texts of some thousand tokens: brute force over all positions at once, and no suffix automaton.

One number a text position is kept: how many tokens before it agree with the last tokens of the query. A new query token
makes it one more than at the position before, where the tokens agree, and 0 elsewhere: O(text) a query token.
"""

import heapq

import numpy as np

END = -1  # no token is negative


class Continuations:
    """The trie of what follows given places of a text, as sets of places: which of them a path runs through."""

    def __init__(self, text, places, ends):
        """`places` (int64 array, shape (occurrences,)): positions right after the match; `ends`: where theirs stop."""
        self.text, self.places, self.ends = text, places, ends

    def children(self, places, ends, depth):
        """{token: (places, ends)} of the nodes below the one that `places` run through with `depth` tokens."""
        inside = places + depth < ends
        places, ends = places[inside], ends[inside]
        following = self.text[places + depth]
        return {int(token): (places[following == token], ends[following == token]) for token in np.unique(following)}

    def best_counts(self, n):
        """The occurrence counts of the n best-supported nodes, best first."""
        counts, heap, order = [], [(0, 0, self.places, self.ends, 0)], 0
        while heap and len(counts) <= n:
            count, _, places, ends, depth = heapq.heappop(heap)
            counts.append(-count)
            for child in self.children(places, ends, depth).values():
                order += 1
                heapq.heappush(heap, (-len(child[0]), order, *child, depth + 1))
        return counts[1 : n + 1]  # without the root

    def count(self, path):
        """How many of the places a path (sequence of ids) follows."""
        places, ends = self.places, self.ends
        for depth, token in enumerate(path):
            inside = places + depth < ends
            places, ends = places[inside], ends[inside]
            agree = self.text[places + depth] == token
            places, ends = places[agree], ends[agree]
        return len(places)

    def frequent_counts(self, path):
        """Along a path: [(count of the token taken, highest count there), …] while any is known; how many follow it."""
        places, ends, counts = self.places, self.ends, []
        for depth, token in enumerate(path):
            children = self.children(places, ends, depth)
            if not children:
                break
            sizes = {child: len(found[0]) for child, found in children.items()}
            counts.append((sizes.get(int(token), 0), max(sizes.values())))
            if int(token) not in children:
                break
            places, ends = children[int(token)]
        return counts, len(self.children(places, ends, len(counts)))


class _Matches:
    """`common`: per position, how many of the newest tokens also stand right before it."""

    @property
    def match_length(self):
        """Length of the longest suffix that occurs with a continuation."""
        return int(self.common.max(initial=0))

    def places(self):
        """Ascending positions at which a token follows the match; none without a match."""
        length = self.match_length
        return np.flatnonzero(self.common == length) if length else np.empty(0, dtype=np.int64)


class VectorisedStatic(_Matches):
    """Documents that never run into each other, and a query that grows; answers as NaiveStatic does."""

    def __init__(self, documents):
        sizes = np.array([len(document) for document in documents], dtype=np.int64)
        self.text = np.concatenate([np.empty(0, np.int64), *[np.array(d, dtype=np.int64) for d in documents]])
        self.ends = np.repeat(np.cumsum(sizes), sizes)  # of the document that holds a position
        # `common[p]` belongs to the gap before position p; those at a document's start have nothing in front of them
        self.starts = np.cumsum(sizes[sizes > 0]) - sizes[sizes > 0]
        self.reset()

    def reset(self):
        """Back to the empty query."""
        self.common = np.zeros(len(self.text), dtype=np.int64)

    def advance(self, tokens):
        """Append a list of ids to the query."""
        for token in tokens:
            common = np.zeros_like(self.common)
            common[1:] = np.where(self.text[:-1] == token, self.common[:-1] + 1, 0)
            common[self.starts] = 0
            self.common = common

    def draft(self, n, choice):
        """The copy after the earliest ("first") or last ("latest") occurrence, cut at its document's end."""
        places = self.places()
        if not len(places):
            return []
        start = places[0 if choice == "first" else -1]
        return self.text[start : min(start + n, self.ends[start])].tolist()

    def continuations(self):
        """The trie of what follows the match."""
        places = self.places()
        return Continuations(self.text, places, self.ends[places])


class VectorisedDynamic(_Matches):
    """A text that is searched for its own end; answers as NaiveDynamic does."""

    def __init__(self, tokens=()):
        self.reset()
        self.extend(tokens)

    def reset(self):
        """Back to the empty text."""
        self.text = np.empty(0, dtype=np.int64)
        self.common = np.zeros(0, dtype=np.int64)

    def extend(self, tokens):
        """Append a list of ids."""
        known = len(self.text)
        self.text = np.concatenate([self.text, np.array(tokens, dtype=np.int64)])
        self.common = np.concatenate([self.common, np.zeros(len(tokens), dtype=np.int64)])
        for n in range(known, len(self.text)):
            self.common[1 : n + 1] = np.where(self.text[:n] == self.text[n], self.common[:n] + 1, 0)

    def draft(self, n, choice):
        """The copy after the earliest or most recent occurrence, which goes on over itself past the known text."""
        places = self.places()
        if not len(places):
            return []
        known = self.text[places[0 if choice == "first" else -1] :]
        return np.resize(known, n).tolist()

    def continuations(self):
        """The trie of what followed the match."""
        places = self.places()
        return Continuations(self.text, places, np.full(len(places), len(self.text)))
