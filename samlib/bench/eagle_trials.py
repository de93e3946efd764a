"""How good an EAGLE head is: how much of its chains of four tokens the target accepts, on held-out prompts.

Each trial is made in the real decode loop, with the head as it would be shipped: in float16, and read back.
"""

import tempfile
from pathlib import Path

import numpy as np
from scipy.stats import bootstrap

CHAIN = 4  # tokens of a chain
RESAMPLES = 2000


def accepted_length(model, head, prompts, max_new_tokens, *, vocabulary=None):
    """What chains drafted by `head` bring on prompts (ids), as JSON types.

    accepted: the mean number of accepted tokens a step, beside the bonus token. low, high: its 95 % interval, by a
    bootstrap over prompts. by_depth: the share of steps that accept at least 1, 2, 3, 4 tokens. steps: their number;
    those that had not room for a whole chain do not count. draft_seconds: the mean time to draft one. vocabulary: as
    the drafters' option.
    """
    from samlib.drafters.eagle_checkpoint import save_head

    with tempfile.TemporaryDirectory() as folder:
        save_head(head, folder)
        return chains_accepted(model, folder, prompts, max_new_tokens, vocabulary=vocabulary)


def chains_accepted(model, folder, prompts, max_new_tokens, *, vocabulary=None):
    """As `accepted_length`, for the head in a folder."""
    from samlib import generate, make_drafter

    options = {"head": Path(folder), "depth": CHAIN, "top_k": 1, "tree_size": CHAIN, "vocabulary": vocabulary}
    drafter = make_drafter("eagle2", model=model, **options)
    accepted, seconds = [], 0.0
    for prompt in prompts:
        generation = generate(model, prompt, drafter=drafter, max_new_tokens=max_new_tokens)
        accepted.append([step.accepted for step in generation.steps if step.drafted == CHAIN])
        seconds += generation.timings["draft"]
    return _facts([each for each in accepted if each], seconds)


def _facts(accepted, seconds):
    """accepted: of each prompt the accepted tokens of its steps."""
    pooled = np.concatenate(accepted) if accepted else np.zeros(0)
    low, high = _interval(accepted)
    return {
        "accepted": _mean(pooled),
        "low": low,
        "high": high,
        "steps": len(pooled),
        "by_depth": [_mean(pooled >= depth) for depth in range(1, CHAIN + 1)],
        "draft_seconds": seconds / max(1, len(pooled)),
    }


def _interval(accepted):
    """The 95 % percentile interval of the pooled mean, prompts resampled; (0.0, 0.0) where there is nothing to tell."""
    if len(accepted) < 2:
        return 0.0, 0.0
    result = bootstrap(
        ([sum(each) for each in accepted], [len(each) for each in accepted]),
        lambda total, steps, axis: np.sum(total, axis=axis) / np.sum(steps, axis=axis),
        paired=True,
        vectorized=True,
        method="percentile",
        n_resamples=RESAMPLES,
        rng=np.random.default_rng(0),
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


def _mean(values):
    return float(np.mean(values)) if len(values) else 0.0
