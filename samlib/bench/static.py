"""The static suffix automaton of a profile and a data set: the corpus that belongs to it, tokenised for the profile.

As in the paper, each has its own: Spec-Bench all of the model's answers, HumanEval and MBPP those about code, HAGRID
the documents of its training split.
"""

import json
import warnings

from samlib import paths
from samlib.bench import hagrid
from samlib.bench.data import require_dataset
from samlib.bench.model import load_tokenizer
from samlib.bench.packages import sha256_of
from samlib.bench.profiles import load_profile
from samlib.bench.prompts import document_ids
from samlib.bench.records import jsonl_lines, settings_key
from samlib.errors import FingerprintError, IndexFormatError, SetupError

DOCUMENT_RULE = "prompt+answer, tokenised apart"  # part of the key: another rule is another index

#: Which shards of `data/corpus/answers` a data set's corpus takes; HAGRID has documents of its own.
SHARDS = {"spec_bench": "*.jsonl", "human_eval": "code_*.jsonl", "mbpp": "code_*.jsonl"}


def load_static(profile="cpu", *, dataset="spec_bench", tokenizer=None, progress=True):
    """Return the StaticAutomaton over a data set's corpus; built on first use, then memory-mapped from the cache.

    A document is a prompt and the answer to it. Data sets with the same corpus share one file. A damaged cache file is
    rebuilt, with a warning. `tokenizer`: the profile's own, where the caller already has it. SetupError: an unknown
    data set, or a corpus that is missing.
    """
    from samlib import StaticAutomaton

    profile = load_profile(profile)
    tokenizer = tokenizer or load_tokenizer(profile)
    fingerprint = static_fingerprint(profile, tokenizer, dataset)
    path = paths.CACHE / "static" / f"{profile.model}-{fingerprint}.sam"
    if path.exists():
        try:
            return StaticAutomaton.load(path, vocab_size=len(tokenizer), fingerprint=fingerprint)
        except (IndexFormatError, FingerprintError) as error:
            warnings.warn(f"rebuilding the static index: {error}", stacklevel=2)
    documents = corpus_documents(profile, tokenizer, dataset, progress=progress)
    index = StaticAutomaton.build(documents, vocab_size=len(tokenizer), fingerprint=fingerprint)
    path.parent.mkdir(parents=True, exist_ok=True)
    index.save(path)
    return index


def static_fingerprint(profile, tokenizer, dataset="spec_bench"):
    """A short hash of all that the index depends on: corpus files, how many documents, tokenizer, document rule."""
    rule = [DOCUMENT_RULE, hagrid.DOCUMENT_RULE] if dataset == "hagrid" else DOCUMENT_RULE
    sums = [sha256_of(path) for path in corpus_files(dataset)]
    probe = tokenizer("The quick brown fox, 1 + 1 = 2; naïve café.\n\tdef f(x): return x", add_special_tokens=False)
    return settings_key([rule, sums, profile.static_documents, len(tokenizer), probe["input_ids"]])


def corpus_source(dataset="spec_bench"):
    """The name of a data set's corpus, for captions."""
    require_dataset(dataset)
    if dataset == "hagrid":
        return hagrid.training_source()
    return "the model's answers" if dataset == "spec_bench" else "the model's answers to code prompts"


def corpus_files(dataset="spec_bench"):
    """The files of a data set's corpus, sorted; SetupError where there is none."""
    require_dataset(dataset)
    if dataset == "hagrid":
        return hagrid.training_files()
    files = sorted((paths.CORPUS / "answers").glob(SHARDS[dataset]))
    if not files:
        raise SetupError(f"no corpus in {paths.CORPUS / 'answers'}: restore it from git, or run make_corpus.py there")
    return files


def corpus_rows(dataset="spec_bench"):
    """Yield the rows of a data set's corpus, {"kind", "prompt", "answer"}."""
    files = corpus_files(dataset)
    if dataset == "hagrid":
        yield from hagrid.training_documents()
        return
    for path in files:
        yield from map(json.loads, jsonl_lines(path))


def corpus_documents(profile, tokenizer, dataset="spec_bench", *, progress=True):
    """Return the corpus as a list of int32 arrays, the first `profile.static_documents` where that is a number."""
    from tqdm import tqdm

    rows = list(corpus_rows(dataset))[: profile.static_documents]
    bar = tqdm(rows, desc="tokenise the corpus (once)", unit="document", disable=not progress)
    return [document_ids(tokenizer, row["prompt"], row["answer"]) for row in bar]
