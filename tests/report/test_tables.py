"""The tables as Markdown, CSV and text: nothing is left out, and what is absent says so."""

import pandas as pd
import pytest

from samlib import paths
from samlib.bench.cost_table import cost_rows
from samlib.report.styles import TASK_LABELS
from samlib.report.tables import (
    ABSENT,
    REFERENCE_METHODS,
    TABLE1_METHODS,
    all_cells,
    complete_table1,
    save_cost,
    save_table1,
    speedup_grid,
    summary_table,
    summary_text,
    table1_markdown,
)
from tests.report.synthetic import cost_curve, table1_frame

METHODS = TABLE1_METHODS + REFERENCE_METHODS


@pytest.fixture
def frame():
    return table1_frame()


def without(frame, method, task, block="paper"):
    return frame[~((frame["method"] == method) & (frame["task"] == task) & (frame["block"] == block))]


def test_the_grid_is_complete_and_in_order_whatever_the_order_of_the_rows(frame):
    cells = complete_table1(frame.sample(frac=1, random_state=0))
    assert len(cells) == 2 * len(METHODS) * len(TASK_LABELS)
    pd.testing.assert_frame_equal(cells, complete_table1(frame))


def test_completing_twice_changes_nothing(frame):
    cells = complete_table1(frame)
    pd.testing.assert_frame_equal(complete_table1(cells), cells)


def test_reference_rows_stand_in_both_blocks(frame):
    cells = complete_table1(frame).set_index(["block", "method", "task"])["speedup"]
    for method in REFERENCE_METHODS:
        assert cells["paper", method, "qa"] == cells["device", method, "qa"] > 0


def test_an_absent_cell_stays_as_a_dash(frame):
    cells = complete_table1(without(frame, "pld", "qa"))
    rows = all_cells(cells[cells["block"] == "paper"])
    (row,) = rows[(rows["Method"] == "PLD") & (rows["Task"] == "QA")].to_dict("records")
    assert row.pop("n") == "0"
    assert {row[column] for column in row if column not in ("Method", "Task")} == {ABSENT}


def test_an_absent_method_stays_as_a_row_of_dashes(frame):
    grid = speedup_grid(complete_table1(frame[frame["method"] != "sam"]).query("block == 'paper'"))
    (row,) = grid[grid["Method"] == "SAM"].to_dict("records")
    assert set(row.values()) == {"SAM", ABSENT, "0"}


def test_too_few_questions_show_the_speedup_without_an_interval(frame):
    frame.loc[frame["task"] == "qa", ["speedup_low", "speedup_high"]] = float("nan")
    grid = speedup_grid(complete_table1(frame).query("block == 'paper'")).set_index("Method")
    assert grid.loc["SAM", "QA"] == "1.84"
    assert grid.loc["SAM", "RAG"] == "1.90 [1.71–2.09]"


def test_near_ties_are_shown_as_they_are(frame):
    frame.loc[(frame["method"] == "sam") & (frame["task"] == "overall"), "identical"] = "59/60 + 1 near-tie"
    assert table1_markdown(frame).count("59/60 + 1 near-tie") == 2 * 2  # in both blocks, in the grid and in the cells
    assert summary_text(frame).count("59/60 + 1 near-tie") == 2


def test_the_papers_numbers_stand_below_ours(frame):
    grid = speedup_grid(complete_table1(frame).query("block == 'paper'"))
    below = grid["Method"].shift(-1)[grid["Method"].isin(["PLD", "Token Recycling", "SAM", "SAM[T]"])]
    assert set(below) == {"*as in the paper*"}
    assert "*1.93*" in grid.loc[2, "Overall"]


def test_markdown_rows_have_as_many_cells_as_their_head(frame):
    rows = [line for line in table1_markdown(frame).splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in rows}) == 2  # the grids and the tables of cells


def test_the_csv_is_the_complete_frame(frame):
    markdown, csv = save_table1(frame, "smoke", "A caption.")
    assert csv == paths.FIGURES / "smoke" / "table1.csv"
    assert "A caption." in markdown.read_text()
    read = pd.read_csv(csv)
    assert list(read.columns) == list(frame.columns)
    pd.testing.assert_frame_equal(read, complete_table1(frame), check_dtype=False)


def test_the_summary_holds_the_overall_rows_of_both_blocks(frame):
    assert len(summary_table(frame)) == 2 * len(METHODS)
    assert max(map(len, summary_text(frame).splitlines())) < 100


def test_the_cost_of_a_forward_is_saved_with_caption_limits_and_every_cell():
    path = save_cost(cost_rows(cost_curve()), "smoke", "The caption.")
    assert path == paths.FIGURES / "smoke" / "cost.md"
    text = path.read_text()
    assert "The caption." in text and "reads 25.0 GB/s, computes 100 GFLOP/s" in text
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(lines) == 2 + 2 * 4  # head, rule, two contexts of four widths
    assert "| 300 | 8 | 60 [57–66] | 1.20 | 100 [95–110] | 1.82 | 20.5 | 21.7 | 2.77 |" in lines
