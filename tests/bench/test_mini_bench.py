"""The embedded benchmark and corpus prompts are what the data card says: counts, turns, lengths, variety."""

import collections

import pytest

from samlib import paths
from samlib.bench.data import TASKS, load_questions
from samlib.bench.model import load_tokenizer
from samlib.bench.prompts import prompt_ids
from samlib.bench.static import corpus_rows

KINDS = ("instruction", "code", "math")


@pytest.fixture(autouse=True)
def embedded(monkeypatch):
    monkeypatch.delenv("SAMLIB_DATA", raising=False)


@pytest.fixture(scope="session")
def tokenizer():
    """The default model's tokenizer; skips where the model has not been fetched."""
    if not (paths.MODELS / "smollm2-135m-instruct" / "checksums.json").exists():
        pytest.skip("the default model is not under data/cache/models")
    return load_tokenizer("cpu")


def prompts():
    files = [paths.CORPUS / "prompts" / f"{kind}.txt" for kind in KINDS]
    return [line for file in files for line in file.read_text(encoding="utf-8").removesuffix("\n").split("\n")]


@pytest.mark.parametrize("task", TASKS)
def test_each_task_has_at_least_ten_questions_with_its_number_of_turns(task):
    own = [question for question in load_questions() if question.category == task]
    assert len(own) >= 10
    assert {len(question.turns) for question in own} == {2 if task == "multi_turn" else 1}


def test_question_ids_and_texts_are_unique():
    questions = load_questions()
    assert len({question.question_id for question in questions}) == len(questions)
    assert len({question.turns for question in questions}) == len(questions)


@pytest.mark.model
@pytest.mark.parametrize("task", ["summarization", "rag"])
def test_long_tasks_have_prompts_of_the_real_ones_lengths(tokenizer, task):
    own = [question for question in load_questions() if question.category == task]
    lengths = [len(prompt_ids(tokenizer, [{"role": "user", "content": q.turns[0]}])) for q in own]
    assert 500 <= min(lengths) and max(lengths) <= 950  # 500-900 and the chat template's own


def test_there_are_a_thousand_different_prompts():
    assert len(prompts()) >= 1000
    assert len(set(prompts())) == len(prompts())
    assert all(prompt.strip() == prompt != "" for prompt in prompts())


def test_at_most_two_percent_of_the_prompts_begin_with_the_same_five_words():
    starts = collections.Counter(" ".join(prompt.lower().split()[:5]) for prompt in prompts())
    start, count = starts.most_common(1)[0]
    assert count <= 0.02 * len(prompts()), f"{count} prompts begin with {start!r}"


def test_every_prompt_has_its_answer_in_the_corpus():
    answered = collections.Counter(row["prompt"] for row in corpus_rows())
    assert answered == collections.Counter(prompts())
    assert all(row["kind"] in KINDS and row["answer"].strip() for row in corpus_rows())


@pytest.mark.model
def test_the_corpus_has_150_thousand_tokens(tokenizer):
    texts = [text for row in corpus_rows() for text in (row["prompt"], row["answer"])]
    assert sum(len(ids) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]) >= 150_000
