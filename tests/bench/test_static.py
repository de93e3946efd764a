"""The static index of a profile: built once, then opened; rebuilt when its inputs change or its file is damaged."""

import dataclasses
import json

import numpy as np
import pytest

from samlib import paths
from samlib.bench import load_static
from samlib.bench.profiles import load_profile
from samlib.bench.tiny import tiny_tokenizer
from samlib.errors import SetupError

PROFILE = dataclasses.replace(load_profile("smoke"), static_documents=None)
ROWS = [("What is 2+2?", "It is four."), ("Name a tree.", "An oak\u2028is a tree."), ("And a bird?", "A wren.")]


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """A corpus of three documents in two shards, and an empty cache."""
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
