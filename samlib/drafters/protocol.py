"""What every drafter is: told a prompt, it proposes drafts and is told what was verified."""

from dataclasses import dataclass

import numpy as np

from samlib.automaton import Draft


@dataclass(frozen=True, slots=True, eq=False)
class Verified:
    """What a verification forward says about its input, for drafters that learn from it.

    tokens: int32 array of shape (m,), the root and the draft's tokens. top: int32 array of shape (m, k), the ids of the
    k largest logits at each of them, best first; None unless the drafter asked for them. hidden: tensor of shape
    (m, hidden size) on the model's device, the target's final hidden states (after its final norm) at each of them;
    None unless the drafter asked for them. path: the indices of the root and of the accepted tokens below it. parents:
    int32 array of shape (m,), the index of the token before each, -1 for the root's.
    """

    tokens: np.ndarray
    top: np.ndarray | None
    hidden: object = None
    path: np.ndarray | None = None
    parents: np.ndarray | None = None


class Drafter:
    """Base class: the null drafter, which proposes nothing. One request at a time; not thread-safe.

    top_k: how many of the largest logits at each verified token `observe` is to be shown; 0 for none.
    needs_hidden: is `observe` to be given hidden states, those of the prompt included?
    modules: the torch modules that drafting runs besides the target, for CpuKernels; drafters may share them.
    needs_cost: is `cost` to be set before a request begins, to what says how long a forward takes: `cost.seconds(width,
    context)`, for a forward over `width` tokens, the root included, after `context` tokens in the KV cache?
    """

    top_k = 0
    needs_hidden = False
    modules = ()
    needs_cost = False
    cost = None

    def begin(self, prompt):
        """Begin a request: forget the one before, take the prompt (int32 array of shape (n,))."""

    def propose(self, room):
        """Return a Draft of what may follow. It need be no deeper than `room` (>= 1): there the decode loop cuts it."""
        return Draft.empty()

    def observe(self, emitted, verified=None):
        """Learn the tokens emitted (int32 array) and what the verification forward said.

        Not every step was asked for a draft: where there is room for none, the root is verified alone.
        verified: None after the prefill, unless the drafter needs hidden states: then the prompt as `tokens`, with the
        hidden state of each and a path over all.
        """

    def reset(self):
        """Forget also what persists from request to request."""
