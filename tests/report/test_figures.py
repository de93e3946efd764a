"""Figures: all files there, drawn from their CSV, and the same bytes whenever they are drawn."""

import time

import pandas as pd
import pytest
from matplotlib.container import BarContainer

from samlib import paths
from samlib.bench.automaton_table import automaton_rows
from samlib.bench.cost_table import cost_rows
from samlib.report import (
    WordAutomaton,
    draw_automaton,
    plot_automaton_scale,
    plot_complexity,
    plot_cost,
    plot_sources,
    plot_table1,
    save_figure,
)
from samlib.report.save import write_whole
from tests.bench.scale_records import scale_records
from tests.report.synthetic import complexity_frame, cost_curve, table1_frame

SHARES = pd.DataFrame(
    [("pld", "none", 1.0), ("sam", "dynamic", 0.75), ("sam", "none", 0.25), ("sam[t]", "unheard_of", 1.0)],
    columns=["method", "source", "share"],
)
FIGURES = {
    "table1": lambda: plot_table1(table1_frame()),
    "complexity": lambda: plot_complexity(complexity_frame()),
    "cost": lambda: plot_cost(cost_rows(cost_curve())),
    "sources": lambda: plot_sources(SHARES),
    "automaton_scale": lambda: plot_automaton_scale(automaton_rows(scale_records())),
    "automaton": lambda: draw_automaton(WordAutomaton("so the cat sat and the cat".split())),
}


def save(name):
    saved = save_figure(FIGURES[name](), name, "smoke", data=SHARES, caption="“Curly” – µs")
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


def test_table1_draws_each_measured_value_and_each_of_the_papers():
    frame = table1_frame()
    drawn = {round(float(y), 6) for ax in plot_table1(frame).axes for line in ax.lines for y in line.get_ydata()}
    shown = frame[~frame["method"].isin(["autoregressive", "hf_generate"])]
    for column in ("speedup", "paper_speedup"):
        assert {round(float(value), 6) for value in shown[column].dropna()} <= drawn


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


def test_bars_of_a_method_add_up_to_its_steps():
    (ax,) = plot_sources(SHARES).axes
    bars = [container for container in ax.containers if isinstance(container, BarContainer)]
    assert len(bars) == SHARES["source"].nunique()  # a source without a colour of its own is drawn, too
    for row in range(SHARES["method"].nunique()):
        assert sum(container[row].get_width() for container in bars) == pytest.approx(1.0)
