"""The static index of a data set: built once, then opened; rebuilt when its inputs change or its file is damaged."""

import dataclasses
import json

import numpy as np
import pytest

from samlib import paths
from samlib.bench import load_static
from samlib.bench.data import DATASETS
from samlib.bench.profiles import load_profile
from samlib.bench.static import corpus_files, corpus_source, static_fingerprint
from samlib.bench.tiny import tiny_tokenizer
from samlib.errors import SetupError

PROFILE = dataclasses.replace(load_profile("smoke"), static_documents=None)
ROWS = [("What is 2+2?", "It is four."), ("Name a tree.", "An oak\u2028is a tree."), ("And a bird?", "A wren.")]


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """A corpus of three documents in two shards, and an empty cache."""
    monkeypatch.delenv("SAMLIB_DATA", raising=False)
    monkeypatch.setattr(paths, "CORPUS", tmp_path / "corpus")
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    write_shard(tmp_path, "a", ROWS[:2])
    write_shard(tmp_path, "b", ROWS[2:])
    return tmp_path


def write_shard(folder, name, rows):
    path = folder / "corpus" / "answers" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"kind": "code", "prompt": p, "answer": a}, ensure_ascii=False) for p, a in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def index_files():
    return sorted((paths.CACHE / "static").iterdir())


def continuation(index, text, n):
    tokenizer = tiny_tokenizer()
    cursor = index.cursor()
    cursor.advance(np.asarray(tokenizer(text, add_special_tokens=False)["input_ids"], dtype=np.int32))
    return tokenizer.decode(cursor.draft(n))


def test_documents_are_prompt_and_answer_and_do_not_run_into_each_other(corpus):
    index = load_static(PROFILE)
    assert index.num_documents == 3
    assert continuation(index, "is 2+2?It is", 50) == " four."
    assert continuation(index, "An oak", 50) == "\u2028is a tree."


def test_the_second_call_opens_the_file_of_the_first(corpus):
    load_static(PROFILE)
    before = [(path.name, path.stat().st_mtime_ns) for path in index_files()]
    assert load_static(PROFILE).num_documents == 3
    assert [(path.name, path.stat().st_mtime_ns) for path in index_files()] == before


def test_a_changed_corpus_is_another_index(corpus):
    load_static(PROFILE)
    write_shard(corpus, "b", [("And a bird?", "A robin.")])
    assert continuation(load_static(PROFILE), "And a bird?", 8) == "A robin."
    assert len(index_files()) == 2


def test_a_profile_may_take_only_the_first_documents(corpus):
    assert load_static(dataclasses.replace(PROFILE, static_documents=1)).num_documents == 1


def test_a_damaged_index_is_rebuilt_with_a_warning(corpus):
    load_static(PROFILE)
    path = index_files()[0]
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.warns(UserWarning, match="rebuilding the static index"):
        assert load_static(PROFILE).num_documents == 3
    assert path.read_bytes() == whole


def test_a_missing_corpus_says_what_to_do(corpus, monkeypatch):
    monkeypatch.setattr(paths, "CORPUS", corpus / "nowhere")
    with pytest.raises(SetupError, match="no corpus in .*nowhere"):
        load_static(PROFILE)


@pytest.fixture
def corpora(corpus, monkeypatch):
    """The corpus with one more shard, of code, and a HAGRID-like training file of one document."""
    write_shard(corpus, "code_0000", [("Add two.", "x + y")])
    monkeypatch.setattr(paths, "HAGRID_LIKE", corpus / "hagrid_like")
    write_training(corpus / "hagrid_like", "Ann built it [1].")
    return corpus


def write_training(folder, answer):
    folder.mkdir(parents=True, exist_ok=True)
    row = {"query": "who built it", "quotes": [{"text": "Ann did."}], "answers": [{"answer": answer}]}
    (folder / "train.jsonl").write_text(json.dumps(row | {"query_id": "1"}) + "\n")


def test_each_data_set_has_the_corpus_that_belongs_to_it(corpora):
    sizes = {dataset: load_static(PROFILE, dataset=dataset).num_documents for dataset in DATASETS}
    assert sizes == {"spec_bench": 4, "human_eval": 1, "mbpp": 1, "hagrid": 1}
    assert continuation(load_static(PROFILE, dataset="mbpp"), "Add two.", 9) == "x + y"
    assert continuation(load_static(PROFILE, dataset="hagrid"), "[1] Ann did.Ann", 99) == " built it [1]."
    assert len(index_files()) == 3  # the two sets of code problems share one


def test_the_names_of_the_corpora_differ_where_the_corpora_do(corpora):
    assert len({corpus_source(dataset) for dataset in DATASETS}) == 3
    assert corpus_source("human_eval") == corpus_source("mbpp")


def test_another_training_file_is_another_index_and_leaves_the_others_alone(corpora):
    before = {dataset: static_fingerprint(PROFILE, tiny_tokenizer(), dataset) for dataset in DATASETS}
    write_training(corpora / "hagrid_like", "Bob built it [1].")
    after = {dataset: static_fingerprint(PROFILE, tiny_tokenizer(), dataset) for dataset in DATASETS}
    assert {dataset for dataset in DATASETS if before[dataset] != after[dataset]} == {"hagrid"}


def test_another_form_of_the_training_documents_is_another_index(corpora, monkeypatch):
    before = {dataset: static_fingerprint(PROFILE, tiny_tokenizer(), dataset) for dataset in DATASETS}
    monkeypatch.setattr("samlib.bench.hagrid.DOCUMENT_RULE", "the first answer alone")
    after = {dataset: static_fingerprint(PROFILE, tiny_tokenizer(), dataset) for dataset in DATASETS}
    assert {dataset for dataset in DATASETS if before[dataset] != after[dataset]} == {"hagrid"}


def test_the_users_own_training_split_comes_first(corpora, monkeypatch):
    monkeypatch.setenv("SAMLIB_DATA", str(corpora / "own"))
    write_training(corpora / "own" / "hagrid", "Cyd built it [1].")
    assert corpus_files("hagrid") == [corpora / "own" / "hagrid" / "train.jsonl"]
    assert continuation(load_static(PROFILE, dataset="hagrid"), "Ann did.Cyd", 6) == " built"


def test_a_corpus_without_code_and_an_unknown_data_set_are_named(corpus):
    with pytest.raises(SetupError, match="no corpus in"):
        load_static(PROFILE, dataset="human_eval")
    with pytest.raises(SetupError, match="unknown data set 'gsm8k'"):
        load_static(PROFILE, dataset="gsm8k")
