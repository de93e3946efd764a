"""The cost of a forward as rows and as a table: each number at its place, beside its limits."""

import math

import pytest

from samlib.bench.cost import CostCurve
from samlib.bench.cost_table import basis, cost_rows, cost_table, cost_text
from tests.report.synthetic import cost_curve


def row_of(rows, way, context, width):
    (row,) = rows[(rows["way"] == way) & (rows["context"] == context) & (rows["width"] == width)].to_dict("records")
    return row


def test_every_context_way_and_width_has_a_row_the_main_context_first():
    rows = cost_rows(cost_curve(main=900, other=300))
    assert list(dict.fromkeys(rows["context"])) == [900, 300]
    cells = set(zip(rows["way"], rows["context"], rows["width"], strict=True))
    assert len(rows) == len(cells) == 2 * 2 * 4


def test_a_row_holds_its_own_numbers():
    rows = cost_rows(cost_curve())
    row = row_of(rows, "kernels", 300, 8)
    assert (row["seconds"], row["q25"], row["q75"]) == pytest.approx((0.060, 0.057, 0.066))
    assert row["ratio"] == pytest.approx(0.060 / 0.050)
    assert row["memory_seconds"] == pytest.approx((500e6 + 300 * 40e3) / 25e9)
    assert row["compute_seconds"] == pytest.approx(8 * (250e6 + 300 * 70e3) / 100e9)
    plain = row_of(rows, "plain", 900, 8)
    assert plain["seconds"] == 0.130 and plain["ratio"] == pytest.approx(0.130 / 0.065)


def test_without_kernels_there_is_one_way_and_it_is_plain():
    curve = CostCurve(T={1: 1.0, 8: 2.0}, T_plain={1: 1.0, 8: 2.0}, context=300, repeats=1, device="made up")
    rows = cost_rows(curve)
    assert list(rows["way"]) == ["plain", "plain"]
    assert math.isnan(rows["memory_seconds"].iloc[0]) and math.isnan(rows["q25"].iloc[0])
    table = cost_table(rows)
    assert not any(column.startswith("kernels") for column in table)
    assert list(table["memory limit"]) == ["–", "–"] and list(table["plain [quartiles]"]) == ["1,000", "2,000"]
    assert basis(rows) == "made up; medians of 1 interleaved forwards"


def test_the_table_puts_kernels_plain_layers_and_limits_side_by_side():
    table = cost_table(cost_rows(cost_curve())).set_index(["context", "n"])
    line = table.loc[(300, 8)]
    assert line["kernels [quartiles]"] == "60 [57–66]" and line["kernels / T(1)"] == "1.20"
    assert line["plain [quartiles]"] == "100 [95–110]" and line["plain / T(1)"] == "1.82"
    assert line["memory limit"] == "20.5" and line["operations limit"] == "21.7"
    assert line["T(n) / limit"] == f"{60 / 21.68:.2f}"


def test_the_text_has_a_block_a_context_and_names_the_machine():
    text = cost_text(cost_rows(cost_curve()))
    assert text.startswith("CPU A, 2 threads; medians of 15 interleaved forwards; the machine reads 25.0 GB/s")
    assert text.index("context 300\n") < text.index("context 900\n")
    assert "500 MB of weights" in text
