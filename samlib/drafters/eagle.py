"""EAGLE and EAGLE-2: trees drafted by a one-layer head that continues the target's hidden states.

Sources: Li et al. 2024 (arXiv 2401.15077, a static tree) and 2024 (arXiv 2406.16858, a tree of the likeliest nodes).
"""

import weakref

import numpy as np
import torch

from samlib.automaton import Draft
from samlib.automaton.ids import as_ids
from samlib.drafters.eagle_checkpoint import frequent_ids, head_folder, load_head
from samlib.drafters.eagle_head import HeadCache, LanguageHead
from samlib.drafters.protocol import Drafter
from samlib.drafters.token_recycling import TOP_CHANCE

#: EAGLE's static tree, the published `mc_sim_7b_63`: each node by its path from the root, a digit the rank of a token
#: among the likeliest ones at its place. 25 nodes, 4/8/8/3/2 by level.
EAGLE_TREE = (
    "0 1 2 3",
    "00 01 02 10 11 20 21 30",
    "000 001 002 010 011 020 021 100",
    "0000 0001 0002",
    "00000 00001",
)
TREE_SIZE = 25
TREE_SIZE_2 = 59
DEPTH = 6  # levels: the authors' program counts five, those below the first
TOP_K = 10


class HeadDrafter(Drafter):
    """What the two share: the head, its cache over the accepted tokens, and the tree's forwards, one a level.

    model: the target. head: the folder of its EAGLE head; None for the shipped one. vocabulary: the ids that are
    drafted, or how many of the most frequent ones of those that the head's own file ranks; None for all. The cache
    holds one entry for each known token but the first, made of the target's own hidden states; what drafting adds is
    forgotten at once. Not thread-safe.

    Raises MissingAssetError without a head, ValueError for one that does not fit the model.
    """

    needs_hidden = True
    name = ""

    def __init__(self, model, head=None, vocabulary=None):
        folder = head_folder(self.name, head, model)
        if model is None:
            raise ValueError(f"{self.name} needs the target model: give model=")
        self.head, self._language = shared(model, folder, _checked_vocabulary(vocabulary, folder, model))
        self._embedding = self.head.embed_tokens or model.get_input_embeddings()
        self.modules = (self.head, *self._language.own_modules)
        self._device = model.device
        self.reset()

    def begin(self, prompt):
        self.reset()

    def reset(self):
        self._pending = []  # (tokens, the hidden states before them) that the head has not seen
        self._cache = HeadCache()
        self._feature = None  # the hidden state that is predicted for the last known token, shape (1, hidden)

    def observe(self, emitted, verified=None):
        if verified is None or verified.hidden is None:
            raise ValueError(f"{self.name} drafts from the target's hidden states: pass them to observe")
        following = np.append(verified.tokens[verified.path[1:]], emitted[-1:])
        self._pending.append((following, verified.hidden[verified.path]))

    def propose(self, room):
        if room < 1 or (not self._pending and self._feature is None):
            return Draft.empty()
        with torch.inference_mode():
            self._catch_up()
            known = self._cache.length
            tokens, parents = self._tree(room)
            self._cache.truncate(known)
        return Draft(tokens, parents, self.name)

    def _tree(self, room):
        """(tokens, parents) of the tree below the last known token, int32 arrays."""
        raise NotImplementedError

    def _catch_up(self):
        """Let the head see what was emitted since it last did, with the target's hidden states."""
        if not self._pending:
            return
        tokens = self._on_device(np.concatenate([tokens for tokens, _ in self._pending]))
        hidden = torch.cat([states for _, states in self._pending])
        known, new = self._cache.length, len(tokens)
        positions = torch.arange(known, known + new, device=self._device)
        mask = None if known == 0 else torch.ones(new, known + new, dtype=torch.bool, device=self._device).tril(known)
        self._feature = self._forward(tokens, hidden, positions, mask)[-1:]
        self._pending = []

    def _forward(self, tokens, hidden, positions, mask):
        """The head over tokens (n,) and the hidden states before them (n, hidden); returns (n, hidden)."""
        embedded = self._embedding(tokens)
        return self.head(embedded[None], hidden[None], positions, mask, self._cache)[0]

    def _on_device(self, array):
        return torch.as_tensor(array, dtype=torch.long, device=self._device)


class Frontier:
    """The nodes of a draft tree that were expanded last: their features, and which expanded nodes each one sees.

    It begins as the last known token alone.
    """

    def __init__(self, drafter):
        self._drafter = drafter
        self._known = drafter._cache.length
        self._level = 0
        self.features = drafter._feature
        self._sees = torch.ones(1, 0, dtype=torch.bool, device=drafter._device)

    def expand(self, tokens, parents):
        """Go one level down: to `tokens` (m,), each below the node `parents` (m,) of this frontier. One forward."""
        own = torch.eye(len(tokens), dtype=torch.bool, device=tokens.device)
        self._sees = torch.cat([self._sees[parents], own], dim=1)
        mask = torch.cat([own.new_ones(len(tokens), self._known), self._sees], dim=1)
        positions = torch.full_like(tokens, self._known + self._level)
        self.features = self._drafter._forward(tokens, self.features[parents], positions, mask)
        self._level += 1


class StaticTree:
    """The shape of a static tree, level by level. size: how many nodes, the likeliest. ranks: below which all stay."""

    def __init__(self, size=TREE_SIZE, ranks=10):
        paths = [tuple(map(int, path)) for level in EAGLE_TREE for path in level.split()]
        paths = [path for path in paths if max(path) < ranks]
        paths = sorted(sorted(paths, key=_chance, reverse=True)[:size], key=lambda path: (len(path), path))
        index = {(): -1} | {path: node for node, path in enumerate(paths)}
        self.parents = np.array([index[path[:-1]] for path in paths], dtype=np.int32)
        self.levels = self._levels(paths)

    @staticmethod
    def _levels(paths):
        """Of each level a TreeLevel."""
        levels, above = [], [()]
        for depth in range(1, len(paths[-1]) + 1):
            here = [path for path in paths if len(path) == depth]
            inner = [path for path in here if any(other[:-1] == path for other in paths)]
            levels.append(TreeLevel(here, above, inner))
            above = inner
        return levels


class TreeLevel:
    """A level's nodes: `parents` among the nodes expanded before, `ranks`, and which are expanded, `inner`."""

    def __init__(self, paths, above, inner):
        self.parents = [above.index(path[:-1]) for path in paths]
        self.ranks = [path[-1] for path in paths]
        self.inner = [paths.index(path) for path in inner]
        self.top_k = 1 + max(self.ranks)

    def on(self, device):
        """The same with tensors on a device."""
        for name in ("parents", "ranks", "inner"):
            setattr(self, name, torch.tensor(getattr(self, name), dtype=torch.long, device=device))
        return self


class Eagle(HeadDrafter):
    """EAGLE: the static tree of 25 nodes, or its `tree_size` likeliest, filled with the head's likeliest tokens."""

    name = "eagle"

    def __init__(self, model, head=None, tree_size=TREE_SIZE, vocabulary=None):
        if not 1 <= tree_size <= TREE_SIZE:
            raise ValueError(f"tree_size must lie in 1 … {TREE_SIZE}, not {tree_size}")
        super().__init__(model, head, vocabulary)
        self.template = StaticTree(tree_size, self._language.size)
        self._levels = [level.on(self._device) for level in self.template.levels]

    def _tree(self, room):
        frontier, tokens = Frontier(self), []
        for depth, level in enumerate(self._levels[:room], start=1):
            ids, _ = self._language.likeliest(self._language.logits(frontier.features), level.top_k)
            tokens.append(ids[level.parents, level.ranks])
            if depth < min(room, len(self._levels)):
                frontier.expand(tokens[-1][level.inner], level.parents[level.inner])
        tokens = torch.cat(tokens).to(torch.int32).cpu().numpy()
        return tokens, self.template.parents[: len(tokens)]


class Eagle2(HeadDrafter):
    """EAGLE-2: a tree of `depth` levels, grown below the `top_k` likeliest nodes of each, cut to the best `tree_size`.

    A node's score is the logarithm of its path's probability in the head's eyes. All candidates compete in the end,
    also those that were not expanded; of equal ones the earlier wins, so that a parent always stays with its child.
    """

    name = "eagle2"

    def __init__(self, model, head=None, tree_size=TREE_SIZE_2, depth=DEPTH, top_k=TOP_K, vocabulary=None):
        super().__init__(model, head, vocabulary)
        self.tree_size, self.depth = tree_size, depth
        self.top_k_nodes = min(top_k, self._language.size)

    def _tree(self, room):
        frontier, candidates = Frontier(self), Candidates(self._device)
        for depth in range(1, min(room, self.depth) + 1):
            candidates.add(*self._children(frontier.features))
            if depth < min(room, self.depth):
                frontier.expand(*candidates.best(self.top_k_nodes))
        return candidates.rerank(self.tree_size)

    def _children(self, features):
        """(ids, log-probabilities) of the likeliest tokens after each feature, shape (m, top_k)."""
        logits = self._language.logits(features).float()
        ids, values = self._language.likeliest(logits, self.top_k_nodes)
        return ids, values - logits.logsumexp(dim=-1, keepdim=True)


class Candidates:
    """The nodes that a dynamic tree may have, level after level, with their scores."""

    def __init__(self, device):
        self._tokens, self._parents, self._scores = [], [], []
        self._count = 0
        self._nodes = torch.full((1,), -1, device=device)  # the expanded nodes, as indices of candidates
        self._above = torch.zeros(1, device=device)  # their scores

    def add(self, ids, chances):
        """The children of the expanded nodes: ids and log-probabilities, shape (m, k); nan counts as the least."""
        self._tokens.append(ids.flatten())
        self._scores.append((self._above[:, None] + chances.nan_to_num(nan=-torch.inf)).flatten())
        self._parents.append(self._nodes.repeat_interleave(ids.shape[1]))
        self._width = ids.shape[1]

    def best(self, n):
        """(tokens, their parents among the nodes expanded before) of the n best of the last level, to be expanded."""
        scores = self._scores[-1]
        best = scores.topk(min(n, len(scores))).indices
        self._above, self._nodes = scores[best], self._count + best
        self._count += len(scores)
        return self._tokens[-1][best], best // self._width

    def rerank(self, size):
        """(tokens, parents) of the `size` best candidates, int32 arrays, parents before children."""
        scores = torch.cat(self._scores)
        kept = scores.sort(descending=True, stable=True).indices[:size].sort().values
        found = torch.stack([torch.cat(self._tokens)[kept], torch.cat(self._parents)[kept], kept])
        tokens, parents, kept = found.cpu().numpy()  # a GPU is waited for here alone
        parents = np.where(parents < 0, -1, np.searchsorted(kept, parents))
        return tokens.astype(np.int32), parents.astype(np.int32)


_SHARED = weakref.WeakKeyDictionary()  # {model: {what was asked for: (EagleHead, LanguageHead)}}


def shared(model, folder, vocabulary):
    """The EagleHead of a folder and the LanguageHead over `vocabulary`: of all drafters of a model the same ones.

    They are made anew where the files, or the model's dtype or device, are others than before.
    """
    files = [(path.name, path.stat().st_mtime_ns) for path in sorted(folder.iterdir())] if folder.is_dir() else []
    ids = None if vocabulary is None else vocabulary.tobytes()
    key = (folder, *files, ids, model.dtype, model.device)
    found = _SHARED.setdefault(model, {})
    if key not in found:
        found[key] = load_head(folder, model), LanguageHead(model, vocabulary)
    return found[key]


def _chance(path):
    """An assumed chance that a node of the static tree is right, by the ranks along its path."""
    return np.prod([TOP_CHANCE / (rank + 1) for rank in path])


def _checked_vocabulary(vocabulary, folder, model):
    """The ids to draft, checked; None for all."""
    if vocabulary is None:
        return None
    counted = isinstance(vocabulary, (int, np.integer))
    ids = as_ids(frequent_ids(folder, vocabulary) if counted else vocabulary)
    size = model.get_output_embeddings().weight.shape[0]
    if len(ids) == 0 or len(np.unique(ids)) < len(ids) or int(ids.max()) >= size:
        raise ValueError(f"vocabulary must be different ids below {size}, the size of the target's, and at least one")
    return ids
