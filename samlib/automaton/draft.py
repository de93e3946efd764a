"""A draft: the tokens that a drafter proposes for verification, as a chain or a tree."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """Proposed tokens below the root (the last emitted token, which is not part of the draft).

    tokens: int32 array of shape (n,). parents: int32 array of shape (n,); parents[i] < i is the index of the token
    before token i, or -1 for the root. source: who proposed it ("dynamic", "static", "token_recycling", … or "none").
    match_length: length of the match behind it, 0 where there is none.
    """

    tokens: np.ndarray
    parents: np.ndarray
    source: str
    match_length: int = 0

    @classmethod
    def chain(cls, tokens, source, match_length=0):
        """A draft without branches: each token follows the one before."""
        tokens = np.asarray(tokens, dtype=np.int32)
        return cls(tokens, np.arange(-1, len(tokens) - 1, dtype=np.int32), source, match_length)

    @classmethod
    def empty(cls):
        """No proposal: the step is then one of plain decoding."""
        return _EMPTY

    def __len__(self):
        return len(self.tokens)

    @property
    def is_chain(self):
        """True if no token has a sibling and each follows the one before."""
        n = len(self.tokens)
        return n < 2 or bool((self.parents == np.arange(-1, n - 1)).all())

    @property
    def depths(self):
        """int32 array of shape (n,): 1 for a child of the root, and so on."""
        depths = [0]  # the root's, at which a parent of -1 looks once it is shifted by one
        for parent in self.parents.tolist():
            depths.append(depths[parent + 1] + 1)
        return np.array(depths[1:], dtype=np.int32)

    def clipped(self, depth):
        """The draft without tokens deeper than `depth`."""
        if len(self) <= depth:
            return self
        if self.is_chain:
            return Draft.chain(self.tokens[:depth], self.source, self.match_length)
        return self.kept(self.depths <= depth)

    def kept(self, keep):
        """The draft with only the nodes where `keep` (bool, shape (n,)) is true; a kept node's parent must be."""
        if keep.all():
            return self
        renumbered = np.cumsum(keep, dtype=np.int32) - 1
        parents = self.parents[keep]
        parents = np.where(parents < 0, -1, renumbered[parents]).astype(np.int32)
        return Draft(self.tokens[keep], parents, self.source, self.match_length)


_EMPTY = Draft.chain(np.empty(0, dtype=np.int32), "none")
