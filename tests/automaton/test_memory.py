"""Memory as texts grow: in proportion to their tokens, within stated bytes a token, measured in processes of their own.

What the operating system counts, not what `nbytes` says: the highest resident size while it was built, and the resident
size afterwards, each less the resident size before. A process a measurement, since freed memory need not be given back.
"""

import ctypes
import gc
import json
import os
import re
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from samlib import DynamicAutomaton, StaticAutomaton, paths

# Bytes a token, the text included, for vocabularies below 65,536 where nothing else is said.
BUILD_PEAK, FROZEN = 60, 16
BUILD_PEAK_WIDE, FROZEN_WIDE = 80, 22  # vocabularies above 65,536
# The worst texts there are: up to one node and two edges a token.
WORST_BUILD_PEAK = 200
WORST_FROZEN = 60
# The growing automaton: up to two states of 16 bytes and three edges of 8, the text; more where occurrences are
# counted. A large array that grows exists twice for a moment.
GROWING = 100
GROWING_COUNTED = 200

SIZES = (100_000, 400_000)  # tokens
# Four times the text may take this much more a token: arrays grow by steps. Memory like n**1.5 would take twice.
STEADY = 1.8
# What stays of code and tables loaded on the way does not grow with the text.
REMAINS = 1_000_000 / SIZES[1]
# glibc moves its own threshold for large blocks, after which a grown array may leave a hole behind: a matter of luck,
# worth half as much again. Fixed, a measurement can be repeated; elsewhere the variables do nothing.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}

needs_proc = pytest.mark.skipif(
    not os.path.exists("/proc/self/clear_refs"), reason="peak memory is read from Linux's /proc"
)


# --- texts ----------------------------------------------------------------------------------------------------------


CORPUS = sorted((paths.CORPUS / "answers").glob("*.jsonl"))


def realistic(size, rng):
    """The embedded corpus in words, again and again, each time with a tenth of its words replaced.

    Its index has about as many nodes a token as that of fresh prose (0.17 to 0.18).
    """
    answers = [json.loads(line)["answer"] for path in CORPUS for line in path.open(encoding="utf-8")]
    words = re.findall(r"\w+|[^\w\s]", " ".join(answers))
    known = np.unique(words, return_inverse=True)[1]
    text = np.resize(known, size)
    return np.where(rng.random(size) < 0.1, rng.choice(known, size), text)


def all_different(size, rng):
    """No token twice: a root with an edge a token."""
    return rng.permutation(size)


def one_token(size, rng):
    """The longest chain of suffix links."""
    return np.zeros(size)


def de_bruijn(size, rng):
    """Every word of k bits once: the shortest text with that many different ones."""
    return _de_bruijn(size.bit_length(), size)


def _de_bruijn(bits, size):
    """The first tokens of a sequence in which no word of `bits` bits comes twice: prefer 1, as Martin (1934) does."""
    seen, word, mask = bytearray(1 << bits), 0, (1 << bits) - 1
    sequence = np.zeros(size, dtype=np.int32)
    for i in range(size):
        seen[word] = 1
        following = (word << 1 | 1) & mask
        word = following if not seen[following] else following ^ 1
        sequence[i] = word & 1
    return sequence


def two_symbols(size, rng):
    """Coin tosses."""
    return rng.integers(0, 2, size)


def fifty_thousand_symbols(size, rng):
    """No structure, a large vocabulary: hardly a match is longer than one token."""
    return rng.integers(0, 50_000, size)


def wide_vocabulary(size, rng):
    """Ids of a vocabulary above 65,536, in phrases that come again."""
    text = rng.integers(0, 150_000, size)
    return np.where(np.arange(size) % 40 < 20, np.resize(text[:40_000], size), text)


TEXTS = (realistic, wide_vocabulary, all_different, one_token, de_bruijn, two_symbols, fifty_thousand_symbols)
DOCUMENT = 500  # tokens


# --- measuring ------------------------------------------------------------------------------------------------------


def measure(kind, name, size):
    """In this process: {"peak", "kept", "nbytes"} in bytes a token, and "states" a token. See the top of this file."""
    text = globals()[name](size, np.random.default_rng(0)).astype(np.int32)
    documents = [text[start : start + DOCUMENT] for start in range(0, size, DOCUMENT)]
    _made(kind, documents[:2])  # what is loaded at the first call is not the text's
    _give_back()
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is what it is now
    made = _made(kind, documents)
    peak = _resident("VmHWM") - before
    _give_back()
    kept = _resident("VmRSS") - before
    return {"peak": peak / size, "kept": kept / size, "nbytes": made.nbytes / size, "states": made.num_states / size}


def _give_back():
    """Free what can be freed, and let the allocator return it, where it can be told to."""
    gc.collect()
    getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)(0)


def _made(kind, documents):
    if kind == "static":
        return StaticAutomaton.build(documents)
    automaton = DynamicAutomaton(occurrences=kind == "counted")
    for document in documents:
        automaton.extend(document)
    return automaton


def _resident(field):
    return int(re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024


@lru_cache
def measured(kind, text, size):
    """What `measure` returns, from a process of its own."""
    if text == "realistic" and not CORPUS:
        pytest.skip("the embedded corpus is not beside this copy of the package")
    code = f"import json; from {__name__} import measure; print(json.dumps(measure({kind!r}, {text!r}, {size})))"
    return json.loads(_in_a_process(code))


def _in_a_process(code):
    folder = Path(__file__).resolve().parents[2]
    command, environment = [sys.executable, "-c", code], os.environ | ALLOCATOR
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def check_steady(kind, text, name):
    small, large = (measured(kind, text, size)[name] for size in SIZES)
    small += 1_000_000 / SIZES[0]  # pages and steps, which weigh more in a small text
    assert large < STEADY * small, f"{name}: {small:.1f} bytes a token at {SIZES[0]}, {large:.1f} at {SIZES[1]}"


# --- the bounds -----------------------------------------------------------------------------------------------------

STATIC_BOUNDS = [
    (realistic, BUILD_PEAK, FROZEN),
    (wide_vocabulary, BUILD_PEAK_WIDE, FROZEN_WIDE),
    *((text, WORST_BUILD_PEAK, WORST_FROZEN) for text in TEXTS[2:]),
]


@needs_proc
@pytest.mark.parametrize(("text", "peak", "frozen"), [pytest.param(*row, id=row[0].__name__) for row in STATIC_BOUNDS])
class TestStatic:
    """Building an index, and the index."""

    def test_building_takes_at_most(self, text, peak, frozen):
        assert measured("static", text.__name__, SIZES[1])["peak"] <= peak

    def test_an_index_takes_at_most(self, text, peak, frozen):
        found = measured("static", text.__name__, SIZES[1])
        assert found["nbytes"] <= frozen
        assert found["kept"] <= frozen + REMAINS

    @pytest.mark.slow
    def test_both_are_linear(self, text, peak, frozen):
        check_steady("static", text.__name__, "peak")
        check_steady("static", text.__name__, "nbytes")


@needs_proc
@pytest.mark.parametrize(("kind", "bound"), [("dynamic", GROWING), ("counted", GROWING_COUNTED)])
class TestGrowing:
    """The dynamic automaton, without and with occurrence counts."""

    @pytest.mark.parametrize("text", [realistic, *(pytest.param(text, marks=pytest.mark.slow) for text in TEXTS[1:])])
    def test_a_growing_automaton_takes_at_most(self, kind, bound, text):
        found = measured(kind, text.__name__, SIZES[1])
        assert max(found["peak"], found["nbytes"]) <= bound

    @pytest.mark.slow
    @pytest.mark.parametrize("text", TEXTS)
    def test_it_is_linear(self, kind, bound, text):
        check_steady(kind, text.__name__, "peak")


@needs_proc
def test_the_realistic_text_is_realistic():
    assert 0.15 < measured("static", "realistic", SIZES[1])["states"] < 0.25


def test_a_de_bruijn_sequence_holds_every_word_once():
    sequence = _de_bruijn(10, 1024)
    cyclic = np.concatenate([sequence, sequence[:9]])
    words = {tuple(cyclic[start : start + 10]) for start in range(1024)}
    assert len(words) == 1024


# --- nothing is left behind -----------------------------------------------------------------------------------------


def _build_and_walk():
    text = np.random.default_rng(0).integers(0, 50, 20_000).astype(np.int32)
    index = StaticAutomaton.build([text])
    automaton = DynamicAutomaton(occurrences=True)
    automaton.extend(text)
    cursor = index.cursor()
    cursor.advance(text[:50])
    for asked in (cursor, automaton):
        asked.draft(40, choice="frequent")
        asked.draft_tree(60)


def resident_after(calls):
    """In this process: resident bytes after so many builds, drops and drafts."""
    for _ in range(calls):
        _build_and_walk()
    _give_back()
    return _resident("VmRSS")


@needs_proc
def test_nothing_is_left_behind():
    """20 builds more take nothing more: a leak of the smallest array of theirs would be 1.6 MB."""
    code = f"from {__name__} import resident_after; print(resident_after(20), resident_after(40))"
    before, after = map(int, _in_a_process(code).split())
    assert after - before < 1_500_000
