"""The training of a shipped EAGLE head as one frame of numbers, and as tables for readers."""

import pandas as pd

from samlib.bench.training_log import DEPTHS, INTERVAL, STEP_COLUMNS
from samlib.report.formats import markdown_table, number, percent, with_interval
from samlib.report.save import save_markdown

KINDS = {"step": "steps", "trial": "trials", "vocabulary": "vocabularies"}  # to the frames of a ShippedTraining
COLUMNS = ("kind", *STEP_COLUMNS, *INTERVAL, *DEPTHS, "size", "draft_seconds")
DEPTH_WORDS = ("1st", "2nd", "3rd", "4th")
FACTS = ("chats", "tokens", "answer_tokens", "held_out_prompts", "steps", "wall_seconds")  # of a manifest
SHOWN_TRIALS = 12


def training_frame(shipped):
    """A ShippedTraining as one DataFrame with COLUMNS; kind: "step", "trial" or "vocabulary". nan: not of its kind."""
    frames = [getattr(shipped, name).assign(kind=kind) for kind, name in KINDS.items()]
    return pd.concat([frame for frame in frames if len(frame)], ignore_index=True).reindex(columns=list(COLUMNS))


def training_table(shipped):
    """How a shipped head was trained, from its manifest: a DataFrame with one column, a row a fact."""
    manifest = shipped.manifest
    facts = {"model": manifest.get("model"), "commit": manifest.get("commit"), "written": manifest.get("written")}
    facts |= {name: manifest[name] for name in FACTS if name in manifest}
    facts |= {f"setting: {name}": value for name, value in (manifest.get("training") or {}).items()}
    facts |= {f"machine: {name}": value for name, value in (manifest.get("machine") or {}).items()}
    known = {name: str(value) for name, value in facts.items() if value is not None}
    return pd.DataFrame({"value": known.values()}, index=pd.Index(known, name="what"))


def trial_table(frame):
    """The trials of a training as strings: at most a dozen, evenly spread, the first and the last among them."""
    trials = frame[frame["kind"] == "trial"].reset_index(drop=True)
    places = sorted({round(i * (len(trials) - 1) / (SHOWN_TRIALS - 1)) for i in range(SHOWN_TRIALS)})
    return pd.DataFrame([_trial_line(row) for row in trials.loc[places].to_dict("records")])


def vocabulary_table(frame):
    """Drafting over parts of the vocabulary as strings, all ids first, then from many to few; empty if not compared."""
    rows = frame[frame["kind"] == "vocabulary"].sort_values("size", ascending=False, na_position="first")
    return pd.DataFrame([_vocabulary_line(row, rows.iloc[0]) for row in rows.to_dict("records")])


def save_training(frame, facts, profile, caption):
    """Write figures/<profile>/eagle_training.md: the facts of `training_table` and both tables; returns the path."""
    tables = {"Settings": facts.reset_index(), "Trials": trial_table(frame), "Vocabularies": vocabulary_table(frame)}
    sections = [f"## {title}\n\n{markdown_table(table)}" for title, table in tables.items() if len(table)]
    text = "\n\n".join(["# The training of the EAGLE head", caption, *sections, _how_to_read()])
    return save_markdown(text + "\n", "eagle_training", profile)


def vocabulary_words(size):
    """ "8,192" for a number of ids, "all" for nan."""
    return "all" if pd.isna(size) else f"{size:,.0f}"


def _trial_line(row):
    depths = {f"{word} accepted": percent(row[name]) for word, name in zip(DEPTH_WORDS, DEPTHS, strict=True)}
    return {"step": f"{row['step']:,.0f}", **_accepted(row), **depths}


def _vocabulary_line(row, whole):
    return {
        "ids drafted": vocabulary_words(row["size"]),
        **_accepted(row),
        "drafting a step (ms)": number(1e3 * row["draft_seconds"]),
        "beside the first line": number(row["draft_seconds"] / whole["draft_seconds"]),
    }


def _accepted(row):
    words = with_interval(row["accepted"], row["low"], row["high"])
    return {"accepted a step [95 %]": words, "steps": f"{row['steps']:,.0f}"}


def _how_to_read():
    return (
        "Accepted: the mean number of accepted tokens of a step, beside the bonus token, of chains of four on held-out "
        "prompts; in brackets its bootstrap 95 % interval over prompts. 1st … 4th accepted: share of steps in which at "
        "least that many tokens were. Ids drafted: the head's drafts come from that many ids, the most frequent of the "
        "text that it was trained on; what is verified stays the same. They are compared on all held-out prompts, "
        "while trials may be made on a part of these. *Beside the first line*: the time of drafting divided by the "
        "first line's."
    )
