"""What notebooks show of a set-up: environment, questions, corpora, the static automaton and a draft from it."""

from importlib import metadata

import pandas as pd

from samlib.bench.data import TASKS, data_source, load_questions
from samlib.bench.machine import machine
from samlib.bench.manifest import PACKAGES
from samlib.bench.profiles import load_profile
from samlib.bench.prompts import prompt_ids
from samlib.bench.static import corpus_source, load_static
from samlib.bench.tables import RUNS, run_datasets
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


def dataset_table(profile):
    """Table 2's data sets and their corpora: number of questions, documents and tokens, a row a data set."""
    profile = load_profile(profile)
    rows = [_dataset_row(name, profile) for name in run_datasets(RUNS["table2"], profile)]
    return pd.DataFrame(rows).set_index("data set")


def _dataset_row(name, profile):
    static = load_static(profile, dataset=name, progress=False)
    return {
        "data set": data_source(profile, name),
        "questions": len(load_questions(profile, name)),
        "corpus": corpus_source(name),
        "documents": static.num_documents,
        "tokens": len(static),
    }


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
