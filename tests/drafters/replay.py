"""A target that emits a given stream: drives a drafter through a whole request without any model."""

from dataclasses import dataclass

import numpy as np
import torch

from samlib import Draft
from samlib.drafters import Verified

from ..automaton.naive import tree_paths


@dataclass
class Proposal:
    """One step: what the drafter knew, what it proposed, what was then emitted."""

    known: list
    room: int
    draft: Draft
    emitted: list


def replay(drafter, prompt, stream, *, max_room=10**6, asks=lambda step: True):
    """Begin with `prompt`, verify every draft against `stream`, and return the list of Proposals.

    A drafter that needs hidden states gets made-up ones; its ids must be below 64.

    asks: whether a step, by its number, asks the drafter for a draft; the decode loop does not where there is no room.
    """
    known, proposals = list(prompt), []
    drafter.begin(ids(prompt))
    prefill = Verified(ids(prompt), None, _states(prompt), np.arange(len(prompt))) if drafter.needs_hidden else None
    drafter.observe(ids(stream[:1]), prefill)
    known += stream[:1]
    position = 1
    while position < len(stream):
        room = min(max_room, len(stream) - position - 1)
        draft = drafter.propose(room) if asks(len(proposals)) else Draft.empty()
        draft = draft.clipped(room)  # as the decode loop does
        accepted = accepted_nodes(draft, stream[position:])
        emitted = stream[position : position + len(accepted) + 1]
        proposals.append(Proposal(list(known), room, draft, emitted))
        drafter.observe(ids(emitted), verified(drafter, known, draft, accepted, emitted))
        known += emitted
        position += len(emitted)
    return proposals


def ids(tokens):
    """An int32 array that nobody may write to."""
    array = np.array(tokens, dtype=np.int32)
    array.flags.writeable = False
    return array


def accepted_nodes(draft, following):
    """Indices of the nodes along which the draft agrees with what follows."""
    nodes, parent = [], -1
    for token in following:
        children = np.flatnonzero((draft.parents == parent) & (draft.tokens == token))
        if len(children) == 0:
            break
        parent = int(children[0])
        nodes.append(parent)
    return nodes


def verified(drafter, known, draft, accepted, emitted):
    """What the drafter asks for, made up: hidden states, and top successors of the root and each node.

    Of these, what last followed it in the stream comes first.
    """
    tokens = np.concatenate([[known[-1]], draft.tokens]).astype(np.int32)
    parents = np.concatenate([[-1], draft.parents + 1]).astype(np.int32)
    hidden = _states(tokens) if drafter.needs_hidden else None
    path = np.array([0, *(node + 1 for node in accepted)])
    if not drafter.top_k:
        return Verified(tokens, None, hidden, path, parents)
    followed = dict(zip(known, [*known[1:], emitted[0]], strict=True))
    rows = [_successors(int(token), followed.get(int(token)), drafter.top_k) for token in tokens]
    for row, token in zip(path.tolist(), emitted, strict=True):
        rows[row] = _successors(int(tokens[row]), token, drafter.top_k)
    return Verified(tokens, ids(rows), hidden, path, parents)


def _states(tokens, size=32):
    """A random hidden state for each token, always the same; shape (n, size)."""
    states = torch.randn(64, size, generator=torch.Generator().manual_seed(0))
    return states[torch.tensor(tokens, dtype=torch.long)]


def _successors(token, best, k):
    """k different ids, `best` first where there is one."""
    others = [(token * 7 + 3 * rank + 1) % 50 for rank in range(k)]
    return others if best is None else [best, *[other for other in others if other != best]][:k]


def check_draft(draft, *, room, size):
    """What holds of every draft, whoever proposed it."""
    assert draft.tokens.dtype == np.int32 and draft.parents.dtype == np.int32
    assert len(draft.tokens) <= size
    assert (draft.tokens >= 0).all()
    paths = tree_paths(draft.tokens, draft.parents)
    assert len(set(paths)) == len(paths), "two siblings carry the same token"
    assert max(map(len, paths), default=0) <= room
    assert isinstance(draft.source, str) and draft.match_length >= 0
