"""The questions of the benchmarks: Spec-Bench or the embedded mini benchmark, HumanEval, MBPP, HAGRID.

`load_questions(profile, dataset)` gives the questions of any of DATASETS as one type; `rounds` orders them. Every data
set comes from the user's own data folder where that holds it; `data_source` says what was read.
"""

import collections
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from samlib import paths
from samlib.bench import code_problems, hagrid
from samlib.bench.question import Question, embedded_file, own_file, parsed, read_rows, required_list
from samlib.errors import SetupError

__all__ = [
    "DATASETS",
    "TASKS",
    "Question",
    "data_source",
    "load_questions",
    "question_files",
    "require_dataset",
    "rounds",
]

TASKS = ("multi_turn", "translation", "summarization", "qa", "math_reasoning", "rag")
DATASETS = ("spec_bench", "human_eval", "mbpp", "hagrid")

#: Spec-Bench keeps MT-bench's eight categories apart in its file and reports them as one task.
MULTI_TURN_CATEGORIES = frozenset(
    ("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities", "multi_turn")
)
SPEC_BENCH_FILE = "spec_bench/question.jsonl"


class DataSet(NamedTuple):
    """How a data set is read: its files, its name, its rows ("file:line", JSON object), and a row's Question."""

    files: Callable[[], list[Path]]
    source: Callable[[], str]
    rows: Callable[[], Iterator[tuple[str, dict]]]
    question: Callable[[dict], Question]
    shape: str  # what a row must hold, in words


def load_questions(profile=None, dataset="spec_bench"):
    """Return all questions of a data set (one of DATASETS) as a list, in the order of its file.

    They come from the folder that SAMLIB_DATA names where it holds the data set, else from the embedded set or, for
    HumanEval, a small download; no profile so far chooses another source. SetupError: an unknown data set, a missing
    file, no network, or a line that is not a question.
    """
    reader = _reader(dataset)
    questions = [parsed(reader.question, row, where, reader.shape) for where, row in reader.rows()]
    _require_complete(questions, dataset)
    return questions


def data_source(profile=None, dataset="spec_bench"):
    """What `load_questions` reads, as a name for captions and records."""
    return _reader(dataset).source()


def question_files(dataset="spec_bench"):
    """The files that `load_questions` reads. SetupError where one is missing and cannot be downloaded."""
    return _reader(dataset).files()


def require_dataset(name):
    """SetupError, naming the known ones, where this is none of DATASETS."""
    if name not in DATASETS:
        raise SetupError(f"unknown data set {name!r}; known data sets: {', '.join(DATASETS)}")


def rounds(questions, seed):
    """Return lists of questions: list r holds the r-th question of every task that has one.

    Within a task the order is a fixed shuffle (by a hash of seed and id), so that the first few rounds are spread over
    a file that is sorted by subject, and adding a question does not reorder the others. A data set that is a single
    task has one question a round.
    """
    by_task = {task: sorted(_of_task(questions, task), key=lambda q: _rank(q, seed)) for task in (*TASKS, *DATASETS)}
    count = max(len(group) for group in by_task.values())
    return [[group[r] for group in by_task.values() if r < len(group)] for r in range(count)]


def _of_task(questions, task):
    return [question for question in questions if question.category == task]


def _rank(question, seed):
    return hashlib.sha256(f"{seed}:{question.question_id}".encode()).hexdigest()


def _reader(dataset):
    require_dataset(dataset)
    return _READERS[dataset]


def _require_complete(questions, dataset):
    """At least one question of every task, and no id twice: records are told apart by it."""
    files = ", ".join(str(file) for file in question_files(dataset))
    tasks = TASKS if dataset == "spec_bench" else (dataset,)
    missing = [task for task in tasks if not _of_task(questions, task)]
    if missing:
        raise SetupError(f"no questions for {', '.join(missing)} in {files}; every task needs at least one")
    number, count = collections.Counter(question.question_id for question in questions).most_common(1)[0]
    if count > 1:
        raise SetupError(f"{count} questions have the id {number} in {files}; every question needs its own")


def _spec_bench_files():
    own = own_file([SPEC_BENCH_FILE])
    return own or [embedded_file(paths.MINI_BENCH / f"{task}.jsonl") for task in TASKS]


def _spec_bench_source():
    return "Spec-Bench" if own_file([SPEC_BENCH_FILE]) else "embedded mini benchmark"


def _spec_bench_rows():
    for file in _spec_bench_files():
        yield from read_rows(file)


def _spec_bench_question(row):
    category = "multi_turn" if row["category"] in MULTI_TURN_CATEGORIES else row["category"]
    turns = required_list(row, "turns")
    if category not in TASKS:
        raise ValueError(f"unknown category {category!r}")
    if not all(isinstance(turn, str) and turn for turn in turns):
        raise ValueError("a turn is empty or not a text")
    return Question(row["question_id"], category, tuple(turns))


_READERS = {
    "spec_bench": DataSet(
        _spec_bench_files,
        _spec_bench_source,
        _spec_bench_rows,
        _spec_bench_question,
        "question_id, category and turns",
    ),
    "human_eval": DataSet(
        code_problems.human_eval_files,
        code_problems.human_eval_source,
        code_problems.human_eval_rows,
        code_problems.human_eval_question,
        code_problems.HUMAN_EVAL_SHAPE,
    ),
    "mbpp": DataSet(
        code_problems.mbpp_files,
        code_problems.mbpp_source,
        code_problems.mbpp_rows,
        code_problems.mbpp_question,
        code_problems.MBPP_SHAPE,
    ),
    "hagrid": DataSet(
        hagrid.hagrid_files,
        hagrid.hagrid_source,
        hagrid.hagrid_rows,
        hagrid.hagrid_question,
        hagrid.SHAPE,
    ),
}
