"""Is the output the greedy one? Ids are compared; a first difference is explained by the logits behind it."""

import dataclasses

NEAR_TIE_GAP = 1e-3  # in logits, float32: one-token and many-token passes round differently by about 1e-5
TOKENS_PER_NEAR_TIE = 10_000


class LosslessnessError(RuntimeError):
    """A method's output differs from greedy decoding by more than rounding explains, or a question failed."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How ids compare with greedy decoding's.

    kind "identical", "near_tie" (the two tokens' logits are less than 1e-3 apart) or "different"; `position` of the
    first difference among the new ids (None where identical); `gap` between the logits of the two ids there (None
    where identical, or where one output merely ends earlier).
    """

    kind: str
    position: int | None = None
    gap: float | None = None


def compare(model, prompt_ids, reference_ids, ids):
    """Compare new ids with the greedy run's `reference_ids`; one forward of the model only where they differ.

    The gap is that of the two ids in question, not of the two best: a junk id does not pass because two others tie.
    """
    position = first_difference(reference_ids, ids)
    if position is None:
        return Comparison("identical")
    if position >= min(len(reference_ids), len(ids)):
        return Comparison("different", position)
    gap = _logit_gap(model, [*prompt_ids, *reference_ids[:position]], reference_ids[position], ids[position])
    return Comparison("near_tie" if gap < NEAR_TIE_GAP else "different", position, gap)


def first_difference(a, b):
    """The first index at which two sequences differ (a missing end counts), or None."""
    if list(a) == list(b):
        return None
    pairs = zip(a, b, strict=False)
    return next((i for i, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))


def _logit_gap(model, ids, first, second):
    import torch

    with torch.no_grad():
        logits = model(torch.tensor([ids], device=model.device), logits_to_keep=1).logits[0, -1].float()
    return abs(float(logits[first] - logits[second]))
