"""Questions: the embedded set, a user's own file, and what is wrong with a file."""

import json

import pytest

from samlib import paths
from samlib.bench.data import TASKS, Question, data_source, load_questions, rounds
from samlib.errors import SetupError


@pytest.fixture(autouse=True)
def embedded(monkeypatch):
    monkeypatch.delenv("SAMLIB_DATA", raising=False)


@pytest.fixture
def spec_bench(tmp_path, monkeypatch):
    """A function that writes rows as the user's Spec-Bench file and makes it the source."""

    def write(lines):
        file = tmp_path / "spec_bench" / "question.jsonl"
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
        monkeypatch.setenv("SAMLIB_DATA", str(tmp_path))

    return write


def row(number, category, turns=("Hello?",)):
    return {"question_id": number, "category": category, "turns": list(turns), "reference": ["ignored"]}


def test_the_embedded_questions_cover_the_six_tasks():
    questions = load_questions("smoke")
    assert {question.category for question in questions} == set(TASKS)
    assert data_source("smoke") == "embedded mini benchmark"


def test_spec_benchs_eight_conversation_categories_are_one_task(spec_bench):
    spec_bench([row(i, category) for i, category in enumerate(["writing", "math", "humanities", *TASKS[1:]])])
    questions = load_questions("smoke")
    assert [question.category for question in questions] == ["multi_turn"] * 3 + list(TASKS[1:])
    assert questions[0] == Question(0, "multi_turn", ("Hello?",))
    assert data_source("smoke") == "Spec-Bench"


def test_line_separators_inside_a_string_do_not_end_a_line(spec_bench):
    spec_bench([json.dumps(row(i, task, ["a\u2028b\x85c"]), ensure_ascii=False) for i, task in enumerate(TASKS)])
    assert load_questions("smoke")[0].turns == ("a\u2028b\x85c",)


@pytest.mark.parametrize(
    "line",
    ["not json", "[1]", '{"question_id": 1, "turns": ["a"]}', row(1, "qa", []), row(1, "qa", [3]), row(1, "poetry"),
     row(1, "qa", [""])],
)  # fmt: skip
def test_a_bad_line_is_named_with_its_number(spec_bench, line):
    spec_bench([row(0, "qa"), line])
    with pytest.raises(SetupError, match=r"question.jsonl:2: "):
        load_questions("smoke")


def test_a_missing_task_is_named(spec_bench):
    spec_bench([row(i, task) for i, task in enumerate(TASKS) if task != "rag"])
    with pytest.raises(SetupError, match="no questions for rag"):
        load_questions("smoke")


def test_a_data_folder_without_spec_bench_leaves_the_embedded_questions(tmp_path, monkeypatch):
    monkeypatch.setenv("SAMLIB_DATA", str(tmp_path))
    assert data_source() == "embedded mini benchmark"
    assert len(load_questions("smoke")) == 72


def test_a_data_folder_that_is_none_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("SAMLIB_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(SetupError, match="nowhere"):
        load_questions("smoke")


def questions(counts):
    return [Question(100 * t + i, task, ("?",)) for t, task in enumerate(TASKS) for i in range(counts.get(task, 0))]


def test_a_round_has_one_question_of_every_task_and_all_questions_come_once():
    groups = rounds(questions({task: 3 for task in TASKS}), seed=1)
    assert [[q.category for q in group] for group in groups] == [list(TASKS)] * 3
    assert len({q.question_id for group in groups for q in group}) == 18


def test_rounds_go_on_without_the_tasks_that_are_used_up():
    groups = rounds(questions({"qa": 3, "rag": 1}), seed=1)
    assert [[q.category for q in group] for group in groups] == [["qa", "rag"], ["qa"], ["qa"]]


def test_the_order_is_fixed_shuffled_and_not_disturbed_by_a_new_question():
    before = [q.question_id for group in rounds(questions({"qa": 40}), seed=1) for q in group]
    after = [q.question_id for group in rounds(questions({"qa": 41}), seed=1) for q in group]
    assert before != sorted(before)
    assert [number for number in after if number in before] == before


def test_the_embedded_files_are_where_the_package_says():
    assert sorted(path.stem for path in paths.MINI_BENCH.glob("*.jsonl")) == sorted(TASKS)
