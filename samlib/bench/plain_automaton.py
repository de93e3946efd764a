"""The suffix automaton in plain Python, to be read: nothing is packed, nothing is fast.

The same algorithm as the compiled automata, with a dict of transitions a state: what the library is measured against.
"""


class PlainAutomaton:
    """The suffix automaton of a text that grows by one token at a time. Not safe for use by several threads at once.

    A state stands for passages that end at the same positions. By state: `edges` (token -> state), `link` (the state
    of the longest suffix that ends elsewhere, too), `length` (of its longest passage), `first_end` (min_endpos),
    `ends` (how often the whole text so far stood in it).
    """

    def __init__(self):
        self.text = []
        self.edges, self.link, self.length, self.first_end, self.ends = [{}], [-1], [0], [-1], [0]
        self.last = 0  # the state of the whole text

    def begin_document(self):
        """What follows has nothing to do with what was before: no passage runs from one document into the next."""
        self.last = 0

    def extend(self, token):
        """Append one token; O(1) amortised."""
        self.text.append(token)
        if token in self.edges[self.last]:  # an earlier document has gone this way
            self.last = self._split_off(self.last, token)
        else:
            self.last = self._append(token)
        self.ends[self.last] += 1

    def _append(self, token):
        """A state for the whole text and `token`; every suffix of the text leads to it that led nowhere before."""
        new = self._add_state({}, 0, self.length[self.last] + 1, len(self.text) - 1)
        state = self.last
        while state >= 0 and token not in self.edges[state]:
            self.edges[state][token] = new
            state = self.link[state]
        if state >= 0:
            self.link[new] = self._split_off(state, token)
        return new

    def _split_off(self, state, token):
        """The state of `state`'s longest passage followed by `token`: the target of that edge, or a clone of it."""
        target, length = self.edges[state][token], self.length[state] + 1
        if self.length[target] == length:
            return target
        clone = self._add_state(dict(self.edges[target]), self.link[target], length, self.first_end[target])
        self.link[target] = clone
        while state >= 0 and self.edges[state].get(token) == target:
            self.edges[state][token] = clone
            state = self.link[state]
        return clone

    def _add_state(self, edges, link, length, first_end):
        self.edges.append(edges)
        self.link.append(link)
        self.length.append(length)
        self.first_end.append(first_end)
        self.ends.append(0)
        return len(self.edges) - 1

    @property
    def match_length(self):
        """Length of the longest suffix of the text that also ends earlier."""
        return self.length[max(self.link[self.last], 0)]

    def draft(self, n):
        """At most n tokens (a list): what followed the earliest occurrence of that suffix."""
        start = self.first_end[max(self.link[self.last], 0)] + 1
        return self.text[start : start + n] if self.match_length else []

    def advance(self, state, size, token):
        """Follow another text by one token: from its longest match (state, length) to the next one."""
        while state > 0 and token not in self.edges[state]:
            state = self.link[state]
            size = self.length[state]
        return (self.edges[state][token], size + 1) if token in self.edges[state] else (0, 0)

    def occurrences(self):
        """How often each state's passages occur, by state: counts run down the suffix links, the longest first."""
        counts = list(self.ends)
        for state in sorted(range(1, len(counts)), key=self.length.__getitem__, reverse=True):
            counts[self.link[state]] += counts[state]
        return counts

    def ranked(self, counts):
        """By state, the tokens that follow, the most frequent first: what a finished index keeps."""
        return [sorted(edges, key=lambda token: (-counts[edges[token]], token)) for edges in self.edges]
