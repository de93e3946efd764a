"""Prompt lookup decoding (PLD): copy what followed the last n-gram earlier in the context.

Source: Saxena 2023, in the form of Spec-Bench: n-grams of 3 tokens, then 2, then 1; the earliest occurrence that is
followed by a full draft. Where none is, nothing is drafted (Spec-Bench drafts a made-up token there).
"""

import numpy as np

from samlib.automaton import Draft
from samlib.drafters.protocol import Drafter


class PromptLookup(Drafter):
    """Drafts `draft_size` tokens after the earliest occurrence of the longest n-gram; scans the context each step."""

    def __init__(self, draft_size=10, max_ngram=3):
        self.draft_size = draft_size
        self.max_ngram = max_ngram
        self._context = np.empty(1024, dtype=np.int32)
        self._size = 0

    def begin(self, prompt):
        self._size = 0
        self.observe(prompt)

    def observe(self, emitted, verified=None):
        end = self._size + len(emitted)
        if end > len(self._context):
            self._context = np.resize(self._context, 2 * end)
        self._context[self._size : end] = emitted
        self._size = end

    def propose(self, room):
        context = self._context[: self._size]
        for n in range(self.max_ngram, 0, -1):
            start = find_ngram(context, n, self.draft_size)
            if start is not None:
                return Draft.chain(context[start : start + min(self.draft_size, room)].copy(), "pld", n)
        return Draft.empty()


def find_ngram(context, n, follow):
    """Where the earliest earlier occurrence of the last n tokens ends that `follow` more tokens follow; None if none.

    context: int32 array of shape (size,). O(n * size), vectorised.
    """
    candidates = len(context) - n - follow + 1
    if candidates <= 0:
        return None
    hits = context[:candidates] == context[-n]
    for i in range(1, n):
        hits &= context[i : candidates + i] == context[i - n]
    first = int(hits.argmax())
    return first + n if hits[first] else None
