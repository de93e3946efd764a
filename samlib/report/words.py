"""The dynamic automaton over words instead of token ids: small examples for teaching and drawing."""

import pandas as pd

from samlib.automaton import DynamicAutomaton


class WordAutomaton:
    """The suffix automaton of a short text given as a list of words, a token a word.

    states      list of dicts: length, link, first_end, edges (word -> state); state 0 is the root
    path        the states of the text's prefixes, the empty one (the root) first
    end, match  the state of the whole text, and the one that its suffix link leads to (the root: no earlier match)
    """

    def __init__(self, words):
        self.words = list(words)
        vocabulary = list(dict.fromkeys(self.words))
        self.automaton = DynamicAutomaton()
        self.automaton.extend([vocabulary.index(word) for word in self.words])
        self.states = [_with_words(state, vocabulary) for state in self.automaton.states()]
        self.path = [0]
        for word in self.words:
            self.path.append(self.states[self.path[-1]]["edges"][word])
        self.end = self.path[-1]
        self.match = max(self.states[self.end]["link"], 0)

    @property
    def match_length(self):
        """Length of the longest suffix that also ends earlier, read off the suffix link of the end state."""
        return self.states[self.match]["length"]

    @property
    def earlier(self):
        """Positions of the words of that suffix's first occurrence, as a range."""
        end = self.states[self.match]["first_end"] + 1
        return range(end - self.match_length, end) if self.match_length else range(0)

    def draft(self):
        """The words that followed the first occurrence, to the end of the text."""
        return self.words[self.earlier.stop :] if self.match_length else []

    def longest_string(self, state):
        """The longest of the strings that a state stands for."""
        end = self.states[state]["first_end"] + 1
        return " ".join(self.words[end - self.states[state]["length"] : end])

    def table(self):
        """The automaton as a DataFrame, a row a state."""
        rows = [self._row(number, state) for number, state in enumerate(self.states)]
        return pd.DataFrame(rows).set_index("state")

    def _row(self, number, state):
        edges = ", ".join(f"{word} → {target}" for word, target in state["edges"].items())
        kind = "main path" if number in self.path else "clone"
        root = number == 0
        return {
            "state": number,
            "kind": "root" if root else kind,
            "longest string": self.longest_string(number),
            "length": state["length"],
            "suffix link": "" if root else state["link"],
            "min_endpos": "" if root else state["first_end"],
            "transitions": edges,
        }


def _with_words(state, vocabulary):
    return state | {"edges": {vocabulary[token]: target for token, target in state["edges"].items()}}
