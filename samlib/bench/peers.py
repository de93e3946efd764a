"""Other indexes that the static automaton is measured against, each behind one small protocol.

None of them is needed: one that is not installed is left out (`pip install samlib[peers]`; ArcticInference: `pip
install arctic-inference`). They are native code that may end the whole process, so that they are only called in a
child of their own.
"""

import importlib.util
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Protocol

import numpy as np

import samlib
from samlib.automaton import StaticAutomaton
from samlib.bench.limits import DRAFT
from samlib.bench.plain_automaton import PlainAutomaton

RECENT = 64  # tokens of the text before a lookup that a peer is shown


class Peer(Protocol):
    """An index over documents that drafts what may follow a text.

    name: for readers. max_tokens: the largest corpus that is worth the wait, or None. peak_bytes: what building takes
    a token at its peak, about. saves: building writes a file. cheap: measured by every notebook run.
    """

    name: str
    max_tokens: int | None
    peak_bytes: int
    saves: bool
    cheap: bool

    @staticmethod
    def installed():
        """The version, or None where the peer cannot be imported."""

    def prepare(self, documents, vocab_size):
        """The documents (int32 arrays) in the form that building takes; its time is not counted."""

    def build(self, prepared):
        """Index the prepared documents; its time is what is measured."""

    def lookup(self, token, recent):
        """Draft at most 40 tokens after `token`, the newest; recent: the newest 64, it included, as an int32 array.

        Each call follows the text by one token.
        """


class Samlib:
    """The library itself, for the same calls."""

    name, max_tokens, peak_bytes, saves, cheap = "samlib", None, 150, False, True

    @staticmethod
    def installed():
        return samlib.__version__

    def prepare(self, documents, vocab_size):
        self._vocab_size = vocab_size
        return documents

    def build(self, prepared):
        self.index = self.cursor = None  # gives the one before back first
        self.index = StaticAutomaton.build(prepared, vocab_size=self._vocab_size)
        self.cursor = self.index.cursor()

    def lookup(self, token, recent):
        self.cursor.advance(token)
        return self.cursor.draft(DRAFT)


class PlainPython:
    """The same index in plain Python: documents, occurrence counts, ranked edges."""

    name, max_tokens, peak_bytes, saves, cheap = "plain Python", 1_000_000, 1000, False, True

    @staticmethod
    def installed():
        return samlib.__version__

    def prepare(self, documents, vocab_size):
        return [ids.tolist() for ids in documents]

    def build(self, prepared):
        self.automaton = PlainAutomaton()
        for document in prepared:
            self.automaton.begin_document()
            for token in document:
                self.automaton.extend(token)
        self.ranked = self.automaton.ranked(self.automaton.occurrences())
        self.match = 0, 0

    def lookup(self, token, recent):
        self.match = self.automaton.advance(*self.match, token)
        start = self.automaton.first_end[self.match[0]] + 1
        return self.automaton.text[start : start + DRAFT] if self.match[1] else []


class DraftRetriever:
    """ADED's index in Rust: the continuations of every two tokens with their counts, and a tree search over them.

    The package is named after the index of REST, a suffix array, but is not that one: it finds no longest match. It
    aborts the process on queries of less than two tokens and where only one choice is asked for. It is given the last
    16 tokens, and asked for a tree of 40.
    """

    name, max_tokens, peak_bytes, saves, cheap = "DraftRetriever", None, 120, True, False
    SPAN = 16

    @staticmethod
    def installed():
        return _version("draftretriever", "draftretriever")

    def prepare(self, documents, vocab_size):
        self._vocab_size = vocab_size
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name, "index")
        return [ids.tolist() for ids in documents]

    def build(self, prepared):
        import draftretriever

        self.path.unlink(missing_ok=True)
        writer = draftretriever.Writer(file_path=str(self.path), vocab_size=self._vocab_size)
        for ids in prepared:
            writer.add_entry(ids)
        writer.finalize()
        self._reader = None

    def lookup(self, token, recent):
        if self._reader is None:
            import draftretriever

            self._reader = draftretriever.Reader(index_file_path=str(self.path))
        return self._reader.search(recent[-self.SPAN :].tolist(), choices=DRAFT)[0]


class ArcticInference:
    """SuffixDecoding's tree of depth 64, in C++; a sequence a document, a chain of 40 tokens asked for."""

    name, max_tokens, peak_bytes, saves, cheap = "ArcticInference", 2_000_000, 700, False, False
    DEPTH = 64

    @staticmethod
    def installed():
        return _version("arctic_inference.suffix_decoding._C", "arctic-inference")

    def prepare(self, documents, vocab_size):
        return documents

    def build(self, prepared):
        from arctic_inference.suffix_decoding._C import SuffixTree

        self.tree = None  # gives the one before back first
        self.tree = SuffixTree(self.DEPTH)
        for number, ids in enumerate(prepared):
            self.tree.extend_ndarray(number, ids)

    def lookup(self, token, recent):
        return self.tree.speculate_ndarray(recent[-self.DEPTH :], DRAFT, 0.0, float(DRAFT), 0.0, False).token_ids


class PromptLookup:
    """Hugging Face's prompt lookup: a scan of the context for its last 3 (2, 1) tokens. It has no index to build."""

    name = "Hugging Face prompt lookup"

    @staticmethod
    def installed():
        return _version("transformers", "transformers")

    def __init__(self, text):
        import torch
        from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

        self._ids = torch.from_numpy(np.asarray(text, dtype=np.int64))[None]
        self._scan = PromptLookupCandidateGenerator(
            num_output_tokens=DRAFT, max_matching_ngram_size=3, max_length=len(text) + 2 * DRAFT
        )

    def lookup(self, length):
        """Draft after the text's first `length` tokens."""
        return self._scan.get_candidates(self._ids[:, :length])[0][0, length:]


PEERS = {peer.name: peer for peer in (PlainPython, DraftRetriever, ArcticInference)}


def largest_size(peer, tokens, memory):
    """The tokens to measure a peer at: all, or what it bears in half of `memory` (bytes), in hundred thousands."""
    bounds = [bound for bound in (peer.max_tokens, memory // 2 // peer.peak_bytes) if bound is not None]
    if min(bounds) >= tokens:
        return tokens
    return max(min(bounds) // 100_000 * 100_000, min(tokens, 10_000))


def _version(module, distribution):
    """The version of a package that can be imported, "unknown" where it names none, None where it is missing."""
    try:
        if importlib.util.find_spec(module) is None:
            return None
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "unknown"
    except ImportError:
        return None
