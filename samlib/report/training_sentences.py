"""What the training of a shipped EAGLE head came to, in sentences computed from its frame."""

from samlib.bench.training_log import AIM
from samlib.report.formats import listed, number, percent, with_interval
from samlib.report.training_tables import DEPTH_WORDS, DEPTHS, vocabulary_words


def training_findings(frame):
    """What was trained, what the last trial gives, whether the aim is reached, and what smaller vocabularies change.

    frame: of `samlib.report.training_tables.training_frame`, or its CSV read back.
    """
    by_kind = {kind: rows.to_dict("records") for kind, rows in frame.groupby("kind")}
    trials, vocabularies = by_kind["trial"], by_kind.get("vocabulary", [])
    whole = [row for row in vocabularies if row["size"] != row["size"]]  # nan: all ids
    judged = max([trials[-1], *whole], key=lambda row: row["steps"])  # both are of the shipped head
    return [
        _losses_sentence(by_kind["step"]),
        _trial_sentence(trials),
        aim_sentence(judged),
        *_best_sentences(trials),
        *_vocabulary_sentences(vocabularies),
    ]


def live_sentence(losses, facts):
    """What a few live steps came to, and that they are not the shipped training.

    losses, facts: of `samlib.bench.eagle_live.live_training`.
    """
    few = max(1, len(losses) // 10)
    first, last = losses.head(few).mean(numeric_only=True), losses.tail(few).mean(numeric_only=True)
    return (
        f"{losses['step'].max():,} steps took {facts['training_seconds']:.0f} s; before that, extracting the features "
        f"of {facts['chats']} chats ({facts['tokens']:,} tokens) took {facts['feature_seconds']:.0f} s. From "
        f"the first to the last tenth of the steps smooth L1 went from {first['feature_loss']:.3f} to "
        f"{last['feature_loss']:.3f} and cross-entropy from {first['logit_loss']:.2f} to {last['logit_loss']:.2f}. "
        f"This head, of {facts['parameters'] / 1e6:.2g} million parameters, is thrown away: so few steps make no "
        "drafter."
    )


def aim_sentence(trial):
    """Whether a trial reaches the aim, its interval included. trial: a dict with accepted, low, high, steps."""
    mean, low, high = (trial[name] for name in ("accepted", "low", "high"))
    found = f"{mean:.3f} beside the bonus token, 95 % interval {low:.3f} to {high:.3f}, {trial['steps']:,.0f} steps"
    if low >= AIM:
        verdict = "reached, by the mean and by the whole 95 % interval"
    elif mean >= AIM:
        verdict = "reached by the mean, but the 95 % interval begins below it, so that it is not certain"
    elif high >= AIM:
        verdict = "missed by the mean, though the 95 % interval does not rule it out"
    else:
        verdict = "missed, by the mean and by the whole 95 % interval"
    return f"The aim of at least {AIM} accepted tokens a step is {verdict} ({found})."


def _losses_sentence(steps):
    """How long, and from where to where the losses went."""
    first, last = steps[0], steps[-1]
    tokens, seconds = (sum(row[name] for row in steps) for name in ("tokens", "seconds"))
    return (
        f"{last['step']:,.0f} steps over {tokens:,.0f} tokens (repeats counted) in {_duration(seconds)} brought smooth "
        f"L1 from {first['feature_loss']:.3f} to {last['feature_loss']:.3f} and cross-entropy from "
        f"{first['logit_loss']:.2f} to {last['logit_loss']:.2f}."
    )


def _trial_sentence(trials):
    """The last trial by depth, and the first if nothing was trained then."""
    last = trials[-1]
    depths = listed([f"the {word} in {percent(last[name])}" for word, name in zip(DEPTH_WORDS, DEPTHS, strict=True)])
    text = f"On held-out prompts, of a chain of four, tokens are accepted so at step {last['step']:,.0f}: {depths}"
    return f"{text} of {last['steps']:,.0f} steps{_untrained(trials)}."


def _untrained(trials):
    return f"; the untrained head has {number(trials[0]['accepted'])} accepted a step" if trials[0]["step"] == 0 else ""


def _best_sentences(trials):
    """The best trial, where it is not the last: the shipped head is the last."""
    best = max(trials, key=lambda trial: trial["accepted"])
    if best["accepted"] <= trials[-1]["accepted"]:
        return []
    return [f"An earlier trial, at step {best['step']:,.0f}, gave more: {_with_bounds(best)}; shipped is the last."]


def _vocabulary_sentences(rows):
    """What each part of the vocabulary costs in accepted tokens and saves in time, beside all of it."""
    whole = next((row for row in rows if row["size"] != row["size"]), None)
    parts = sorted((row for row in rows if row["size"] == row["size"]), key=lambda row: -row["size"])
    if whole is None or not parts:
        return []
    times = [row["draft_seconds"] / whole["draft_seconds"] for row in parts]
    words = [
        f"{vocabulary_words(row['size'])} ids {_with_bounds(row)} in {time:.2f} of the time"
        for row, time in zip(parts, times, strict=True)
    ]
    return [
        f"Drafting over all ids has {_with_bounds(whole)} accepted a step and takes "
        f"{1e3 * whole['draft_seconds']:.2f} ms a step; over the most frequent {listed(words)}."
    ]


def _with_bounds(row):
    return with_interval(row["accepted"], row["low"], row["high"])


def _duration(seconds):
    return f"{seconds / 3600:.1f} hours" if seconds >= 5400 else f"{seconds / 60:.0f} minutes"
