"""Rows and table of the automata at scale: ratios repeat by repeat, targets the right way round, limits by formula."""

import numpy as np
import pytest

from samlib.bench.automaton_table import automaton_rows, automaton_table, number, table_text
from tests.bench.scale_records import record, scale_records


@pytest.fixture
def rows():
    return automaton_rows(scale_records()).set_index("measurement")


def test_a_ratio_says_how_many_times_better_the_library_is_repeat_by_repeat(rows):
    speed = rows.loc["build, DraftRetriever"]
    assert (speed["ratio"], speed["ratio_low"], speed["ratio_high"]) == pytest.approx((1.6, 1.1, 2.0))
    cost = rows.loc["draft, held-out, DraftRetriever"]
    assert (cost["ratio_low"], cost["ratio_high"]) == pytest.approx((100.0, 120.0))


def test_medians_come_with_the_range_over_repeats(rows):
    draft = rows.loc["draft, first, held-out"]
    assert (draft["samlib"], draft["samlib_low"], draft["samlib_high"]) == (2.5, 2.0, 3.0)


@pytest.mark.parametrize(
    ("name", "reached"),
    [
        ("build", True),
        ("peak memory", False),
        ("open", True),
        ("extend at 1000", True),
        ("step at 100000 against 1000", False),
        ("build, DraftRetriever", True),  # a target of the ratio
        ("index memory", True),
        ("open, verified", None),
        ("build, ArcticInference", None),
    ],
)
def test_targets(rows, name, reached):
    assert rows.loc[name, "reached"] is reached


def test_a_larger_vocabulary_may_take_more_bytes():
    one = record("index memory", [28.0], "B/token")
    small, large = (one | {"corpus": one["corpus"] | {"vocabulary": size}} for size in (65_535, 65_536))
    assert automaton_rows([small, large])["reached"].tolist() == [False, True]


def test_limits_follow_their_formulas(rows):
    assert rows.loc["draft, first, held-out", "limit"] == pytest.approx(5 * 0.5 * 0.101 + 0.25)
    assert rows.loc["build", "limit"] == pytest.approx(1 / (0.5 * 0.101 + 536_870_912 / 16_000_000 / 10_000))
    assert rows.loc["extend at 1000", "limit"] == pytest.approx(0.25 * 0.001)
    assert rows.loc["open, verified", "limit"] == pytest.approx(536_870_912 / 20e9 * 1000)
    assert rows.loc["index memory", "limit"] == 2
    assert np.isnan(rows.loc["open", "limit"])


def test_without_limits_nothing_is_claimed():
    assert automaton_rows(scale_records()[1:])["limit"].dropna().tolist() == [2, 2, 2]  # the text alone


def test_the_table_says_what_failed_in_one_line_each():
    text = table_text(scale_records())
    assert text.count("failed: ArcticInference: killed by SIGABRT: bad query") == 1
    assert "16,000,000 tokens in 5,000 documents" in text and "CPU A" in text
    table = automaton_table(scale_records())
    assert table.loc["draft, held-out, ArcticInference", "peer"] == "–"
    assert table.loc["draft, held-out, DraftRetriever", "peer"] == "250 µs [200–300]"
    assert table.loc["build, DraftRetriever", "target"] == "≥ 1.1, reached"


@pytest.mark.parametrize(("value", "text"), [(0.01234, "0.0123"), (2.5, "2.5"), (1383.4, "1,383"), (np.nan, "–")])
def test_numbers_for_readers(value, text):
    assert number(value) == text
