"""What is measured of the automata at scale; each function runs in a child process of its own and yields its results.

They are called by name through `samlib.bench.child`, with the path of a LargeCorpus's file, and use the public API
alone. Arrays are loaded, and turned into whatever form a peer wants, before any clock starts.
"""

import contextlib
import ctypes
import resource
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

from samlib.automaton import DynamicAutomaton, StaticAutomaton
from samlib.bench.large_corpus import read_large_corpus
from samlib.bench.limits import DRAFT
from samlib.bench.peers import PEERS, RECENT, PromptLookup, Samlib
from samlib.bench.turns import WARM_UP, time_interleaved

BUILD_BYTES = 60  # memory to have at hand for a build, a token
PAGE = 4096
PASSAGE = 100  # tokens of a quoted passage
CHOICES = ("first", "latest", "frequent")


def build(corpus, repeats, index):
    """The static index over the whole corpus, built and saved to `index`: seconds of each, its bytes and states.

    peak: bytes that the first build took at its peak, beyond the input arrays, which are loaded before.
    """
    corpus = read_large_corpus(corpus)
    builder = Samlib()
    documents = builder.prepare(corpus.documents(), corpus.facts["vocabulary"])
    seconds, peak = {"build": [], "save": []}, None
    before = _resident()
    for _ in range(repeats):
        have_memory_at_hand(BUILD_BYTES * len(corpus.tokens))
        _forget_peak()
        seconds["build"].append(_seconds(builder.build, documents))
        peak = peak or _peak() - before
        seconds["save"].append(_seconds(builder.index.save, index))
    matches = _matches(builder.index, [corpus.held_out])
    yield {
        "seconds": seconds,
        "peak": peak,
        "nbytes": builder.index.nbytes,
        "states": builder.index.num_states,
        **matches,
    }


def memory(corpus, tokens, name):
    """Bytes that building takes at its peak, and that stay for lookups; the input, loaded beforehand, is in neither."""
    builder = {Samlib.name: Samlib, **PEERS}[name]()
    corpus = read_large_corpus(corpus)
    prepared = builder.prepare(corpus.documents(tokens), corpus.facts["vocabulary"])
    _forget_peak()
    before = _resident()
    builder.build(prepared)
    peak = _peak() - before
    builder.lookup(int(corpus.tokens[RECENT]), corpus.tokens[1 : RECENT + 1])  # opens the index, where that is due
    _give_back_freed()
    yield {"peak": peak, "resting": _resident() - before}


def opening(index, token, verify):
    """Milliseconds of opening an index in this fresh process, and of the first draft after that."""
    start = perf_counter()
    opened = StaticAutomaton.load(index, verify=verify)
    loaded = perf_counter()
    cursor = opened.cursor()
    cursor.advance(token)
    cursor.draft(DRAFT)
    yield {"load": 1e3 * (loaded - start), "first draft": 1e3 * (perf_counter() - loaded)}


def drafts(corpus, index, repeats, steps):
    """Microseconds of a step (one token followed, 40 drafted) by choice, in turns, on both walks; medians by repeat.

    Each repeat walks through another stretch of the text, so that the caches do not hold it already.
    """
    corpus, index = read_large_corpus(corpus), StaticAutomaton.load(index)
    for walk, text in walks(corpus, len(corpus.tokens), repeats, steps).items():
        found = [_draft_times(index, stretch, steps) for stretch in text]
        times = {"times": _by_name(found), "advance": _advance_times(index, text)}
        yield {"walk": walk, "nbytes": index.nbytes, **times, **_matches(index, text)}


def walks(corpus, tokens, repeats, steps):
    """Two texts to follow, each as `repeats` stretches: one held out of the index, one that quotes its `tokens`."""
    rng = np.random.default_rng(0)
    size = steps + WARM_UP + RECENT
    starts = [repeat * size % max(len(corpus.held_out) - size, 1) for repeat in range(repeats)]
    held_out = [corpus.held_out[start : start + size] for start in starts]
    return {"held-out": held_out, "quoting": [_quoting(corpus.tokens[:tokens], size, rng) for _ in range(repeats)]}


def extending(corpus, contexts, repeats, block):
    """Microseconds a token of `block` tokens appended in one call to a text of each length; lengths in turn."""
    tokens = read_large_corpus(corpus).tokens
    found = {context: {"us": [], "nbytes": [], "jumps": []} for context in contexts}
    rng = np.random.default_rng(0)
    for _ in range(repeats):
        for context, values in found.items():
            start = int(rng.integers(len(tokens) - context - 2 * block))
            text = tokens[start : start + context + block]
            automaton = _over(text[:context])
            began = perf_counter()
            automaton.extend(text[context:])
            values["us"].append(1e6 * (perf_counter() - began) / block)
            values["nbytes"].append(automaton.nbytes)
            following = tokens[start + context + block : start + context + 2 * block]
            values["jumps"].append(_jumps(automaton, following))
    yield from ({"context": context, **values} for context, values in found.items())


def stepping(corpus, contexts, repeats, steps, scan):
    """Microseconds of a step of the dynamic automaton from Python (extend by one, match length, 40 drafted).

    In turns with Hugging Face's prompt lookup where `scan` is true; medians by repeat, at each length of the context.
    """
    tokens = read_large_corpus(corpus).tokens
    found = {context: [] for context in contexts}
    rng = np.random.default_rng(0)
    for _ in range(repeats):
        for context, times in found.items():
            size = context + steps + WARM_UP
            start = int(rng.integers(len(tokens) - size))
            lookups = _context_lookups(tokens[start : start + size], context, scan)
            times.append(_medians(time_interleaved(lookups, steps)))
    yield from ({"context": context, "times": _by_name(times)} for context, times in found.items())


def against(corpus, tokens, name, repeats, steps):
    """The library and a peer at the same size in one process: seconds of building, in turns; then of lookups.

    The peer's queries are the library's. Each result comes as soon as it is there: "build", then "lookup" by walk.
    """
    corpus = read_large_corpus(corpus)
    documents, vocabulary = corpus.documents(tokens), corpus.facts["vocabulary"]
    both = {Samlib.name: Samlib(), name: PEERS[name]()}
    prepared = {who: builder.prepare(documents, vocabulary) for who, builder in both.items()}
    seconds, index = _build_times(both, prepared, tokens, repeats), both[Samlib.name].index
    yield {"part": "build", "seconds": seconds, "nbytes": index.nbytes, **_matches(index, [corpus.held_out])}
    for walk, text in walks(corpus, tokens, repeats, steps).items():
        found = [_lookup_times(both, stretch, steps) for stretch in text]
        about = {"nbytes": index.nbytes, **_matches(index, text)}
        yield {"part": "lookup", "walk": walk, "times": _by_name(found), **about}


def _build_times(both, prepared, size, repeats):
    """Seconds of building, in turns; "save": of the library's saving, where the peer's building writes a file, too."""
    seconds = {who: [] for who in both} | {"save": []}
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(repeats):
            for who in list(both)[:: 1 if repeat % 2 == 0 else -1]:  # neither is always the first
                have_memory_at_hand(BUILD_BYTES * size)
                seconds[who].append(_seconds(both[who].build, prepared[who]))
            if any(builder.saves for builder in both.values()):
                seconds["save"].append(_seconds(both[Samlib.name].index.save, Path(folder, "index")))
    return seconds


def have_memory_at_hand(size):
    """Touch so many bytes and free them.

    A virtual machine returns what is free to its host; the first touch afterwards was seen to cost 4 ns a byte, more
    than building itself, and depends on what ran before. That is the host's, and not to be measured here.
    """
    np.empty(size, dtype=np.uint8)[::PAGE] = 1


def _seconds(call, *arguments):
    start = perf_counter()
    call(*arguments)
    return perf_counter() - start


def _lookup_times(both, text, steps):
    ids = text.tolist()

    def follow(builder):
        return lambda step: builder.lookup(ids[step + RECENT - 1], text[step : step + RECENT])

    return _medians(time_interleaved({who: follow(builder) for who, builder in both.items()}, steps))


def _draft_times(index, text, steps):
    ids = text.tolist()

    def follow(draft):
        cursor = index.cursor()

        def step(number):
            cursor.advance(ids[number])
            return draft(cursor)

        return step

    lookups = {choice: follow(lambda cursor, choice=choice: cursor.draft(DRAFT, choice=choice)) for choice in CHOICES}
    return _medians(time_interleaved(lookups | {"tree": follow(lambda cursor: cursor.draft_tree(DRAFT))}, steps))


def _advance_times(index, text):
    """Microseconds a token of following a whole stretch in one call."""
    times = []
    for stretch in text:
        cursor = index.cursor()
        start = perf_counter()
        cursor.advance(stretch)
        times.append(1e6 * (perf_counter() - start) / len(stretch))
    return times


def _matches(index, text):
    """Means over the steps: match length, tokens drafted, and the shares of steps with a draft and with a jump.

    A jump: the match did not just grow by the new token, so that the walk went on elsewhere in the index.
    """
    lengths, drafted, jumps = [], [], []
    for stretch in text:
        cursor, before = index.cursor(), 0
        for token in stretch.tolist():
            cursor.advance(token)
            lengths.append(cursor.match_length)
            jumps.append(cursor.match_length != before + 1)
            drafted.append(len(cursor.draft(DRAFT)))
            before = cursor.match_length
    series = {"match_length": lengths, "drafted": drafted, "with_draft": np.sign(drafted), "jumps": jumps}
    return {name: float(np.mean(values)) for name, values in series.items()}


def _jumps(automaton, tokens):
    """The share of `tokens` at which a dynamic automaton's match does not just grow, while it is extended by them."""
    jumps, before = 0, automaton.match_length
    for token in tokens.tolist():
        automaton.extend(token)
        jumps += automaton.match_length != before + 1
        before = automaton.match_length
    return jumps / len(tokens)


def _context_lookups(text, context, scan):
    ids, automaton = text.tolist(), _over(text[:context])

    def follow(step):
        automaton.extend(ids[context + step])
        return automaton.match_length, automaton.draft(DRAFT)

    lookups = {Samlib.name: follow}
    if scan:
        peer = PromptLookup(text)
        lookups[peer.name] = lambda step: peer.lookup(context + step + 1)
    return lookups


def _over(text):
    automaton = DynamicAutomaton()
    automaton.extend(text)
    return automaton


def _quoting(tokens, size, rng):
    """Passages of the corpus, from anywhere in it, one after another."""
    starts = rng.integers(max(len(tokens) - PASSAGE, 1), size=-(-size // PASSAGE))
    return np.concatenate([tokens[start : start + PASSAGE] for start in starts])[:size]


def _medians(times):
    """{name: nanoseconds of steps} -> {name: their median in microseconds}."""
    return {name: float(np.median(series)) / 1000 for name, series in times.items()}


def _by_name(found):
    """A list over repeats of {name: median} -> {name: list over repeats}."""
    return {name: [one[name] for one in found] for name in found[0]}


def _resident():
    """Bytes of this process in memory now."""
    return _status("VmRSS") or _most()


def _peak():
    """The most bytes of this process in memory since `_forget_peak`, or since it began where that does nothing."""
    return _status("VmHWM") or _most()


def _give_back_freed():
    """Have the C library return freed memory, so that what stays in this process is what is in use."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _forget_peak():
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _status(field):
    """A line of Linux's account of this process, in bytes; None elsewhere.

    Preferred to getrusage, whose peak a child inherits from the process that started it.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(f"{field}:")), None)


def _most():
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most
