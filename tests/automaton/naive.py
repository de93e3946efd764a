"""What the automata must answer, by brute force over all occurrences: slow, short, and free of suffix automata.

Both oracles reduce a question to its *remainders*: for each occurrence of the match, the tokens that follow it up to
the end of its text. Drafts, counts and draft trees are all read off that list.
"""

from collections import Counter
from itertools import combinations

import numpy as np


class NaiveDynamic:
    """The text generated so far, searched from scratch at every call."""

    def __init__(self, tokens=()):
        self.text = list(tokens)

    def extend(self, tokens):
        """Append a list of ids."""
        self.text.extend(tokens)

    @property
    def match_length(self):
        """Length of the longest suffix of the text that also ends at an earlier position (overlaps allowed)."""
        return max((self._common_suffix(end) for end in range(len(self.text))), default=0)

    def _common_suffix(self, end):
        """How many tokens before `end` agree with the last tokens of the text."""
        text, length = self.text, 0
        while length < end and text[end - 1 - length] == text[-1 - length]:
            length += 1
        return length

    def match_ends(self):
        """Ascending positions, before the end of the text, at which the match ends; empty without a match."""
        length = self.match_length
        return [end for end in range(len(self.text)) if length and self._common_suffix(end) >= length]

    def remainders(self):
        """What followed each earlier occurrence of the match."""
        return [tuple(self.text[end:]) for end in self.match_ends()]

    def draft(self, n, choice):
        """The copy after the earliest ("first") or most recent ("latest") occurrence.

        It is never shorter than n: past the known text it goes on with the tokens that it has drafted itself.
        """
        ends = self.match_ends()
        if not ends:
            return []
        known = self.text[ends[0 if choice == "first" else -1] :]
        return [known[i % len(known)] for i in range(n)]


class NaiveStatic:
    """Documents that never run into each other, searched from scratch for each query."""

    def __init__(self, documents):
        self.documents = [list(document) for document in documents]

    def occurrences(self, pattern):
        """(document, end) of each occurrence of `pattern` that has a continuation inside its document, in order."""
        size = len(pattern)
        return [
            (index, end)
            for index, document in enumerate(self.documents)
            for end in range(size, len(document))
            if document[end - size : end] == list(pattern)
        ]

    def match_length(self, query):
        """Length of the longest suffix of `query` that occurs with a continuation."""
        lengths = range(len(query), 0, -1)
        return next((size for size in lengths if self.occurrences(query[len(query) - size :])), 0)

    def remainders(self, query):
        """What follows each occurrence of the match, in document order; empty without a match."""
        size = self.match_length(query)
        found = self.occurrences(query[len(query) - size :]) if size else []
        return [tuple(self.documents[index][end:]) for index, end in found]

    def draft(self, query, n, choice):
        """The copy after the earliest ("first") or last ("latest") occurrence, cut at its document's end."""
        remainders = self.remainders(query)
        return list(remainders[0 if choice == "first" else -1][:n]) if remainders else []

    def num_states(self):
        """How many states an index must store: the root, and those from which it goes on in several ways.

        Strings that end at the same places share a state; the end of each document is a way of its own.
        """
        places = {}
        for index, document in enumerate(self.documents):
            for start, end in combinations(range(len(document) + 1), 2):
                places.setdefault(tuple(document[start:end]), set()).add((index, end))
        return 1 + len({frozenset(ends) for ends in places.values() if len(set(map(self._way_on, ends))) > 1})

    def _way_on(self, place):
        """The token at (document, position), or the end of that very document."""
        index, end = place
        return self.documents[index][end] if end < len(self.documents[index]) else ("end", index)


def prefix_counts(remainders):
    """The trie of continuations as a Counter: path (tuple of ids, not empty) -> number of occurrences."""
    return Counter(rest[:depth] for rest in remainders for depth in range(1, len(rest) + 1))


def check_frequent_draft(draft, remainders, n):
    """Each token of a "frequent" draft is among the most frequent continuations; it stops only where there is none."""
    counts = prefix_counts(rest[: n + 1] for rest in remainders)
    path = ()
    for token in draft:
        following = _children(counts, path)
        if not following:
            break  # past the known text: a dynamic draft may go on with its own tokens
        path += (token,)
        assert counts[path] == max(following.values()), f"{path} is not a most frequent continuation of {following}"
    assert len(draft) <= n
    assert len(draft) == n or not _children(counts, path)


def _children(counts, path):
    """The counts of the nodes right below `path`."""
    depth = len(path)
    return {key: value for key, value in counts.items() if len(key) == depth + 1 and key[:depth] == path}


def check_draft_tree(tokens, parents, remainders, n):
    """The tree holds the n best-supported nodes of the trie of continuations, best first, parents before children."""
    counts = prefix_counts(rest[:n] for rest in remainders)  # n nodes reach no deeper
    paths = tree_paths(tokens, parents)
    assert len(set(paths)) == len(paths), "two siblings carry the same token"
    assert all(path in counts for path in paths), "a path that never followed the match"
    chosen = [counts[path] for path in paths]
    assert chosen == sorted(counts.values(), reverse=True)[:n]


def tree_paths(tokens, parents):
    """Each node's path from the root, as a tuple of ids; fails unless parents precede their children."""
    assert len(tokens) == len(parents)
    paths = []
    for index, (token, parent) in enumerate(zip(tokens, parents, strict=True)):
        assert -1 <= parent < index, f"node {index} comes before its parent {parent}"
        paths.append((paths[parent] if parent >= 0 else ()) + (int(token),))
    return paths


def match_history(text):
    """(match length, earliest end, latest end) after each token of `text`; both ends are 0 without a match.

    Row by row: the common suffix of text[:n] and text[:end] is one longer than that of text[:n-1] and text[:end-1]
    where their last tokens agree. Quadratic, but vectorised: good for a few thousand tokens.
    """
    text = np.asarray(text)
    history, common = [], np.zeros(len(text) + 1, dtype=np.int64)
    for n in range(1, len(text) + 1):
        common[1:n] = np.where(text[: n - 1] == text[n - 1], common[: n - 1] + 1, 0)
        length = int(common[:n].max())
        ends = np.flatnonzero(common[:n] == length) if length else np.zeros(1, dtype=np.int64)
        history.append((length, int(ends[0]), int(ends[-1])))
        common[n] = 0
    return history
