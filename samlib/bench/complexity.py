"""What one lookup costs as texts grow: PLD's scan, a suffix array and the suffix automaton, measured side by side.

The paper's claim: a suffix automaton finds the longest suffix match in O(1) a token, amortised, whatever the length of
the text, where an n-gram scan reads all of it and a suffix array searches it anew. Each structure here makes the lookup
of one decoding step: a token arrives, the match is found, ten tokens are drafted.

- scan: n-grams of 3, 2, 1 tokens against the whole text, vectorised with numpy; the very function that `pld` calls.
- suffix_array: binary search in an array built beforehand, its building not timed. The array cannot grow by a token, so
  that a decoder would have to build it again at each step: for the growing context its cost here is a lower bound.
- automaton: `extend` (in a fixed corpus: `advance`), `match_length` and `draft`, as the drafters call them.
"""

from bisect import bisect_left
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd
from tqdm import tqdm

from samlib import paths
from samlib.automaton import DynamicAutomaton, StaticAutomaton
from samlib.bench.machine import cpu_name
from samlib.bench.profiles import load_profile
from samlib.bench.records import settings_key
from samlib.bench.turns import WARM_UP, time_interleaved
from samlib.drafters.pld import find_ngram

DRAFT = 10
MAX_NGRAM = 3
DOCUMENT = 256  # tokens a document of the synthetic corpus
LONGEST = 256  # tokens of the longest match that the suffix array looks for
BYTES = 4  # a token in the suffix array's text


@dataclass(frozen=True)
class ComplexitySettings:
    """What is measured: text lengths in tokens, steps timed at each length, vocabulary size, seed."""

    context_lengths: tuple[int, ...]
    corpus_lengths: tuple[int, ...]
    steps: int
    vocab_size: int = 32_000
    seed: int = 0

    def key(self):
        """A hash of settings and processor, stored with the times: they are kept while it stays the same."""
        return settings_key([asdict(self), cpu_name()])


FULL = ComplexitySettings(tuple(1000 << i for i in range(6)), tuple(2000 << i for i in range(9)), steps=1000)
SMALL = ComplexitySettings(tuple(1000 << i for i in range(4)), tuple(2000 << i for i in range(5)), steps=300)


def load_complexity(profile, *, progress=True):
    """The costs of a profile's run: read from runs/<profile>/records/complexity.csv, or measured and written there.

    Returns what `measure_complexity` does. Measuring takes under a minute, with the profile "smoke" some seconds.
    """
    name = load_profile(profile).name
    settings = SMALL if name == "smoke" else FULL
    path = paths.runs_dir(name) / "records" / "complexity.csv"
    frame = _read(path, settings)
    if frame is None:
        frame = measure_complexity(settings, progress=progress)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".tmp")
        frame.to_csv(partial, index=False)
        partial.replace(path)
    return frame


def measure_complexity(settings, *, progress=True):
    """Time the lookups of each structure at each length, in turns of some steps each.

    Returns one row a part ("context": the growing text itself; "corpus": a fixed one), structure and length (tokens):
    median and quartiles of a lookup in microseconds, the number of steps timed, and the settings' key.
    """
    jobs = [("context", n) for n in settings.context_lengths] + [("corpus", n) for n in settings.corpus_lengths]
    prepare = {"context": _context_lookups, "corpus": _corpus_lookups}
    rows = []
    for part, length in tqdm(jobs, desc="lookup cost", disable=not progress):
        rng = np.random.default_rng([settings.seed, length])
        lookups = prepare[part](length, settings, rng)
        for structure, times in time_interleaved(lookups, settings.steps).items():
            rows.append({"part": part, "structure": structure, "length": length, **_summary(times)})
    return pd.DataFrame(rows).assign(settings=settings.key())


def growth(frame):
    """How cost grows with length, a row a part and structure.

    `slope` is that of log cost against log length over the longer half of the lengths, where fixed costs hide least:
    1 means in proportion, 0 not at all. `first_us`, `last_us`: the medians at the shortest and the longest text.
    """
    rows = []
    for (part, structure), series in frame.groupby(["part", "structure"], sort=False):
        series = series.sort_values("length")
        longer = series.iloc[len(series) // 2 - 1 :]
        slope = np.polyfit(np.log(longer["length"]), np.log(longer["median_us"]), 1)[0]
        ends = {"shortest": series["length"].iloc[0], "longest": series["length"].iloc[-1]}
        costs = {"first_us": series["median_us"].iloc[0], "last_us": series["median_us"].iloc[-1]}
        rows.append({"part": part, "structure": structure, "slope": slope, **ends, **costs})
    return pd.DataFrame(rows)


def synthetic_text(length, vocab_size, rng):
    """Token ids (int32 array) that are new in part and in part copied from earlier on, in runs, as text is."""
    text, size = np.empty(length, dtype=np.int32), 0
    while size < length:
        copy = size > 0 and rng.random() < 0.5
        run = _copied_run(text[:size], rng) if copy else _fresh_run(vocab_size, rng)
        run = run[: length - size]
        text[size : size + len(run)] = run
        size += len(run)
    return text


def scan_lookup(context):
    """PLD's draft: what followed the last 3 (else 2, else 1) tokens of the context where they stood first."""
    for n in range(MAX_NGRAM, 0, -1):
        start = find_ngram(context, n, DRAFT)
        if start is not None:
            return context[start : start + DRAFT]
    return context[:0]


class SuffixArray:
    """All suffixes of a text in sorted order. Building takes O(n log^2 n); a token more means building it again."""

    def __init__(self, text):
        self.text = text
        self.order = _sort_suffixes(text).tolist()
        self.data = text.astype(">u4").tobytes()  # big-endian, so that bytes compare as the tokens do

    def lookup(self, recent):
        """Draft what follows the longest suffix of `recent` that occurs in the text."""
        pattern = recent.astype(">u4").tobytes()
        low, high = 0, 1  # a match of `low` tokens is known; one of `high` is sought
        while high <= len(recent) and self._find(pattern[-BYTES * high :]) >= 0:
            low, high = high, 2 * high
        high = min(high, len(recent) + 1)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._find(pattern[-BYTES * middle :]) >= 0 else (low, middle)
        end = self._find(pattern[-BYTES * low :]) + low if low else len(self.text)
        return self.text[end : end + DRAFT]

    def _find(self, pattern):
        """Start of a suffix that begins with `pattern`, or -1."""
        size, data = len(pattern), self.data
        at = bisect_left(self.order, pattern, key=lambda start: data[BYTES * start : BYTES * start + size])
        if at == len(self.order):
            return -1
        start = self.order[at]
        return start if data[BYTES * start : BYTES * start + size] == pattern else -1


def _context_lookups(length, settings, rng):
    """Lookups in the text itself, which grows by a token a step."""
    steps = settings.steps + WARM_UP
    text = synthetic_text(length + steps, settings.vocab_size, rng)
    ids = text.tolist()
    array = SuffixArray(text[:length])
    automaton = DynamicAutomaton()
    automaton.extend(text[:length])

    def follow(step):
        automaton.extend(ids[length + step])
        return automaton.match_length, automaton.draft(DRAFT)

    def seen(step):
        return text[: length + step + 1]

    return {
        "scan": lambda step: scan_lookup(seen(step)),
        "suffix_array": lambda step: array.lookup(seen(step)[-LONGEST:]),
        "automaton": follow,
    }


def _corpus_lookups(length, settings, rng):
    """Lookups in a fixed corpus for a text that quotes it in part."""
    steps = settings.steps + WARM_UP
    corpus = synthetic_text(length, settings.vocab_size, rng)
    query = _quoting_text(corpus, steps, settings.vocab_size, rng)
    context = np.concatenate([corpus, query])  # the scan knows no corpus: it is given one at the head of its context
    ids = query.tolist()
    array = SuffixArray(corpus)
    cursor = StaticAutomaton.build([corpus[i : i + DOCUMENT] for i in range(0, length, DOCUMENT)]).cursor()

    def follow(step):
        cursor.advance(ids[step])
        return cursor.match_length, cursor.draft(DRAFT)

    return {
        "scan": lambda step: scan_lookup(context[: length + step + 1]),
        "suffix_array": lambda step: array.lookup(query[: step + 1][-LONGEST:]),
        "automaton": follow,
    }


def _summary(times):
    q25, median, q75 = np.quantile(times, [0.25, 0.5, 0.75]) / 1000
    return {"median_us": median, "q25_us": q25, "q75_us": q75, "steps": len(times)}


def _read(path, settings):
    """The saved frame, or None where there is none or it was measured with other settings."""
    if not path.exists():
        return None
    frame = pd.read_csv(path)
    return frame if "settings" in frame and set(frame["settings"]) == {settings.key()} else None


def _fresh_run(vocab_size, rng):
    size = rng.geometric(1 / 8)
    return (vocab_size * rng.random(size) ** 3).astype(np.int32)  # low ids more often, as words are


def _copied_run(text, rng):
    start = rng.integers(len(text))
    return text[start : start + rng.geometric(1 / 12)].copy()


def _quoting_text(corpus, length, vocab_size, rng):
    runs = []
    while sum(map(len, runs)) < length:
        runs += [_copied_run(corpus, rng), _fresh_run(vocab_size, rng)]
    return np.concatenate(runs)[:length]


def _sort_suffixes(text):
    """Start positions of all suffixes in sorted order, by prefix doubling."""
    n = len(text)
    rank = np.unique(text, return_inverse=True)[1].astype(np.int64)
    size = 1
    while True:
        after = np.zeros(n, dtype=np.int64)
        after[: n - size] = rank[size:] + 1
        pair = rank * (n + 1) + after
        order = np.argsort(pair, kind="stable")
        rank[order] = np.concatenate([[0], np.cumsum(np.diff(pair[order]) != 0)])
        if rank[order[-1]] == n - 1:
            return order
        size *= 2
