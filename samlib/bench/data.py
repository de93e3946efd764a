"""The questions of the benchmark, in Spec-Bench's schema: the embedded set, or the user's own Spec-Bench file."""

import dataclasses
import hashlib
import json

from samlib import paths
from samlib.bench.records import jsonl_lines
from samlib.errors import SetupError

TASKS = ("multi_turn", "translation", "summarization", "qa", "math_reasoning", "rag")

#: Spec-Bench keeps MT-bench's eight categories apart in its file and reports them as one task.
MULTI_TURN_CATEGORIES = frozenset(
    ("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities", "multi_turn")
)
SPEC_BENCH_FILE = "spec_bench/question.jsonl"


@dataclasses.dataclass(frozen=True)
class Question:
    """One question: its id in the file, its task (one of TASKS), and what the user says in each turn."""

    question_id: int
    category: str
    turns: tuple[str, ...]


def load_questions(profile=None):
    """Return all questions, in the order of the file.

    They come from `spec_bench/question.jsonl` in the folder that SAMLIB_DATA names, else from the embedded set; no
    profile so far chooses another source. SetupError: no such file, or a line that is not a question.
    """
    questions = [_parse(line, where) for where, line in _lines()]
    missing = [task for task in TASKS if all(question.category != task for question in questions)]
    if missing:
        raise SetupError(f"no questions for {', '.join(missing)} in {_folder()}; every task needs at least one")
    return questions


def data_source(profile=None):
    """The data set's name, for captions and records."""
    return "Spec-Bench" if paths.external_data() else "embedded mini benchmark"


def question_files():
    """The files that `load_questions` reads. SetupError where one is missing."""
    external = paths.external_data()
    if external is None:
        files = [paths.MINI_BENCH / f"{task}.jsonl" for task in TASKS]
    else:
        files = [external / SPEC_BENCH_FILE]
    for file in files:
        if not file.is_file():
            raise SetupError(f"missing data file {file}; a --data folder must hold {SPEC_BENCH_FILE}")
    return files


def rounds(questions, seed):
    """Return lists of questions: list r holds the r-th question of every task that has one.

    Within a task the order is a fixed shuffle (by a hash of seed and id), so that the first few rounds are spread over
    a file that is sorted by subject, and adding a question does not reorder the others.
    """
    by_task = {task: sorted(_of_task(questions, task), key=lambda q: _rank(q, seed)) for task in TASKS}
    count = max(len(group) for group in by_task.values())
    return [[group[r] for group in by_task.values() if r < len(group)] for r in range(count)]


def _of_task(questions, task):
    return [question for question in questions if question.category == task]


def _rank(question, seed):
    return hashlib.sha256(f"{seed}:{question.question_id}".encode()).hexdigest()


def _folder():
    return paths.external_data() or paths.MINI_BENCH


def _lines():
    """Yield ("file:line", text) for every line that is not blank."""
    for file in question_files():
        for number, line in enumerate(jsonl_lines(file), start=1):
            if line.strip():
                yield f"{file}:{number}", line


def _parse(line, where):
    try:
        row = json.loads(line)
        category = "multi_turn" if row["category"] in MULTI_TURN_CATEGORIES else row["category"]
        question = Question(row["question_id"], category, tuple(row["turns"]))
    except (ValueError, KeyError, TypeError) as error:
        raise SetupError(f"{where}: not a question (JSON with question_id, category and turns)") from error
    if category not in TASKS or not question.turns or not all(isinstance(t, str) and t for t in question.turns):
        raise SetupError(f"{where}: unknown category {row['category']!r}, or no turns")
    return question
