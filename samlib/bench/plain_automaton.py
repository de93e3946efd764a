"""The suffix automaton in plain Python, to be read: nothing is packed, nothing is fast.

The same algorithm as the compiled automata, with a dict of transitions a state: what the library is measured against.
"""


class PlainAutomaton:
    """The suffix automaton of a text that grows by one token at a time. Not safe for use by several threads at once.

    A state stands for passages that end at the same positions. By state: `edges` (token -> state), `link` (the state
    of the longest suffix that ends elsewhere, too), `length` (of its longest passage), `first_end` (min_endpos).
    """

    def __init__(self):
        self.text = []
        self.edges, self.link, self.length, self.first_end = [{}], [-1], [0], [-1]
        self.last = 0  # the state of the whole text

    def extend(self, token):
        """Append one token; O(1) amortised."""
        new = self._add_state({}, 0, self.length[self.last] + 1, len(self.text))
        self.text.append(token)
        state = self.last
        while state >= 0 and token not in self.edges[state]:
            self.edges[state][token] = new
            state = self.link[state]
        if state >= 0:
            self.link[new] = self._split_off(state, token)
        self.last = new

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
        """How often each state's passages occur, by state: counts run down the suffix links from the main path."""
        counts = [int(size == end + 1) for size, end in zip(self.length, self.first_end, strict=True)]
        for state in sorted(range(1, len(counts)), key=self.length.__getitem__, reverse=True):
            counts[self.link[state]] += counts[state]
        return counts
