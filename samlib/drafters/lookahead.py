"""Lookahead decoding: n-grams from parallel Jacobi trajectories, collected and verified in the same forward.

Source: Fu et al. 2024 (arXiv 2402.02057), at the settings of the SAM-Decoding paper's comparison (by way of
Spec-Bench): window 7, n-grams of 5 tokens, 7 guesses.

A *window* of W columns guesses what stands at the root, 1, 2, … W - 1 tokens ahead. Column i has N - 1 levels, once
they are filled: each is the target's own continuation of the level below, found one step later (a Jacobi iteration).
Level 0 is the root, which is known, and a chain from it, and each column grows out of its token of that chain. So the
whole lookahead branch is a tree below the root, and the mask of trees is the mask that it needs. What the target says
after a column's top level completes an n-gram, which goes into the pool; pooled n-grams that begin with the root's
token are a step's guesses, in the same tree. Where a step emits several tokens, the columns stay where they are, as in
the authors' program by default: they then stand for later places, which costs them some truth, but their n-grams
remain what the target itself would write. (Dropping the columns that were passed, and beginning new ones at random,
was measured to be no better.)

Whatever of the tree greedy decoding would have emitted is accepted, the window's tokens too, where the authors accept
guesses only: the output is greedy's. The pool is not filled from the prompt, an option of theirs that Spec-Bench leaves
out: that would be prompt lookup.
"""

import numpy as np

from samlib.automaton import Draft
from samlib.drafters.protocol import Drafter

WINDOW, NGRAM, GUESSES = 7, 5, 7
SEED = 0  # of the guesses that nothing is known about: tokens of the text at random, the same in every run


class Lookahead(Drafter):
    """Drafts guesses from the pool, and the window that fills it. Window and pool begin anew with each request.

    window: columns (W). ngram: tokens of an n-gram (N), with the first one, by which it is looked up. guesses: n-grams
    kept for each first token, the latest ones, which are all verified (G). A draft has fewer than (W + G) * (N - 1)
    tokens (in the first N - 2 steps, which fill the window, fewer than (W + N - 1)**2 / 4 where that is more). The pool
    grows by W n-grams a step at most, to G for each token of the vocabulary.
    """

    top_k = 1

    def __init__(self, window=WINDOW, ngram=NGRAM, guesses=GUESSES):
        if ngram < 2:
            raise ValueError(f"ngram must be at least 2, not {ngram}")
        self.window, self.ngram, self.guesses = window, ngram, guesses

    def begin(self, prompt):
        self._root = int(prompt[-1])
        self._pool = {}
        # Nothing is known yet: tokens of the prompt. While levels are added, the window loses a column a step.
        guessed = self.window + self.ngram - 3
        self._levels = [np.random.default_rng(SEED).choice(prompt, size=guessed).tolist()]
        self._cells = None

    def propose(self, room):
        tree = Tree()
        for guess in reversed(self._pool.get(self._root, ())):
            tree.insert(guess[:room])
        self._cells = self._plant(tree) if room >= len(self._levels[0]) + len(self._levels) - 1 else None
        return tree.draft("lookahead")

    def observe(self, emitted, verified=None):
        root, self._root = self._root, int(emitted[-1])
        cells, self._cells = self._cells, None  # a step that nothing was proposed for leaves the window where it is
        if verified is not None and cells is not None:
            self._advance(root, verified.top[np.add(cells, 1), 0].tolist())

    def _plant(self, tree):
        """Add the window to the tree; return the nodes of its top level."""
        cells = [-1]
        for token in self._levels[0]:
            cells.append(tree.child(cells[-1], token))
        for level in self._levels[1:]:
            cells = [tree.child(cell, token) for cell, token in zip(cells, level, strict=True)]
        return cells

    def _advance(self, root, said):
        """One Jacobi iteration: what the target said is the new top level; every level moves one token on."""
        levels = [*self._levels, said]
        if len(levels) < self.ngram:
            self._levels = [level[1:] for level in levels]
            return
        for first, *rest in zip([root, *levels[0]], *levels[1:], strict=True):
            self._remember(first, tuple(rest))
        self._levels = [levels[1][1:], *levels[2:]]

    def _remember(self, first, rest):
        known = self._pool.setdefault(first, [])
        if rest in known:
            known.remove(rest)
        known.append(rest)
        del known[: -self.guesses]


class Tree:
    """A draft under construction in which no two siblings carry the same token."""

    def __init__(self):
        self._children = {}
        self._tokens, self._parents = [], []

    def child(self, parent, token):
        """The node of `token` below `parent` (-1: the root), added where it is new."""
        node = self._children.get((parent, token))
        if node is None:
            node = self._children[parent, token] = len(self._tokens)
            self._tokens.append(token)
            self._parents.append(parent)
        return node

    def insert(self, tokens):
        """Add a path from the root."""
        node = -1
        for token in tokens:
            node = self.child(node, token)

    def draft(self, source):
        """The tree so far as a Draft."""
        if not self._tokens:
            return Draft.empty()
        return Draft(np.array(self._tokens, dtype=np.int32), np.array(self._parents, dtype=np.int32), source)
