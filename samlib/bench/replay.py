"""Replay: a drafter in the real decode loop, against a recorded greedy answer instead of a model.

Greedy decoding is lossless, so that every drafter emits the same tokens; what it drafts depends only on the token ids
that it is shown. One recorded answer therefore tells for any drafter how many tokens each of its steps would emit, and
no forward is needed. The steps are exact for drafters that read token ids only. Token Recycling also learns from the
likeliest ids at tokens that were verified and rejected; a recording holds these along the answer alone, so that its
steps are approximate: `is_exact` says which.

Nothing here measures time. `modelled_seconds` is what the steps would take by a stated cost curve T(n).
"""

import dataclasses

import numpy as np
import torch

from samlib.decoding import Verification, stream
from samlib.decoding.loop import Stream
from samlib.decoding.request import Request
from samlib.drafters import Drafter, Verified, make_drafter

NO_TOKEN = -1  # stands where the recording does not say what the target would have chosen


@dataclasses.dataclass(frozen=True, eq=False)
class Trajectory:
    """A recorded greedy answer.

    prompt, tokens: int32 arrays, the prompt's ids and the new ones. limit: how many new ones there could have been.
    finish_reason: as in a Generation: "eos", "length" or "context". top: int32 array of shape (len(tokens) - 1, k), the
    ids of the k largest logits after each new token but the last, best first; None where they were not recorded.
    """

    prompt: np.ndarray
    tokens: np.ndarray
    limit: int
    finish_reason: str
    top: np.ndarray | None = None

    def __post_init__(self):
        if self.finish_reason not in ("eos", "length", "context"):
            raise ValueError(f"an answer that ended by {self.finish_reason!r} cannot be replayed: record without it")
        if not 1 <= len(self.tokens) <= self.limit or len(self.prompt) == 0:
            raise ValueError("a trajectory needs a prompt, and from one new token to its limit")


def record(model, ids, drafter=None, *, max_new_tokens, top_k=0, **options):
    """Answer a prompt with samlib's decode loop, and return the Trajectory.

    drafter: who drafts, which makes a recording quicker and changes nothing in it; by default SAM. top_k: how many of
    the largest logits to record after each token; 0 for none. options: of `samlib.generate`, stop strings left out.
    """
    recorder = _Recorder(drafter or make_drafter("sam"), top_k)
    steps = stream(model, ids, drafter=recorder, max_new_tokens=max_new_tokens, **options)
    for _ in steps:
        pass
    generation = steps.generation
    # The room that the context left is not in the Generation, but where it was the limit it is what was filled.
    limit = len(generation.tokens) if generation.finish_reason == "context" else max_new_tokens
    tokens, prompt = np.array(generation.tokens, dtype=np.int32), np.asarray(ids, dtype=np.int32).reshape(-1)
    top = recorder.top[: len(tokens) - 1] if top_k else None
    return Trajectory(prompt, tokens, limit, generation.finish_reason, top)


def replay(drafter, trajectory):
    """Run a drafter over a Trajectory; return the Generation that it would have had, its timings all zero.

    The drafter begins the request afresh, and keeps what it keeps from request to request. ValueError for a drafter
    that reads hidden states, or more of the largest logits than were recorded.
    """
    _check_can_replay(drafter, trajectory)
    eos_ids = frozenset(trajectory.tokens[-1:].tolist() if trajectory.finish_reason == "eos" else ())
    limit = trajectory.limit
    context_room = limit if trajectory.finish_reason == "context" else None
    max_new_tokens = limit + 1 if trajectory.finish_reason == "context" else limit
    request = Request(trajectory.prompt, eos_ids, max_new_tokens, context_room, None, None)
    steps = Stream(_RecordedTarget(trajectory), _PathOnly(drafter), request)
    for _ in steps:
        pass
    steps.generation.timings = dict.fromkeys(steps.generation.timings, 0.0)
    return steps.generation


def is_exact(drafter):
    """True of a drafter that reads token ids only: what it drafts in a replay is what it drafts live."""
    return drafter.top_k == 0 and not drafter.needs_hidden


def modelled_seconds(generation, cost, prompt_tokens):
    """Seconds that the steps would take if a step over n tokens took T(n), by a CostCurve: decoding, without prefill.

    T(n) is taken at the tokens in the KV cache at each step. Drafting and bookkeeping are not in it.
    """
    seconds, context = 0.0, prompt_tokens
    for step in generation.steps:
        seconds += cost.seconds(1 + step.drafted, context)
        context += len(step.tokens)
    return seconds


def _check_can_replay(drafter, trajectory):
    if drafter.needs_hidden:
        raise ValueError("a drafter that reads hidden states cannot be replayed: measure it live")
    recorded = 0 if trajectory.top is None else trajectory.top.shape[1]
    if drafter.top_k > recorded:
        raise ValueError(
            f"the drafter reads the {drafter.top_k} largest logits, of which the trajectory holds {recorded}: "
            f"record(…, top_k={drafter.top_k})"
        )


class _Recorder(Drafter):
    """Another drafter, and beside it the largest logits along the answer."""

    def __init__(self, drafter, top_k):
        self._drafter, self._width = drafter, top_k
        self.top_k, self.needs_hidden = max(top_k, drafter.top_k), drafter.needs_hidden
        self._rows = []

    @property
    def top(self):
        """int32 array of shape (tokens, k): those after each emitted token that a forward has seen."""
        return np.concatenate([np.empty((0, self._width), dtype=np.int32), *self._rows])

    def begin(self, prompt):
        self._rows = []
        self._drafter.begin(prompt)

    def propose(self, room):
        return self._drafter.propose(room)

    def observe(self, emitted, verified=None):
        if verified is not None and verified.top is not None:
            self._rows.append(verified.top[verified.path[: len(emitted)], : self._width])
        self._drafter.observe(emitted, verified)


class _PathOnly(Drafter):
    """Another drafter, which learns from the accepted path alone: of what else was verified nothing is recorded."""

    def __init__(self, drafter):
        self._drafter, self.top_k = drafter, drafter.top_k
        self.begin, self.propose = drafter.begin, drafter.propose

    def observe(self, emitted, verified=None):
        if verified is not None:
            # An EOS that was drafted is on the path, but nothing was recorded after it.
            path = verified.path[: len(emitted)]
            top = None if verified.top is None else verified.top[path]
            places = np.arange(len(path), dtype=np.int32)
            verified = Verified(verified.tokens[path], top, None, places, places - 1)
        self._drafter.observe(emitted, verified)


class _RecordedTarget:
    """What the decode loop sees of a TargetModel, answered from a Trajectory."""

    device = torch.device("cpu")

    def __init__(self, trajectory):
        self._tokens, self._top = trajectory.tokens.tolist(), trajectory.top
        self._emitted = 0  # tokens that the loop has, the root included

    def prefill(self, ids, top_k=0, hidden=False):
        """The first token of the answer."""
        self._emitted = 1
        return Verification(self._tokens[:1], None, None)

    def verify(self, root, draft, top_k=0, hidden=False):
        """The choices along the recorded answer; nothing is known of what branches off it."""
        following = self._tokens[self._emitted :]
        choices, places = [NO_TOKEN] * (1 + len(draft)), [None] * (1 + len(draft))
        place, current = 0, -1
        choices[0], places[0] = following[0], 0
        for node, (token, parent) in enumerate(zip(draft.tokens.tolist(), draft.parents.tolist(), strict=True)):
            if parent == current and place < len(following) and token == following[place]:
                place, current = place + 1, node
                places[node + 1] = place
                if place < len(following):
                    choices[node + 1] = following[place]
        return Verification(choices, self._top_rows(places, top_k) if top_k else None, None)

    def _top_rows(self, places, top_k):
        rows = np.full((len(places), top_k), NO_TOKEN, dtype=np.int32)
        for row, place in enumerate(places):
            after = None if place is None else self._emitted - 1 + place
            if after is not None and after < len(self._top):
                rows[row] = self._top[after, :top_k]
        return rows

    def keep(self, path):
        """The kept inputs are emitted, and one more after them."""
        self._emitted += len(path)
