"""The small tables and the one draft that the first notebook shows: environment, data, static automaton."""

from importlib import metadata

import pandas as pd

from samlib.bench.data import TASKS
from samlib.bench.machine import machine
from samlib.bench.manifest import PACKAGES
from samlib.bench.prompts import prompt_ids
from samlib.report.styles import TASK_LABELS

SHOWN_TOKENS = 12


def environment_table():
    """Versions of the packages that matter and facts of the machine, as a DataFrame."""
    facts = {package: metadata.version(package) for package in PACKAGES} | machine()
    return pd.DataFrame({"value": facts.values()}, index=pd.Index(facts, name="what")).fillna("none")


def question_table(questions, tokenizer):
    """Questions, turns and lengths in tokens of the first turn's prompt (chat template included), a row a task."""
    rows = [_task_row(task, [q for q in questions if q.category == task], tokenizer) for task in TASKS]
    return pd.DataFrame(rows).set_index("task")


def static_table(static):
    """The size of a StaticAutomaton, as a DataFrame with one row."""
    facts = {
        "documents": static.num_documents,
        "tokens": len(static),
        "states": static.num_states,
        "MB": round(static.nbytes / 1e6, 2),
        "bytes per token": round(static.nbytes / max(len(static), 1), 1),
    }
    return pd.DataFrame([facts])


def show_draft(static, tokenizer, text):
    """What the static automaton drafts after `text`: a few lines with the matching suffix and what followed it."""
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    cursor = static.cursor()
    cursor.advance(ids)
    size = cursor.match_length
    lines = {
        "text": text,
        "longest match in the corpus": f"{tokenizer.decode(ids[len(ids) - size :])!r} ({size} tokens)",
        "drafted": repr(tokenizer.decode(cursor.draft(SHOWN_TOKENS).tolist())),
    }
    return "\n".join(f"{name:<28} {value}" for name, value in lines.items())


def step_table(generation, tokenizer):
    """The steps of a Generation, a row each: the draft's source, tokens drafted and accepted, the text emitted."""
    rows = [(s.source, s.drafted, s.accepted, tokenizer.decode(s.tokens)) for s in generation.steps]
    return pd.DataFrame(rows, columns=["source", "drafted", "accepted", "text"])


def source_shares(records):
    """Share of verification steps by draft source, over all turns of Table 1's records.

    Returns a DataFrame: block, method, source, steps, share (of the method's steps).
    """
    counts = {}
    for record in records:
        for turn in record["turns"]:
            for source, of_source in (turn["sources"] or {}).items():
                key = record["block"], record["method"], source
                counts[key] = counts.get(key, 0) + of_source["steps"]
    columns = ["block", "method", "source", "steps"]
    frame = pd.DataFrame([(*key, steps) for key, steps in counts.items()], columns=columns)
    return frame.assign(share=frame["steps"] / frame.groupby(["block", "method"])["steps"].transform("sum"))


def _task_row(task, questions, tokenizer):
    lengths = [len(prompt_ids(tokenizer, [{"role": "user", "content": q.turns[0]}])) for q in questions]
    return {
        "task": TASK_LABELS[task],
        "questions": len(questions),
        "turns": max(len(q.turns) for q in questions),
        "shortest": min(lengths),
        "median": int(pd.Series(lengths).median()),
        "longest": max(lengths),
    }
