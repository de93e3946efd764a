"""The large corpus: what it is made of and in which order, cut where it should be, kept and found again."""

import dataclasses
import hashlib
import json

import numpy as np
import pytest

from samlib import paths
from samlib.bench import large_corpus
from samlib.bench.large_corpus import load_large_corpus
from samlib.bench.profiles import load_profile
from samlib.bench.tiny import tiny_tokenizer
from samlib.errors import SetupError

PROFILE = dataclasses.replace(load_profile("smoke"), automaton_tokens=40)
EMBEDDED = "What is 2+2?It is four."  # 23 tokens: the tiny tokenizer has one a byte
FILES = {
    "lib/b.py": "import b\n",
    "lib/a/z.py": "z = 'é'\n",
    "lib/a/latin.py": b"caf\xe9",
    "lib/a/notes.txt": "not Python",
    "lib/empty.py": "",
    "lib/a/__pycache__/z.py": "cached = True\n",
    "lib/site-packages/p/one.py": "one = 1\n",
    "lib/site-packages/p/two.py": "two = 2  # and a comment\n",
}
IN_ORDER = [EMBEDDED, FILES["lib/a/z.py"], FILES["lib/b.py"]]
IN_ORDER += [FILES["lib/site-packages/p/one.py"], FILES["lib/site-packages/p/two.py"]]


@pytest.fixture(autouse=True)
def environment(tmp_path, monkeypatch):
    """A tiny environment folder, an embedded corpus of one document, and an empty cache; eight tokens held out."""
    for name, content in FILES.items():
        write(tmp_path / name, content)
    write(tmp_path / "corpus/answers/a.jsonl", json.dumps({"prompt": "What is 2+2?", "answer": "It is four."}) + "\n")
    places = {"stdlib": str(tmp_path / "lib"), "purelib": str(tmp_path / "lib/site-packages")}
    monkeypatch.setattr(large_corpus.sysconfig, "get_paths", lambda: places)
    monkeypatch.setattr(large_corpus, "HELD_OUT", 8)
    monkeypatch.setattr(paths, "CORPUS", tmp_path / "corpus")
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    return tmp_path


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def load(tokens=None):
    return load_large_corpus(PROFILE, tokens, progress=False)


def texts(documents):
    return [tiny_tokenizer().decode(ids) for ids in documents]


def cached():
    return [(path, path.stat().st_mtime_ns) for path in sorted((paths.CACHE / "large_corpus").iterdir())]


def test_embedded_corpus_then_standard_library_then_packages_each_sorted():
    everything = sum(len(text.encode()) for text in IN_ORDER[:-1])
    assert texts(load(everything).documents()) == IN_ORDER[:-1]


def test_the_last_document_is_cut_and_only_later_documents_are_held_out():
    corpus = load(23 + 9 + 4)
    assert texts(corpus.documents()) == [*IN_ORDER[:2], "impo"]
    assert texts([corpus.held_out]) == [IN_ORDER[3]]
    assert texts(corpus.documents(25)) == [EMBEDDED, "z "]
    assert texts(corpus.documents(23)) == [EMBEDDED]


def test_the_facts_say_what_it_is_made_of():
    corpus = load()
    ids = tiny_tokenizer()("".join(IN_ORDER), add_special_tokens=False)["input_ids"][:40]
    assert corpus.tokens.dtype == np.int32 and corpus.tokens.tolist() == ids
    assert corpus.facts == {
        "tokens": 40,
        "documents": 3,
        "bytes": sum(len(text.encode()) for text in IN_ORDER[:3]),
        "skipped": 1,
        "vocabulary": 259,
        "sha256": hashlib.sha256(np.asarray(ids, dtype=np.int32).tobytes()).hexdigest(),
    }


def test_it_is_tokenised_once(monkeypatch):
    first, before = load(), cached()
    monkeypatch.setattr(large_corpus, "_assemble", None)
    again = load()
    assert again.tokens.tolist() == first.tokens.tolist() and again.facts == first.facts
    assert cached() == before


def test_a_changed_file_and_another_size_are_another_corpus(environment):
    load()
    write(environment / "lib/b.py", "import bb\n")
    assert texts(load().documents())[2] == "import b"
    load(30)
    assert len(cached()) == 3


@pytest.mark.parametrize("keep", [0, 100, -1])
def test_a_damaged_file_is_made_anew_with_a_warning(keep):
    first = load()
    ((path, _),) = cached()
    whole = path.read_bytes()
    path.write_bytes(whole[:keep])
    with pytest.warns(UserWarning, match="tokenising anew"):
        assert load().tokens.tolist() == first.tokens.tolist()


def test_a_flipped_bit_is_found():
    first = load()
    ((path, _),) = cached()
    content = bytearray(path.read_bytes())
    content[content.index(first.tokens.tobytes()) + 3] ^= 1
    path.write_bytes(content)
    with pytest.warns(UserWarning, match="tokenising anew"):
        assert load().tokens.tolist() == first.tokens.tolist()


def test_more_than_there_is_says_how_much_there_is():
    with pytest.raises(SetupError, match="ask for .* or less") as caught:
        load(10_000)
    most = int(str(caught.value).split("ask for ")[1].split()[0])
    assert len(load(most).tokens) == most
    assert [path.suffix for path, _ in cached()] == [".npz"]
