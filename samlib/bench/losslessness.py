"""Is the output the greedy one? Ids are compared; a first difference is explained by the logits behind it.

In float32 only a *near-tie* passes: the logits of the two tokens in question less than 1e-3 apart. Half precision
gives a logit around 10 in steps of 0.06 (bfloat16) or 0.008 (float16), so that near-ties are common there and no fixed
gap tells one from a mistake. The gap is therefore held against the rounding error itself, measured where the outputs
part: how far a one-token pass on a KV cache and a many-token pass over the same tokens are apart. A gap of up to
`ROUNDING_FACTOR` times that is reported and passes; a larger one is a difference. (SmolLM2-135M in bfloat16, 16 answers
of 32 tokens: the 3 that differed had gaps of up to 0.64 times the error. With a tree mask that hid nothing all 8 of 8
differed, with gaps of 0.5 to 12 times the error, 4 of them above 8: a mistake shows over a run, not in each answer.)
"""

import dataclasses
import math

NEAR_TIE_GAP = 1e-3  # in logits, float32: one-token and many-token passes round differently by about 1e-5
TOKENS_PER_NEAR_TIE = 10_000
ROUNDING_FACTOR = 8  # two passes that each err by the measured error can part at 2 of it; the rest is margin
HALF = ("float16", "bfloat16")


class LosslessnessError(RuntimeError):
    """A method's output differs from greedy decoding by more than rounding explains, or a question failed."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How ids compare with greedy decoding's.

    kind: "identical"; "near_tie" (float32: the two tokens' logits are less than 1e-3 apart); "rounding" (half
    precision: they are at most ROUNDING_FACTOR times the rounding error apart); or "different". `position` of the first
    difference among the new ids (None where identical); `gap` between the logits of the two ids there (None where
    identical, where one output merely ends earlier, and where a logit is not finite); `rounding`: the error that was
    measured there, in half precision only. `dtype`: the model's.
    """

    kind: str
    position: int | None = None
    gap: float | None = None
    rounding: float | None = None
    dtype: str = "float32"


def compare(model, prompt_ids, reference_ids, ids):
    """Compare new ids with the greedy run's `reference_ids`; the model runs only where they differ.

    The gap is that of the two ids in question, not of the two best: a junk id does not pass because two others tie.
    """
    dtype = str(model.dtype).removeprefix("torch.")
    position = first_difference(reference_ids, ids)
    if position is None:
        return Comparison("identical", dtype=dtype)
    if position >= min(len(reference_ids), len(ids)):
        return Comparison("different", position, dtype=dtype)
    known = [*prompt_ids, *reference_ids[:position]]
    logits = _logits(model, known)
    gap = abs(float(logits[reference_ids[position]] - logits[ids[position]]))
    rounding = rounding_error(model, known, logits) if dtype in HALF else None
    return Comparison(_verdict(gap, rounding), position, _finite(gap), _finite(rounding), dtype)


def first_difference(a, b):
    """The first index at which two sequences differ (a missing end counts), or None."""
    if list(a) == list(b):
        return None
    pairs = zip(a, b, strict=False)
    return next((i for i, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))


def rounding_error(model, ids, logits):
    """How far rounding moves a logit after `ids`: a float, in logits.

    The largest difference, over the vocabulary, between `logits` (shape (vocab,), of one pass over all of `ids`) and
    those of a one-token pass on a KV cache; at least the dtype's spacing at the largest logit, since two passes that
    happen to agree bit for bit have still both rounded.
    """
    import torch

    spacing = torch.finfo(model.dtype).eps * float(logits.abs().max())
    if len(ids) < 2:
        return spacing
    return max(spacing, float((_one_token_logits(model, ids) - logits).abs().max()))


def _verdict(gap, rounding):
    """The kind of a difference; a gap or an error that is not finite excuses nothing."""
    if rounding is None:
        return "near_tie" if gap < NEAR_TIE_GAP else "different"
    return "rounding" if math.isfinite(rounding) and gap <= ROUNDING_FACTOR * rounding else "different"


def _finite(value):
    """The value for a record; None where it is no number."""
    return value if value is not None and math.isfinite(value) else None


def _logits(model, ids, **inputs):
    """The logits after `ids`, one pass over all of them, as float32 of shape (vocab,)."""
    import torch

    with torch.no_grad():
        return model(torch.tensor([ids], device=model.device), logits_to_keep=1, **inputs).logits[0, -1].float()


def _one_token_logits(model, ids):
    """The same as `_logits`, the last token alone in its pass, as greedy decoding does it."""
    from transformers import DynamicCache

    cache = DynamicCache()
    _logits(model, ids[:-1], cache=cache, use_cache=True)
    return _logits(model, ids[-1:], cache=cache, use_cache=True)
