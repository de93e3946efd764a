"""The tables as Markdown, CSV and text: nothing is left out, and what is absent says so."""

import pandas as pd
import pytest

from samlib import paths
from samlib.bench.cost_table import cost_rows
from samlib.bench.metrics import NOT_RUN
from samlib.report.formats import ABSENT
from samlib.report.layouts import LAYOUTS, TABLE1, TABLE2, TABLE3
from samlib.report.shares import phases_table, sources_table
from samlib.report.styles import method_style
from samlib.report.tables import (
    all_cells,
    complete_table,
    save_cost,
    save_table,
    speedup_grid,
    summary_table,
    summary_text,
    table_markdown,
    without_idle_blocks,
)
from tests.report.synthetic import cost_curve, not_run, number_of_lines, phases_frame, sources_frame, table_frame

MEASURES = {"n", "MAT", "tokens/s", "Speed-up", "95 % interval", "By total time", "Decode only", "Without repeats (n)"}


@pytest.fixture(params=LAYOUTS, ids=lambda layout: layout.name)
def layout(request):
    return request.param


def without(frame, method, task=None, block="paper"):
    chosen = (frame["method"] == method) & (frame["block"] == block)
    return frame[~(chosen & (frame["task"] == task if task else True))]


def grid_of(frame, layout, block="paper"):
    cells = complete_table(frame, layout)
    return speedup_grid(cells[cells["block"] == block], layout)


def cell_of(frame, layout, method, task, block="paper"):
    cells = complete_table(frame, layout)
    rows = all_cells(cells[cells["block"] == block], layout)
    chosen = rows[(rows["Method"] == method_style(method).label) & (rows.iloc[:, 1] == layout.columns[task])]
    (row,) = chosen.to_dict("records")
    return row


def test_the_rows_are_the_papers_and_those_beside_it_in_order():
    def rows(layout, block):
        cells = complete_table(table_frame(layout), layout)
        return " ".join(dict.fromkeys(cells.loc[cells["block"] == block, "method"].str.replace(" ", "_")))

    retrieval = "autoregressive pld rest lookahead token_recycling"
    others, references = "eagle eagle2 sam sam[t] sam[e] sam[e2] suffix_decoding", "hf_generate hf_prompt_lookup"
    assert rows(TABLE1, "paper") == f"{retrieval} token_recycling_cold {others} {references}"
    assert rows(TABLE1, "device") == f"{retrieval} {others} sam_auto {references}"
    assert rows(TABLE2, "paper") == f"{retrieval} {others} hf_generate"
    assert rows(TABLE2, "device") == f"{retrieval} {others} sam_auto hf_generate"
    ablated = "sam[t] sam[t]_without_static sam[t]_without_dynamic sam[t]_without_auxiliary"
    ablated += " sam[e2] sam[e2]_without_static sam[e2]_without_dynamic"
    alone = "sam sam_without_static sam_without_dynamic"
    assert rows(TABLE3, "paper") == f"autoregressive {ablated} {alone} hf_generate"


def test_the_grid_is_complete_and_in_order_whatever_the_order_of_the_rows(layout):
    frame = table_frame(layout)
    cells = complete_table(frame.sample(frac=1, random_state=0), layout)
    assert len(cells) == number_of_lines(layout) * len(layout.columns)
    assert not cells["speedup"].isna().any()
    pd.testing.assert_frame_equal(cells, complete_table(frame, layout))


def test_completing_twice_changes_nothing(layout):
    cells = complete_table(not_run(table_frame(layout), "sam"), layout)
    pd.testing.assert_frame_equal(complete_table(cells, layout), cells)


def test_reference_rows_stand_in_every_block():
    cells = complete_table(table_frame(), TABLE1).set_index(["block", "method", "task"])["speedup"]
    for method in TABLE1.references:
        assert cells["paper", method, "qa"] == cells["device", method, "qa"] > 0


def test_a_row_without_a_place_is_an_error_and_not_left_out():
    frame = table_frame(TABLE2)
    with pytest.raises(ValueError, match=r"Table 2 has no place for .*'unheard_of'.*layouts.py"):
        complete_table(frame.assign(method=frame["method"].replace("sam", "unheard_of")), TABLE2)
    with pytest.raises(ValueError, match="Table 3 has no place for"):
        complete_table(table_frame(TABLE1), TABLE3)


def test_only_an_optional_variant_is_left_out_where_a_block_has_none_of_it():
    cold, module = method_style("token_recycling cold").label, method_style("sam without static").label
    assert cold in set(grid_of(table_frame(), TABLE1)["Method"])
    assert cold not in set(grid_of(without(table_frame(), "token_recycling cold"), TABLE1)["Method"])
    assert cold in set(grid_of(not_run(table_frame(), "token_recycling cold"), TABLE1)["Method"])
    assert module in set(grid_of(without(table_frame(TABLE3), "sam without static"), TABLE3)["Method"])
    for row in TABLE3.optional:
        assert method_style(row).label not in set(grid_of(without(table_frame(TABLE3), row), TABLE3)["Method"])


def test_an_absent_cell_stays_as_a_dash():
    row = cell_of(without(table_frame(), "pld", "qa"), TABLE1, "pld", "qa")
    assert row.pop("n") == "0"
    assert {row[column] for column in row if column not in ("Method", "Task")} == {ABSENT}


def test_an_absent_method_stays_as_a_row_of_dashes(layout):
    grid = grid_of(without(table_frame(layout), "sam"), layout)
    (row,) = grid[grid["Method"] == "SAM"].to_dict("records")
    assert set(row.values()) == {"SAM", ABSENT, "0"}


def test_a_line_that_was_not_run_says_so_and_is_not_taken_for_absent(layout, tmp_path):
    complete_table(not_run(table_frame(layout), "sam"), layout).to_csv(tmp_path / "table.csv", index=False)
    for frame in (not_run(table_frame(layout), "sam"), pd.read_csv(tmp_path / "table.csv")):
        row = cell_of(frame, layout, "sam", "overall")
        assert row["n"] == "0" and row["Speed-up"] == row["Identical"] == NOT_RUN
        assert {row[name] for name in MEASURES - {"n", "Speed-up"}} == {ABSENT}
        grid = grid_of(frame, layout).set_index("Method").loc["SAM"]
        assert set(grid[[*layout.columns.values(), "Identical"]]) == {NOT_RUN}
        (line,) = {line for line in summary_text(frame, layout).splitlines() if line.startswith("  SAM  ")}
        assert line.endswith(NOT_RUN) and line.count(NOT_RUN) == 1 + len(layout.ranked)


def test_too_few_questions_show_the_speedup_without_an_interval():
    frame = table_frame()
    frame.loc[frame["task"] == "qa", ["speedup_low", "speedup_high"]] = float("nan")
    grid = grid_of(frame, TABLE1).set_index("Method")
    assert grid.loc["PLD", "QA"] == "1.34"
    assert grid.loc["PLD", "RAG"] == "1.40 [1.26–1.54]"


def test_near_ties_are_shown_as_they_are(layout):
    frame = table_frame(layout)
    frame.loc[(frame["method"] == "sam") & (frame["task"] == "overall"), "identical"] = "59/60 + 1 near-tie"
    blocks = len(layout.blocks)
    assert table_markdown(frame, layout).count("59/60 + 1 near-tie") == 2 * blocks  # in the grid and in the cells
    assert summary_text(frame, layout).count("59/60 + 1 near-tie") == blocks


def test_the_papers_numbers_stand_below_ours():
    grid = grid_of(table_frame(), TABLE1)
    printed = ["PLD", "REST", "Lookahead", "Token Recycling", "EAGLE", "EAGLE-2", "SAM", "SAM[T]", "SAM[E]", "SAM[E2]"]
    below = grid["Method"].shift(-1)
    assert set(below[grid["Method"].isin(printed)]) == {"*as in the paper*"}
    assert list(grid["Method"]).count("*as in the paper*") == len(printed)
    assert grid.loc[2, "Overall"] == "*1.56*"
    ablation = grid_of(table_frame(TABLE3), TABLE3).set_index("Method")
    assert list(ablation.loc["*as in the paper*", "Overall"]) == ["*1.84*", "*1.64*", "*1.33*"]
    assert set(ablation.loc["*as in the paper*", "QA"]) == {"*–*"}


def test_markdown_rows_have_as_many_cells_as_their_head(layout):
    shares = {"sources": sources_frame(layout), "phases": phases_frame(layout)}
    parts = table_markdown(table_frame(layout), layout, **shares).split("\n\n")
    tables = [part.splitlines() for part in parts if part.startswith("|")]
    assert len(tables) == 2 * len(layout.blocks) + 2
    assert all(len({line.count("|") for line in table}) == 1 for table in tables)


def test_what_was_not_run_and_what_differs_is_listed_where_the_frame_knows_it():
    frame = table_frame()
    frame.attrs["not_run"] = ["lookahead (paper): needs about 3 more minutes"]
    frame.attrs["differences"] = ["near-tie: question 17, pld (paper), token 3, gap 5e-06"]
    text = table_markdown(frame, TABLE1)
    assert "## Not run\n\n- lookahead (paper): needs about 3 more minutes\n" in text
    assert "greedy decoding\n\n- near-tie: question 17, pld (paper), token 3, gap 5e-06\n" in text
    frame.attrs.clear()
    assert text.startswith(table_markdown(frame, TABLE1).rstrip())


def test_the_csv_is_the_complete_frame(layout):
    frame = table_frame(layout)
    markdown, csv = save_table(frame, layout, "smoke", "A caption.")
    assert csv == paths.FIGURES / "smoke" / f"{layout.name}.csv"
    assert markdown == csv.with_suffix(".md") and "A caption." in markdown.read_text()
    read = pd.read_csv(csv)
    assert list(read.columns) == list(frame.columns)
    pd.testing.assert_frame_equal(read, complete_table(frame, layout), check_dtype=False)


def test_shares_are_saved_beside_the_table():
    save_table(table_frame(), TABLE1, "smoke", "", sources=sources_frame(), phases=phases_frame())
    folder = paths.FIGURES / "smoke"
    pd.testing.assert_frame_equal(pd.read_csv(folder / "table1_sources.csv"), sources_frame(), check_dtype=False)
    pd.testing.assert_frame_equal(pd.read_csv(folder / "table1_phases.csv"), phases_frame(), check_dtype=False)
    assert "| 30.0 % (2.00) | 10.0 % (3.00) |" in (folder / "table1.md").read_text()


def test_the_summary_holds_the_overall_rows_of_every_block(layout):
    lines = number_of_lines(layout)
    assert len(summary_table(table_frame(layout), layout)) == lines
    text = summary_text(table_frame(layout), layout).splitlines()
    assert len(text) == 1 + len(layout.blocks) + lines
    assert text[0].startswith(layout.title)
    assert max(map(len, text)) < 100


def test_the_summary_stays_narrow_with_many_questions(layout):
    frame = table_frame(layout).assign(n=480, identical="480/480")
    assert max(map(len, summary_text(frame, layout).splitlines())) < 100


def test_the_summary_of_data_sets_holds_each_ones_speedup():
    text = summary_text(table_frame(TABLE2), TABLE2)
    head = "HumanEval n=5 MBPP n=5 HAGRID n=5 Overall n=15 identical"
    assert text.splitlines()[1].split()[2:] == head.split()
    (paper, device) = [line.split() for line in text.splitlines() if line.startswith("  PLD ")]
    assert paper == "PLD 1.25 1.12–1.38 1.28 1.15–1.41 1.31 1.18–1.44 1.34 1.21–1.47 15/15".split()
    assert device[1] == "1.35"


def test_sources_stand_beside_the_papers_with_their_mat():
    table = sources_table(sources_frame(), TABLE1)
    paper = table[table["Block"] == "Paper settings"].set_index("Method")
    assert paper.loc["SAM[T]", "Token Recycling"] == "60.0 % (4.00)"
    printed = paper.loc["*as in the paper*"]
    assert list(printed[["dynamic", "static", "Token Recycling"]]) == [
        "*11.6 % (6.57)*",
        "*2.5 % (3.39)*",
        "*86.0 % (2.51)*",
    ]
    assert paper.loc["PLD", "static"] == ABSENT and paper.loc["PLD", "Steps"] == "1000"
    assert "*as in the paper*" not in set(table.loc[table["Block"] != "Paper settings", "Method"])
    assert list(paper.index[paper.index.get_loc("SAM[T]") :][:2]) == ["SAM[T]", "*as in the paper*"]
    assert list(table.columns[-2:]) == ["EAGLE-2", "no draft"]


def test_phases_are_in_the_order_of_a_request_and_one_block_needs_no_column():
    table = phases_table(phases_frame(TABLE3), TABLE3)
    assert list(table.columns) == ["Method", "prefill", "draft", "verify", "update", "other"]
    assert list(table.loc[2]) == ["*as in the paper*", "*4.2 %*", "*0.6 %*", "*88.9 %*", "*6.3 %*", "*–*"]


def test_an_unknown_source_is_shown_under_its_own_name():
    frame = sources_frame().replace({"source": {"pld": "unheard_of"}})
    assert "unheard_of" in sources_table(frame, TABLE1).columns


def test_the_cost_of_a_forward_is_saved_with_caption_limits_and_every_cell():
    path = save_cost(cost_rows(cost_curve()), "smoke", "The caption.")
    assert path == paths.FIGURES / "smoke" / "cost.md"
    text = path.read_text()
    assert "The caption." in text and "reads 25.0 GB/s, computes 100 GFLOP/s" in text
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(lines) == 2 + 2 * 4  # head, rule, two contexts of four widths
    assert "| 300 | 8 | 60 [57–66] | 1.20 | 100 [95–110] | 1.82 | 20.5 | 21.7 | 2.77 |" in lines


# ---- blocks in which nothing is measured ----


def test_a_block_with_nothing_but_the_baseline_is_left_out():
    frame = table_frame()
    own = ~frame["method"].isin(["autoregressive", *TABLE1.references])
    only_sized = frame[(frame["block"] != "paper") | ~own]
    trimmed, layout = without_idle_blocks(only_sized, TABLE1)
    assert list(layout.blocks) == ["device"] and set(trimmed["block"]) == {"device", "reference"}
    for text in (table_markdown(only_sized, TABLE1), summary_text(only_sized, TABLE1)):
        assert "Sized to this device" in text and "Paper settings" not in text
    _, csv = save_table(only_sized, TABLE1, "smoke", "")
    assert set(pd.read_csv(csv)["block"]) == {"device"}


def test_blocks_of_which_nothing_at_all_was_measured_stay():
    frame = table_frame()
    for rest in (frame, frame[frame["method"] == "autoregressive"], frame[frame["block"] == "device"]):
        trimmed, layout = without_idle_blocks(rest, TABLE1)
        assert layout == TABLE1
        assert trimmed.equals(rest)
