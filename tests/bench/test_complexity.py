"""The cost of a lookup: all structures look up the right thing, and a measurement is kept."""

import numpy as np
import pytest

from samlib import paths
from samlib.automaton import DynamicAutomaton
from samlib.bench import complexity
from samlib.bench.complexity import (
    DRAFT,
    ComplexitySettings,
    SuffixArray,
    growth,
    load_complexity,
    measure_complexity,
    synthetic_text,
)

TINY = ComplexitySettings((200, 400), (300, 600), steps=20, vocab_size=50)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def longest_suffix_in(text, recent):
    """Length of the longest suffix of `recent` that occurs in `text`, by looking everywhere."""
    text, recent = text.tolist(), recent.tolist()
    for size in range(len(recent), 0, -1):
        if any(text[i : i + size] == recent[-size:] for i in range(len(text) - size + 1)):
            return size
    return 0


def test_the_suffix_array_drafts_after_a_longest_match(rng):
    for _ in range(60):
        text = synthetic_text(120, 6, rng)
        recent = synthetic_text(30, 7, rng)
        size = longest_suffix_in(text, recent)
        draft = SuffixArray(text).lookup(recent)
        followers = [
            text[i + size : i + size + DRAFT].tolist()
            for i in range(len(text) - size + 1)
            if text[i : i + size].tolist() == recent[len(recent) - size :].tolist()
        ]
        assert (draft.tolist() in followers) if size else len(draft) == 0


def test_the_synthetic_text_repeats_itself_in_part(rng):
    text = synthetic_text(2000, 32_000, rng)
    automaton, lengths = DynamicAutomaton(), []
    for token in text.tolist():
        automaton.extend(token)
        lengths.append(automaton.match_length)
    assert text.dtype == np.int32 and len(text) == 2000
    assert 0.2 < np.mean(np.asarray(lengths) >= 3) < 0.8


def test_every_structure_is_timed_at_every_length():
    frame = measure_complexity(TINY, progress=False)
    assert len(frame) == 3 * 4
    assert set(frame["structure"]) == {"scan", "suffix_array", "automaton"}
    assert (frame["q25_us"] <= frame["median_us"]).all() and (frame["median_us"] <= frame["q75_us"]).all()
    assert (frame["median_us"] > 0).all() and set(frame["steps"]) == {TINY.steps}


def test_growth_reads_the_exponent_off():
    frame = measure_complexity(TINY, progress=False)
    frame["median_us"] = frame["length"].astype(float) ** 0.5
    assert growth(frame)["slope"].to_numpy() == pytest.approx(0.5)


def test_a_measurement_is_made_once_for_its_settings(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "RUNS", tmp_path)
    monkeypatch.setattr(complexity, "SMALL", TINY)
    first = load_complexity("smoke", progress=False)
    assert (tmp_path / "smoke" / "records" / "complexity.csv").exists()
    monkeypatch.setattr(complexity, "measure_complexity", None)
    assert load_complexity("smoke", progress=False).equals(first)


def test_other_settings_are_measured_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "RUNS", tmp_path)
    monkeypatch.setattr(complexity, "SMALL", TINY)
    load_complexity("smoke", progress=False)
    other = ComplexitySettings((150, 300), (300, 600), steps=20, vocab_size=50)
    monkeypatch.setattr(complexity, "SMALL", other)
    assert set(load_complexity("smoke", progress=False)["settings"]) == {other.key()}
