"""Millions of tokens that every machine has: the embedded corpus, then the Python files of the running environment.

The environment's files are the standard library's, then those of site-packages, each sorted by relative path; one
document a file, tokenised without special tokens. The last document of the corpus is cut at the wanted number of
tokens; whole documents after that one make the *held-out* text, which no index holds. The result is kept in the cache,
in a file whose name changes with the tokenizer, the files' names and sizes, and the number of tokens.
"""

import hashlib
import json
import os
import sysconfig
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from samlib import paths
from samlib.bench.model import load_tokenizer
from samlib.bench.profiles import load_profile
from samlib.bench.records import settings_key
from samlib.bench.static import corpus_documents, static_fingerprint
from samlib.errors import SetupError

RULE = "corpus, stdlib, site-packages; a document a file"  # part of the key: another rule is another corpus
HELD_OUT = 20_000  # tokens
BATCH = 32  # files tokenised in one call
NO_SOURCES = {"site-packages", "dist-packages", "__pycache__"}  # folders that the standard library's walk leaves out


@dataclass(frozen=True)
class LargeCorpus:
    """Documents end to end, and held-out text.

    tokens: int32 array of shape (n,). ends: int64 array, the end of each document. held_out: int32 array. facts: JSON
    object with tokens, documents, bytes (of the texts; the cut document counts whole), skipped (files that could not
    be read or decoded), vocabulary, sha256 (of the tokens). path: the file in the cache.
    """

    tokens: np.ndarray
    ends: np.ndarray
    held_out: np.ndarray
    facts: dict
    path: Path

    def documents(self, tokens=None):
        """The documents as a list of int32 arrays (views), the last one cut where `tokens` are reached."""
        tokens = len(self.tokens) if tokens is None else min(tokens, len(self.tokens))
        bounds = [0, *self.ends[self.ends < tokens].tolist(), tokens]
        return [self.tokens[start:end] for start, end in zip(bounds, bounds[1:], strict=False) if end > start]


def load_large_corpus(profile="cpu", tokens=None, *, tokenizer=None, progress=True):
    """Return the LargeCorpus of a profile, `tokens` long (default: the profile's), from the cache where it is there.

    Tokenising takes about three seconds a million tokens. A damaged cache file is made anew, with a warning.
    SetupError where the environment holds fewer tokens.
    """
    profile = load_profile(profile)
    tokens = profile.automaton_tokens if tokens is None else tokens
    tokenizer = tokenizer or load_tokenizer(profile)
    files = environment_files()
    path = paths.CACHE / "large_corpus" / f"{profile.model}-{corpus_key(profile, tokenizer, files, tokens)}.npz"
    if path.exists():
        try:
            return read_large_corpus(path)
        except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile, zipfile.zlib.error) as error:
            warnings.warn(f"tokenising anew: {path} is damaged ({error})", stacklevel=2)
    _write(path, _assemble(profile, tokenizer, files, tokens, progress))
    return read_large_corpus(path)


def read_large_corpus(path):
    """Read a file that `load_large_corpus` wrote; every array's checksum is compared, and nothing is unpickled."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in ("tokens", "ends", "held_out")}
        return LargeCorpus(**arrays, facts=json.loads(str(file["facts"])), path=Path(path))


def corpus_key(profile, tokenizer, files, tokens):
    """A short hash of all that the corpus depends on: tokenizer, embedded corpus, files with sizes, lengths."""
    listed = [[name, path.stat().st_size] for name, path in files]
    return settings_key([RULE, static_fingerprint(profile, tokenizer), listed, tokens, HELD_OUT])


def environment_files(folders=None):
    """(relative path, path) of every Python file: the standard library's first, then those of site-packages, sorted.

    folders: {name: folder} to use instead.
    """
    places = sysconfig.get_paths()
    folders = folders or {"stdlib": places["stdlib"], "site-packages": places["purelib"]}
    return [item for name, folder in folders.items() for item in _python_files(name, Path(folder))]


def _python_files(name, root):
    found = []
    for folder, inner, files in os.walk(root):
        inner[:] = [child for child in inner if child not in NO_SOURCES]
        found += [Path(folder, file) for file in files if file.endswith(".py")]
    named = [(f"{name}/{path.relative_to(root).as_posix()}", path) for path in found]
    return sorted(item for item in named if item[1].is_file())


class _Assembly:
    """Documents, taken up to a number of tokens; the rest of the cut one is dropped, and then the held-out ones."""

    def __init__(self, tokens, bar):
        self.tokens, self.bar = tokens, bar
        self.documents, self.held_out = [], []
        self.size = self.spare = self.bytes = self.skipped = 0

    @property
    def is_complete(self):
        return self.size == self.tokens and self.spare >= HELD_OUT

    def most(self):
        """How many tokens there could be with enough documents after them."""
        sizes, spare = [len(ids) for ids in self.documents + self.held_out], 0
        while sizes and spare < HELD_OUT:
            spare += sizes.pop()
        return sum(sizes)

    def add(self, ids, num_bytes):
        """Take one document, as far as it is needed."""
        if self.size < self.tokens:
            kept = ids[: self.tokens - self.size]
            self.documents.append(kept)
            self.size += len(kept)
            self.bytes += num_bytes
            self.bar.update(len(kept))
        elif self.spare < HELD_OUT:
            self.held_out.append(ids)
            self.spare += len(ids)


def _assemble(profile, tokenizer, files, tokens, progress):
    """The content of the cache file, as a dict of arrays."""
    from tqdm import tqdm

    with tqdm(total=tokens, desc="tokenise (once)", unit="token", unit_scale=True, disable=not progress) as bar:
        assembly = _Assembly(tokens, bar)
        for ids in corpus_documents(profile, tokenizer, progress=False):
            assembly.add(ids, len(tokenizer.decode(ids).encode()))
        _add_files(assembly, tokenizer, [path for _, path in files])
    if not assembly.is_complete:
        most = assembly.most()
        raise SetupError(f"this environment has too few Python files for {tokens:,} tokens: ask for {most:,} or less")
    joined = np.concatenate(assembly.documents).astype(np.int32)
    facts = {
        "tokens": tokens,
        "documents": len(assembly.documents),
        "bytes": assembly.bytes,
        "skipped": assembly.skipped,
        "vocabulary": len(tokenizer),
        "sha256": hashlib.sha256(joined.tobytes()).hexdigest(),
    }
    ends = np.cumsum([len(ids) for ids in assembly.documents])
    held_out = np.concatenate(assembly.held_out)[:HELD_OUT].astype(np.int32)
    return {"tokens": joined, "ends": ends, "held_out": held_out, "facts": np.asarray(json.dumps(facts))}


def _add_files(assembly, tokenizer, files):
    for first in range(0, len(files), BATCH):
        if assembly.is_complete:
            return
        texts = [text for text in map(_text, files[first : first + BATCH]) if text is not None]
        assembly.skipped += len(files[first : first + BATCH]) - len(texts)
        texts = [text for text in texts if text]
        if texts:
            for text, ids in zip(texts, _tokenise(tokenizer, texts), strict=True):
                assembly.add(np.asarray(ids, dtype=np.int32), len(text.encode()))


def _tokenise(tokenizer, texts):
    """The ids of each text; the tokenizer's remark that they are longer than the model's context is no news here."""
    return tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]


def _text(path):
    """A file's text, or None where it cannot be read or is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _write(path, arrays):
    """Write the cache file in one piece."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        with open(partial, "wb") as file:
            np.savez(file, **arrays)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
