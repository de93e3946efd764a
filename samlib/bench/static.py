"""The static suffix automaton of a profile: the embedded corpus, tokenised by the profile's tokenizer."""

import json
import warnings

from samlib import paths
from samlib.bench.model import load_tokenizer, sha256_of
from samlib.bench.profiles import load_profile
from samlib.bench.prompts import document_ids
from samlib.bench.records import jsonl_lines, settings_key
from samlib.errors import FingerprintError, IndexFormatError, SetupError

DOCUMENT_RULE = "prompt+answer, tokenised apart"  # part of the key: another rule is another index


def load_static(profile="cpu", *, tokenizer=None, progress=True):
    """Return the StaticAutomaton over the profile's corpus; built on first use, then memory-mapped from the cache.

    A document is a prompt and the model's answer to it. A damaged cache file is rebuilt, with a warning.
    `tokenizer`: the profile's own, where the caller already has it. SetupError where the corpus is missing.
    """
    from samlib import StaticAutomaton

    profile = load_profile(profile)
    tokenizer = tokenizer or load_tokenizer(profile)
    fingerprint = static_fingerprint(profile, tokenizer)
    path = paths.CACHE / "static" / f"{profile.model}-{fingerprint}.sam"
    if path.exists():
        try:
            return StaticAutomaton.load(path, vocab_size=len(tokenizer), fingerprint=fingerprint)
        except (IndexFormatError, FingerprintError) as error:
            warnings.warn(f"rebuilding the static index: {error}", stacklevel=2)
    documents = corpus_documents(profile, tokenizer, progress=progress)
    index = StaticAutomaton.build(documents, vocab_size=len(tokenizer), fingerprint=fingerprint)
    path.parent.mkdir(parents=True, exist_ok=True)
    index.save(path)
    return index


def static_fingerprint(profile, tokenizer):
    """A short hash of all that the index depends on: corpus files, how many documents, tokenizer, document rule."""
    sums = [sha256_of(path) for path in corpus_files()]
    probe = tokenizer("The quick brown fox, 1 + 1 = 2; naïve café.\n\tdef f(x): return x", add_special_tokens=False)
    return settings_key([DOCUMENT_RULE, sums, profile.static_documents, len(tokenizer), probe["input_ids"]])


def corpus_files():
    """The corpus's shards, sorted; SetupError where there is none."""
    files = sorted((paths.CORPUS / "answers").glob("*.jsonl"))
    if not files:
        raise SetupError(f"no corpus in {paths.CORPUS / 'answers'}: restore it from git, or run make_corpus.py there")
    return files


def corpus_rows():
    """Yield the corpus's rows, {"kind", "prompt", "answer"}."""
    for path in corpus_files():
        yield from map(json.loads, jsonl_lines(path))


def corpus_documents(profile, tokenizer, *, progress=True):
    """Return the corpus as a list of int32 arrays, the first `profile.static_documents` where that is a number."""
    from tqdm import tqdm

    rows = list(corpus_rows())[: profile.static_documents]
    bar = tqdm(rows, desc="tokenise the corpus (once)", unit="document", disable=not progress)
    return [document_ids(tokenizer, row["prompt"], row["answer"]) for row in bar]
