"""What the target model says: its choice after each token, and the likeliest few where a drafter learns from them."""

from dataclasses import dataclass

import numpy as np
import torch

from samlib.decoding.ranking import rank


@dataclass(frozen=True, slots=True, eq=False)
class Verification:
    """A forward's answer after each of its m inputs (the root and the draft's nodes; or the prompt's last token).

    choices: list of m ids, the target's greedy next token. top: int32 array of shape (m, k), the ids of the k largest
    logits, best first; None if they were not asked for. logits: tensor of shape (m, vocabulary), on the model's device.
    hidden: tensor of shape (m, hidden), the final hidden states, after a prefill those of all the prompt; None if they
    were not asked for.
    """

    choices: list[int]
    top: np.ndarray | None
    logits: torch.Tensor
    hidden: torch.Tensor | None = None


def read(logits, top_k=0, hidden=None):
    """The Verification of logits, shape (m, vocabulary), with at most `top_k` top ids, and of `hidden` as it is.

    On a GPU in one transfer, for which it waits: a step's only one.
    """
    top_k = min(top_k, logits.shape[-1])
    if logits.device.type == "cpu" and logits.dtype == torch.float32:
        return Verification(*rank(logits.contiguous().numpy(), top_k), logits, hidden)
    choices = logits.argmax(dim=-1)
    if top_k == 0:
        return Verification(choices.tolist(), None, logits, hidden)
    ids = torch.cat([choices[:, None], logits.topk(top_k).indices], dim=1).to(torch.int32).cpu().numpy()
    return Verification(ids[:, 0].tolist(), ids[:, 1:], logits, hidden)
