"""Token Recycling: a tree of the tokens that were likely after each token when it was last verified.

Source: Luo et al. 2024 (arXiv 2408.08696), in the form of the SAM-Decoding paper: an adjacency matrix of the k = 8
likeliest successors of each token, and a static tree of 60 nodes, 7/20/21/8/4 by level, filled breadth-first.
"""

import numpy as np

from samlib.automaton import Draft
from samlib.drafters.protocol import Drafter

LEVELS = (7, 20, 21, 8, 4)
TREE_SIZE = 60
NUM_SUCCESSORS = 8
UNKNOWN = -1
# Assumed chance that the successor of rank r is the right one: 0.5 / (r + 1). It orders the nodes of the template.
TOP_CHANCE = 0.5


class TreeTemplate:
    """The shape of the draft tree: for each node, breadth-first, its parent, its rank among successors, its chance.

    levels: number of nodes at depth 1, 2, …; each level holds the likeliest children of the level above. size: keep
    only this many nodes, the likeliest. k: successors known per token.
    """

    def __init__(self, size=TREE_SIZE, k=NUM_SUCCESSORS, levels=LEVELS):
        nodes = _full_template(levels, k)
        likeliest = sorted(range(len(nodes)), key=lambda i: -nodes[i][2])[:size]
        keep = sorted(likeliest)
        renumbered = {UNKNOWN: UNKNOWN} | {old: new for new, old in enumerate(keep)}
        self.parents = np.array([renumbered[nodes[i][0]] for i in keep], dtype=np.int32)
        self.ranks = np.array([nodes[i][1] for i in keep], dtype=np.int32)
        self.chances = np.array([nodes[i][2] for i in keep])
        self.levels = _level_bounds(self.parents)


def _full_template(levels, k):
    """(parent, rank, chance) of every node, level by level, within a level the likeliest first."""
    nodes = []
    above = [(UNKNOWN, 1.0)]
    for count in levels:
        children = [(parent, r, chance * TOP_CHANCE / (r + 1)) for parent, chance in above for r in range(k)]
        children.sort(key=lambda node: -node[2])
        above = [(len(nodes) + i, node[2]) for i, node in enumerate(children[:count])]
        nodes += children[:count]
    return nodes


def _level_bounds(parents):
    """(first, end) of each level of a breadth-first parent array."""
    depths = Draft(parents, parents, "").depths
    ends = np.searchsorted(depths, np.arange(1, depths.max(initial=0) + 1), side="right").tolist()
    return list(zip([0, *ends[:-1]], ends, strict=True))


class TokenRecycling(Drafter):
    """Drafts a tree from the adjacency matrix, which persists from request to request until `reset()`."""

    def __init__(self, tree_size=TREE_SIZE, k=NUM_SUCCESSORS):
        if not 1 <= tree_size <= TREE_SIZE:
            raise ValueError(f"tree_size must lie in 1 … {TREE_SIZE}, not {tree_size}")
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}")
        self.top_k = k
        self.template = TreeTemplate(tree_size, k)
        self.reset()

    def reset(self):
        # Row by token; the last row is that of UNKNOWN (-1), and stays unknown.
        self._successors = np.full((1, self.top_k), UNKNOWN, dtype=np.int32)
        self._root = 0

    def begin(self, prompt):
        self._root = int(prompt[-1])

    def propose(self, room):
        template = self.template
        tokens = np.full(len(template.parents), UNKNOWN, dtype=np.int32)
        above = self._root if self._root < len(self._successors) else UNKNOWN
        for first, end in template.levels[:room]:
            if first:
                above = tokens[template.parents[first:end]]
            tokens[first:end] = self._successors[above, template.ranks[first:end]]
        known = tokens != UNKNOWN
        return Draft(tokens, template.parents, "token_recycling").kept(known) if known.any() else Draft.empty()

    def observe(self, emitted, verified=None):
        self._root = int(emitted[-1])
        if verified is not None:
            self._reserve(1 + max(int(verified.tokens.max()), int(verified.top.max())))
            self._successors[verified.tokens] = verified.top

    def _reserve(self, tokens):
        """Make room for rows 0 … tokens - 1, before the last; any id that the matrix holds then has its own row."""
        rows = len(self._successors)
        if tokens >= rows:
            new = np.full((max(tokens + 1, 2 * rows) - rows, self.top_k), UNKNOWN, dtype=np.int32)
            self._successors = np.concatenate([self._successors, new])
