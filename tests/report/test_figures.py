"""Figures: all files there, drawn from their CSV, and the same bytes whenever they are drawn."""

import time

import numpy as np
import pandas as pd
import pytest

from samlib import paths
from samlib.bench.automaton_table import automaton_rows
from samlib.bench.cost_table import cost_rows
from samlib.report import (
    LAYOUTS,
    TABLE1,
    TABLE2,
    TABLE3,
    WordAutomaton,
    draw_automaton,
    plot_automaton_scale,
    plot_complexity,
    plot_cost,
    plot_live_training,
    plot_phases,
    plot_sources,
    plot_table,
    plot_training,
    save_figure,
    training_frame,
)
from samlib.report.save import write_whole
from samlib.report.styles import method_style
from tests.bench.scale_records import scale_records
from tests.bench.training_records import invented_training, step_records
from tests.report.synthetic import complexity_frame, cost_curve, not_run, phases_frame, sources_frame, table_frame

FIGURES = {
    "table1": lambda: plot_table(not_run(table_frame(), "lookahead"), TABLE1),
    "table2": lambda: plot_table(table_frame(TABLE2), TABLE2),
    "table3": lambda: plot_table(not_run(table_frame(TABLE3), "sam without static"), TABLE3),
    "complexity": lambda: plot_complexity(complexity_frame()),
    "cost": lambda: plot_cost(cost_rows(cost_curve())),
    "sources": lambda: plot_sources(sources_frame(), TABLE1),
    "phases": lambda: plot_phases(phases_frame(TABLE3), TABLE3),
    "automaton_scale": lambda: plot_automaton_scale(automaton_rows(scale_records())),
    "eagle_training": lambda: plot_training(training_frame(invented_training())),
    "eagle_live": lambda: plot_live_training(pd.DataFrame(step_records()[:50])),
    "automaton": lambda: draw_automaton(WordAutomaton("so the cat sat and the cat".split())),
}


def save(name):
    saved = save_figure(FIGURES[name](), name, "smoke", data=complexity_frame(), caption="“Curly” – µs")
    return {path.name: path.read_bytes() for path in (saved.png, saved.pdf, saved.csv)}


@pytest.mark.parametrize("name", FIGURES)
def test_redrawing_changes_no_byte(name):
    first = save(name)
    time.sleep(1.1)  # a time stamp in a file would differ by now
    assert save(name) == first
    assert b"CreationDate" not in first[f"{name}.pdf"]
    assert b"/FontFile2" in first[f"{name}.pdf"]  # TrueType, embedded: what publishers ask for


def test_a_readers_own_settings_do_not_change_the_bytes():
    import matplotlib as mpl

    expected = save("complexity")
    with mpl.rc_context({"font.size": 20, "savefig.dpi": 30, "pdf.fonttype": 3, "savefig.bbox": "tight"}):
        assert save("complexity") == expected


@pytest.mark.parametrize("name", FIGURES)
def test_figures_have_the_width_of_a_page(name):
    assert FIGURES[name]().get_figwidth() == 7.0


def test_nothing_but_the_named_files_is_left_behind():
    save("sources")
    names = sorted(path.name for path in (paths.FIGURES / "smoke").iterdir())
    assert names == ["sources.csv", "sources.pdf", "sources.png", "sources.txt"]
    assert (paths.FIGURES / "smoke" / "sources.txt").read_text() == "“Curly” – µs\n"


def test_an_interrupted_write_leaves_the_old_file_whole(tmp_path):
    path = tmp_path / "file"
    write_whole(path, b"old")
    with pytest.raises(TypeError):
        write_whole(path, "not bytes")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.glob("*.tmp")) + list(tmp_path.glob(".*")) == []


def values_of(lines, axis="y"):
    return {round(float(v), 6) for line in lines for v in np.atleast_1d(getattr(line, f"get_{axis}data")())}


def rounded(values):
    return {round(float(value), 6) for value in values.dropna()}


def texts_of(ax):
    return [text.get_text() for text in ax.texts]


@pytest.mark.parametrize("layout", [TABLE1, TABLE2], ids=lambda layout: layout.name)
def test_each_block_draws_each_measured_value_and_each_of_the_papers(layout):
    frame = table_frame(layout)
    shown = frame[~frame["method"].isin(["autoregressive", "hf_generate"])]
    for ax, block in zip(plot_table(frame, layout).axes, layout.blocks, strict=True):
        of_block = shown[shown["block"].isin([block, "reference"])]
        for method, rows in of_block.groupby("method"):
            own = [line for line in ax.lines if line.get_marker() == method_style(method).marker]
            hollow = [line for line in own if line.get_markerfacecolor() == "white"]
            filled = [line for line in own if line not in hollow]
            assert rounded(rows["speedup"]) == {y for y in values_of(filled) if y == y}
            assert rounded(rows["paper_speedup"]) == {y for y in values_of(hollow) if y == y}
        bars = {round(float(y), 6) for bar in ax.collections for path in bar.get_paths() for y in path.vertices[:, 1]}
        assert rounded(of_block["speedup_low"]) | rounded(of_block["speedup_high"]) == {
            bar for bar in bars if bar == bar
        }
        low, high = ax.get_ylim()
        assert (
            low < np.nanmin(list(bars)) and np.nanmax(list(bars)) < high and high > of_block["paper_speedup"].max()
        )  # nothing is cut off


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_axes_are_labelled_and_give_n(layout):
    fig = plot_table(table_frame(layout), layout)
    labels = [fig.get_supylabel(), *(ax.get_xlabel() for ax in fig.axes)]
    assert any(label.startswith("Speed-up over autoregressive decoding") for label in labels)
    ticks = [tick.get_text() for tick in fig.axes[-1].get_xticklabels()]
    if layout is TABLE2:
        assert ticks == ["HumanEval\nn = 5", "MBPP\nn = 5", "HAGRID\nn = 5", "Overall\nn = 15"]
    if layout is TABLE3:
        assert labels[1].endswith("n = 30") and labels[2] == "Mean accepted tokens (MAT)"


def test_the_figure_names_what_was_not_run_in_its_block():
    frame = not_run(table_frame(), "lookahead", "token_recycling cold")
    paper, device = plot_table(frame, TABLE1).axes
    assert paper.get_title(loc="right") == "not run: Lookahead, Token Recycling, cold"
    assert device.get_title(loc="right") == "not run: Lookahead"
    assert {ax.get_title(loc="right") for ax in plot_table(table_frame(), TABLE1).axes} == {""}


def test_the_ablation_draws_speed_and_mat_of_each_variant_beside_the_papers():
    frame = table_frame(TABLE3)
    overall = frame[(frame["task"] == "overall") & frame["method"].str.startswith("sam")]
    speed, mat = plot_table(frame, TABLE3).axes
    labels = [label.get_text() for label in speed.get_yticklabels()]
    assert labels[:2] == ["SAM[T]", "SAM[T] without static"] and labels[4:8:3] == ["SAM[E2]", "SAM"]
    assert len(labels) == len(overall)
    for ax, measure in ((speed, "speedup"), (mat, "mat")):
        hollow = [line for line in ax.lines if line.get_markerfacecolor() == "white" and line.get_marker() == "o"]
        assert rounded(overall[f"paper_{measure}"]) == {x for x in values_of(hollow, "x") if x == x}
        own = [line for line in ax.lines if line.get_marker() in "Dpo" and line.get_markerfacecolor() != "white"]
        assert [line.get_ydata()[0] for line in own] == sorted(line.get_ydata()[0] for line in own)
        assert [round(float(line.get_xdata()[0]), 6) for line in own] == [round(v, 6) for v in overall[measure]]


def test_the_ablation_draws_only_the_methods_that_were_taken_apart():
    frame = table_frame(TABLE3)
    figure = plot_table(frame[~frame["method"].str.startswith("sam[e2]")], TABLE3)
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert [label for label in labels if "without" not in label] == ["SAM[T]", "SAM"]
    assert "SAM[E2]" not in [text.get_text() for text in figure.legends[0].get_texts()]
    figure = plot_table(frame[frame["method"] != "sam[e2] without static"], TABLE3)  # it failed on every question
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert [label for label in labels if "E2" in label] == ["SAM[E2]", "SAM[E2] without dynamic"]


def test_the_ablation_tells_not_run_from_absent():
    frame = not_run(table_frame(TABLE3), "sam without static")
    frame = frame[frame["method"] != "sam[t] without dynamic"]
    for ax in plot_table(frame, TABLE3).axes:
        assert sorted(texts_of(ax)) == ["not run", "–"]


def bars_of(fig, panel=0):
    """{label of the row: sum of its bars' widths}, from above."""
    ax = fig.axes[panel]
    labels = [label.get_text() for label in fig.axes[0].get_yticklabels()]
    totals = [
        sum(bar.get_width() for bar in ax.patches if round(bar.get_y() + bar.get_height() / 2) == y)
        for y in range(len(labels))
    ]
    return list(zip(labels, totals, strict=True))


def test_bars_of_sources_add_up_and_the_papers_stand_below_its_method():
    fig = plot_sources(sources_frame(), TABLE1)
    bars = bars_of(fig)
    methods = [method for method in TABLE1.methods if method != "autoregressive"]
    expected = [method_style(method).label for method in methods]
    expected.insert(expected.index("SAM[T]") + 1, "as in the paper")
    assert [label for label, _ in bars] == expected
    assert all(total == pytest.approx(1.0) for _, total in bars)
    assert dict(bars_of(fig, 1))["as in the paper"] == 0 and texts_of(fig.axes[1]) == ["–"]


def test_a_source_without_a_look_is_drawn_too():
    fig = plot_sources(sources_frame().replace({"source": {"static": "unheard_of"}}), TABLE1)
    assert "unheard_of" in [text.get_text() for text in fig.legends[0].get_texts()]
    assert all(total == pytest.approx(1.0) for _, total in bars_of(fig))


def test_phases_add_up_and_an_incomplete_bar_of_the_papers_is_not_drawn():
    frame = phases_frame(TABLE3)
    bars = dict(bars_of(plot_phases(frame, TABLE3)))
    assert bars["as in the paper"] == pytest.approx(1.0) and bars["Autoregressive"] == pytest.approx(1.0)
    frame.loc[frame["phase"] == "verify", "paper_share"] = np.nan
    assert "as in the paper" not in dict(bars_of(plot_phases(frame, TABLE3)))


def test_a_block_without_shares_has_no_panel():
    frame = sources_frame()
    (ax,) = plot_sources(frame[frame["block"] == "device"], TABLE1).axes
    assert ax.get_title(loc="left") == "Sized to this device" and ax.get_xlabel() == "Share of verification steps"


def test_automata_at_scale_show_both_sides_of_each_comparison_and_the_limit():
    rows = automaton_rows(scale_records()).set_index("measurement")
    build, memory, draft = plot_automaton_scale(rows.reset_index()).axes
    shown = [label.get_text() for label in build.get_yticklabels()]
    assert shown == ["samlib, 16M", "DraftRetriever, 16M", "ArcticInference, 2M"]
    for ax, name in ((build, "build"), (memory, "index memory"), (draft, "draft, held-out")):
        drawn = {round(float(x), 9) for line in ax.lines for x in line.get_xdata()}
        beside = rows.loc[f"{name}, DraftRetriever"]
        alone = rows.loc["draft, first, held-out" if name.startswith("draft") else name]
        wanted = (beside["samlib"], beside["other"], alone["samlib"], alone["limit"])
        assert {round(float(x), 9) for x in wanted} <= drawn
        assert ax.get_xscale() == "log"


def test_automata_at_scale_can_be_drawn_without_any_peer():
    rows = automaton_rows([record for record in scale_records() if not record["peer"]])
    assert [label.get_text() for label in plot_automaton_scale(rows).axes[0].get_yticklabels()] == ["samlib, 16M"]


def test_the_cost_figure_draws_every_median_and_both_limits_in_their_context():
    rows = cost_rows(cost_curve())
    axes = plot_cost(rows).axes
    assert [ax.get_title(loc="left") for ax in axes] == ["300 tokens in the KV cache", "900 tokens in the KV cache"]
    for ax, (_, of_context) in zip(axes, rows.groupby("context"), strict=True):
        drawn = {line.get_label(): [round(float(y), 6) for y in line.get_ydata()] for line in ax.lines}
        for way, label in (("kernels", "samlib's kernels"), ("plain", "plain layers")):
            assert drawn[label] == [round(1e3 * s, 6) for s in of_context.loc[of_context["way"] == way, "seconds"]]
        once = of_context.drop_duplicates("width")
        assert drawn["limit: weights over bandwidth"] == [round(1e3 * s, 6) for s in once["memory_seconds"]]
        assert drawn["limit: operations over peak rate"] == [round(1e3 * s, 6) for s in once["compute_seconds"]]
        assert len(set(drawn["limit: weights over bandwidth"])) == 1, "reading does not depend on n"


def test_one_context_and_plain_layers_alone_can_be_drawn():
    rows = cost_rows(cost_curve())
    (ax,) = plot_cost(rows[(rows["context"] == 300) & (rows["way"] == "plain")]).axes
    assert len(ax.lines) == 3


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_a_table_of_which_nothing_was_run_can_be_drawn(layout):
    frame = table_frame(layout)
    for nothing in (not_run(frame, *layout.rows), frame[:0]):
        assert save_figure(plot_table(nothing, layout), "empty", "smoke").png.stat().st_size > 0
    for plot, shares in ((plot_sources, sources_frame(layout)), (plot_phases, phases_frame(layout))):
        assert save_figure(plot(shares[:0], layout), "empty", "smoke").png.stat().st_size > 0
