"""No 13-gram of the benchmark stands in the corpus of the static index, by words and by the model's tokens."""

import re

import pytest

from samlib import paths
from samlib.bench.data import load_questions
from samlib.bench.static import corpus_rows
from tests.bench.test_mini_bench import prompts, tokenizer  # noqa: F401  (a fixture)

N = 13


def ngrams(units, n=N):
    return {tuple(units[i : i + n]) for i in range(len(units) - n + 1)}


def words(text):
    """Lower-cased runs of letters and digits: punctuation and layout do not hide a copy."""
    return re.findall(r"[^\W_]+", text.lower())


def shared(benchmark, corpus, units):
    """The n-grams of any benchmark text that any corpus text holds too; n-grams do not cross texts."""
    ours = set().union(*(ngrams(units(text)) for text in benchmark))
    return sorted(gram for gram in set().union(*(ngrams(units(text)) & ours for text in corpus)))


def benchmark_texts():
    return [turn for question in load_questions() for turn in question.turns]


def corpus_texts():
    answers = [text for row in corpus_rows() for text in (row["prompt"], row["answer"])]
    return [*prompts(), *answers]


@pytest.fixture(autouse=True)
def embedded(monkeypatch):
    monkeypatch.delenv("SAMLIB_DATA", raising=False)
    assert paths.external_data() is None


def test_the_check_finds_a_copy_despite_case_and_punctuation():
    text = benchmark_texts()[0]
    thirteen = " ".join(words(text)[:N])
    assert len(shared([text], [f"Well: {thirteen.upper()}!"], words)) == 1
    assert shared([text], [" ".join(words(text)[: N - 1])], words) == []


def test_no_thirteen_words_of_the_benchmark_stand_in_the_corpus():
    assert shared(benchmark_texts(), corpus_texts(), words) == []


@pytest.mark.model
def test_no_thirteen_tokens_of_the_benchmark_stand_in_the_corpus(tokenizer):  # noqa: F811
    def tokens(text):
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    assert shared(benchmark_texts(), corpus_texts(), tokens) == []
