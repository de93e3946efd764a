"""Captions that say what a figure rests on: profile, model, data, hardware, number of questions."""

import json

from samlib import paths
from samlib.bench.machine import cpu_name, device_words
from samlib.bench.metrics import OVERALL
from samlib.bench.profiles import load_profile
from samlib.report.formats import listed


def caption(text, profile, records, *, n):
    """`text`, then profile, model, data, hardware and `n` (a phrase such as "12 questions").

    Data and hardware are those that the records were measured with; several, where a run was resumed elsewhere.
    """
    profile = load_profile(profile)
    facts = [
        _of_model(profile),
        listed(dict.fromkeys(record["dataset"] for record in records)),
        listed(_devices(profile, records)),
        f"n = {n}",
    ]
    return f"{text} {'; '.join(facts)}."


def table_caption(frame, layout, profile, records):
    """The caption of a table and of its figure, from the table's frame and the records that it was made from."""
    n = f"{_questions(frame, layout)}, the same for every method that was run"
    return caption(layout.about, profile, records, n=n)


def sources_caption(sources, layout, profile, records):
    """The caption of the figure of draft sources, from its frame and the records that it was made from."""
    text = f"{layout.short_title}: share of verification steps by the source of their draft."
    return caption(text, profile, records, n=f"{int(sources['steps'].sum()):,} steps")


def phases_caption(frame, layout, profile, records):
    """The caption of the figure of phases, from the *table's* frame and the records that both were made from."""
    text = f"{layout.short_title}: share of each method's total time by phase; “other” is what no phase claims."
    return caption(text, profile, records, n=_questions(frame, layout))


def complexity_caption(frame, profile):
    """The caption of the figure of lookup costs."""
    text = (
        "Cost of one lookup (next token in, match found, ten tokens drafted) in synthetic texts with copied passages: "
        "medians, with bands from the lower to the upper quartile. The suffix array's building is not timed."
    )
    n = frame["steps"].iloc[0]
    return f"{text} Profile {load_profile(profile).name}; {cpu_name()}, one thread; n = {n} lookups a point."


def automaton_scale_caption(records, profile):
    """The caption of the figure of the automata at scale, from the records that it was made from."""
    text = (
        "The static index at scale: speed of building, size when finished (text and occurrence counts included), and a "
        "draft of 40 tokens from Python, lookup included, along text that is not in the index; medians, with bars from "
        "the smallest to the largest repeat. A line is one comparison in one run, at the corpus size that it names. "
        "Ticks: what memory latency and bandwidth allow."
    )
    facts, repeats = records[0]["corpus"], min(record["repeats"] for record in records)
    corpus = f"{facts['tokens']:,} tokens of the embedded corpus and this environment's Python files"
    machines = listed(dict.fromkeys(record["cpu"] for record in records))
    return f"{text} Profile {load_profile(profile).name}; {corpus}; {machines}, one thread; n = {repeats} repeats."


def cost_caption(rows, profile):
    """The caption of the table and figure of T(n), from the frame that they are made from."""
    text = (
        "Time T(n) of one verification forward over n tokens (root included, with a tree mask) by tokens in the KV "
        "cache: medians, with bands from the lower to the upper quartile, on samlib's kernels for the CPU and through "
        "plain layers, where both were measured. No forward can be faster than reading all weights once (dashed) nor "
        "than the operations of its tokens at the peak rate (dotted)."
    )
    row = rows.iloc[0]
    n = f"n = {row['repeats']} interleaved forwards a point"
    return f"{text} {_of_model(load_profile(profile))}; {row['device']}; {n}."


def live_training_caption(steps, facts, profile):
    """The caption of the figure of a live training, from what `samlib.bench.eagle_live.live_training` returns."""
    text = (
        "Losses of a fresh EAGLE head in its first steps, trained while this notebook ran: smooth L1 between predicted "
        "and true hidden states, and cross-entropy between the distributions that the LM head makes of the two. This "
        "is not the training of the shipped head."
    )
    profile = load_profile(profile)
    n = f"n = {facts['chats']} chats, {len(steps)} points"
    return f"{text} {_of_model(profile)}; {device_words(profile)}; {n}."


def training_caption(shipped, profile):
    """The caption of the figure and the tables of a shipped training, from the ShippedTraining."""
    text = (
        "Training of the shipped EAGLE head. Left: its losses, smooth L1 between hidden states and cross-entropy "
        "between distributions, means of the steps since the point before. Right: accepted tokens a step beside the "
        "bonus token, of chains of four on held-out prompts; the areas are the shares of steps that accept a first, "
        "second, third and fourth token, and their sum is the mean; bars: its bootstrap 95 % interval over prompts; "
        "dashed: the aim."
    )
    tried = shipped.trials["steps"].iloc[-1]
    n = f"n = {shipped.manifest['steps']:,} steps of training, and {tried:,.0f} of decoding in the last trial"
    return f"{text} {_of_model(load_profile(profile))}; trained on {_trainer(shipped.manifest)}; {n}."


def _of_model(profile):
    """ "Profile cpu; MODEL in float32, sdpa attention"."""
    return f"Profile {profile.name}; {profile.model} in {profile.dtype}, {profile.attention} attention"


def _trainer(manifest):
    """The machine of a manifest as one phrase; its GPU where the profile that trained used one."""
    facts = manifest.get("machine", {})
    if manifest.get("profile", {}).get("device", "cpu") != "cpu":
        return facts.get("gpu") or "a GPU"
    return f"{facts.get('cpu', 'an unknown CPU')}, {facts.get('threads', '?')} threads"


def _questions(frame, layout):
    """ "30 questions in all (5 a task)", or how many of each column where these differ."""
    counted = frame.groupby("task")["n"].max()
    most = {task: int(counted.get(task, 0)) for task in layout.columns}
    overall = most.pop(OVERALL)
    if len(set(most.values())) == 1:
        each = f"{next(iter(most.values()))} a {layout.unit}"
    else:
        each = ", ".join(f"{layout.columns[task]} {n}" for task, n in most.items())
    return f"{overall} questions in all ({each})"


def _devices(profile, records):
    """The devices named by the records' manifests, each once; the present one where no manifest is left."""
    folder = paths.runs_dir(profile.name)
    files = [folder / name for name in dict.fromkeys(record["manifest"] for record in records)]
    manifests = [json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()]
    return list(dict.fromkeys(manifest["device"] for manifest in manifests)) or [device_words(profile)]
