"""The figures of Tables 1, 2 and 3: speed-ups beside the paper's, draft sources, and where the time goes."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from samlib.bench.metrics import BASELINE, NOT_RUN, OVERALL
from samlib.report.formats import ABSENT
from samlib.report.shares import AS_IN_THE_PAPER, ordered_parts, part_label, share_lines
from samlib.report.styles import (
    BLACK,
    GREY,
    METHOD_STYLES,
    PAGE_WIDTH,
    PHASE_LOOKS,
    SOURCE_LOOKS,
    VARIANT_MARKERS,
    method_style,
    style_context,
)
from samlib.report.tables import complete_table, is_not_run, without_idle_blocks

UNDRAWN = (BASELINE, "hf_generate")  # the line at 1, and what drafts nothing
PAPER_DOT = {"markerfacecolor": "white", "markeredgewidth": 0.8, "zorder": 1.5}
SPEEDUP_LABEL = "Speed-up over autoregressive decoding"
OTHER_LOOK = ("", GREY, "")
WHOLE = 0.98  # printed shares are rounded
LEGEND_COLUMNS = 5


def plot_table(frame, layout):
    """The figure of a table from its frame; hollow markers are the paper's values, bars 95 % intervals.

    Speed-up by column and method, one panel a block; of an ablation, speed-up and MAT of the overall column, one row a
    variant. What was not run is named in the figure.
    """
    frame, layout = without_idle_blocks(frame, layout)
    cells = complete_table(frame, layout)
    with style_context():
        return _plot_ablation(cells, layout) if layout.ablated else _plot_columns(cells, layout)


def plot_sources(sources, layout):
    """Share of steps by draft source, one bar a method, one panel a block. sources: as of `sources_table`."""
    return _plot_shares(sources, layout, "source", SOURCE_LOOKS, "Share of verification steps")


def plot_phases(phases, layout):
    """Share of time by phase, one bar a method, one panel a block. phases: as of `phases_table`."""
    return _plot_shares(phases, layout, "phase", PHASE_LOOKS, "Share of time")


def _plot_columns(cells, layout):
    present = set(cells["method"])
    drawn = [row for row in layout.rows if row in present and row not in UNDRAWN]
    fig = Figure(figsize=(PAGE_WIDTH, 0.7 + 2.05 * len(layout.blocks)))
    axes = fig.subplots(len(layout.blocks), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for ax, (block, label) in zip(axes, layout.blocks.items(), strict=True):
        rows = cells[cells["block"] == block]
        _plot_block(ax, rows, drawn, list(layout.columns))
        ax.set_title(label)
        ax.set_title(_not_run_note(rows), loc="right", fontweight="normal", fontsize=7)
    axes[0].set_ylim(_limits(cells[cells["method"].isin(drawn)]))
    axes[-1].set_xticks(range(len(layout.columns)), _column_labels(cells, layout))
    fig.supylabel(SPEEDUP_LABEL, fontsize=8)
    handles = [_handle(method_style(row)) for row in drawn] + [_paper_handle()]
    fig.legend(handles=handles, loc="outside upper center", ncols=min(LEGEND_COLUMNS, len(handles)))
    return fig


def _plot_block(ax, cells, drawn, columns):
    offsets = np.linspace(-0.39, 0.39, len(drawn))
    for offset, method in zip(offsets, drawn, strict=True):
        rows = cells[cells["method"] == method].set_index("task").reindex(columns)
        _plot_method(ax, np.arange(len(rows)) + offset, rows, method_style(method))
    ax.axhline(1.0, color=BLACK, linewidth=0.8, zorder=1)
    for boundary in np.arange(len(columns) - 1) + 0.5:
        ax.axvline(boundary, color="0.8", linewidth=0.6, zorder=0)
    ax.set_xlim(-0.5, len(columns) - 0.5)
    ax.tick_params(axis="x", length=0)


def _plot_method(ax, x, rows, look):
    ax.vlines(x, rows["speedup_low"], rows["speedup_high"], color=look.color, linewidth=1.0)
    ax.plot(x, rows["speedup"], **_dot(look))
    ax.plot(x, rows["paper_speedup"], look.marker, color=look.color, **PAPER_DOT)


def _limits(cells):
    """Of the speed-up axis: all intervals and the paper's values, from a multiple of one half to a little above."""
    values = cells[["speedup", "speedup_low", "speedup_high", "paper_speedup"]].stack().dropna()
    lowest, highest = (values.min(), values.max()) if len(values) else (1.0, 1.0)
    return min(0.5, np.floor(2 * lowest) / 2), max(1.0, highest) + 0.1


def _column_labels(cells, layout):
    """The columns' names, and how many questions stand behind each."""
    most = cells.groupby("task")["n"].max()
    return [f"{label}\nn = {most[task]}" for task, label in layout.columns.items()]


def _not_run_note(rows):
    names = [method_style(method).label for method in dict.fromkeys(rows.loc[is_not_run(rows), "method"])]
    return f"{NOT_RUN}: {', '.join(names)}" if names else ""


def _plot_ablation(cells, layout):
    """One row a variant, grouped by method: speed-up with its interval, and MAT; the paper's value a little lower."""
    overall = cells[cells["task"] == OVERALL].set_index("method")
    places = _ablation_places(layout, overall.index)
    fig = Figure(figsize=(PAGE_WIDTH, 0.9 + 0.27 * len(places)))
    speed, mat = fig.subplots(1, 2, sharey=True, width_ratios=(1.5, 1))
    for method, y in places.items():
        _plot_variant(speed, y, overall.loc[method], "speedup", method)
        _plot_variant(mat, y, overall.loc[method], "mat", method)
    speed.axvline(1.0, color=BLACK, linewidth=0.8, zorder=1)
    speed.set_xlim(left=min(0.9, speed.get_xlim()[0]))
    for ax in (speed, mat):
        ax.grid(visible=True, axis="x")
        ax.tick_params(axis="y", length=0)
    speed.set_yticks(list(places.values()), [method_style(method).label for method in places])
    speed.set(ylim=(max(places.values()) + 0.6, -0.6), xlabel=f"{SPEEDUP_LABEL}, n = {overall['n'].max()}")
    mat.set(xlabel="Mean accepted tokens (MAT)")
    handles = [_handle(METHOD_STYLES[method]) for method in layout.ablated if method in places]
    fig.legend(handles=[*handles, _paper_handle()], loc="outside upper center", ncols=LEGEND_COLUMNS)
    return fig


def _ablation_places(layout, present):
    """{row: y} of the rows present, downwards, with a gap between one method's rows and the next one's."""
    rows = [[row for row in (method, *layout.without(method)) if row in present] for method in layout.ablated]
    groups = [group for group in rows if group]
    return {row: at + 0.5 * i for i, g in enumerate(groups) for at, row in enumerate(g, sum(map(len, groups[:i])))}


def _plot_variant(ax, y, row, measure, method):
    look = METHOD_STYLES[method.partition(" ")[0]]
    if not row["n"]:
        words = NOT_RUN if row["identical"] == NOT_RUN else ABSENT
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        ax.annotate(words, (0.02, y), xycoords=("axes fraction", "data"), va="center", fontsize=7, bbox=box)
    if measure == "speedup":
        ax.hlines(y, row["speedup_low"], row["speedup_high"], color=look.color)
    ax.plot(row[measure], y, **_dot(look))
    ax.plot(row[f"paper_{measure}"], y + 0.28, look.marker, color=look.color, **PAPER_DOT)


def _plot_shares(shares, layout, part, looks, label):
    """Stacked bars; the paper's bar, where it has one, is a thinner one below the method's own."""
    parts = ordered_parts(shares, part, looks)
    bars = {
        (block, method, of_paper): rows["share"].reindex(parts)
        for block, method, of_paper, rows in share_lines(shares, layout, part)
        if _is_drawn(method, of_paper, rows["share"], part)
    }
    blocks = [block for block in layout.blocks if any(key[0] == block for key in bars)]
    order = {(method, paper): None for _, method, paper in bars}
    order = sorted(order, key=lambda line: (layout.rows.index(line[0]), line[1]))
    with style_context():
        fig = Figure(figsize=(PAGE_WIDTH, 0.85 + 0.2 * len(order)))
        axes = fig.subplots(1, max(len(blocks), 1), sharey=True, squeeze=False)[0]
        for ax, block in zip(axes, blocks, strict=False):
            for y, line in enumerate(order):
                _plot_bar(ax, y, bars.get((block, *line)), looks, 0.5 if line[1] else 0.75)
            ax.set(title=layout.blocks[block], xlabel=label, xlim=(0, 1))
            ax.xaxis.set_major_formatter(PercentFormatter(1.0))
            ax.tick_params(axis="y", length=0)
            ax.grid(visible=False)
        axes[0].set_yticks(range(len(order)), [_bar_label(*line) for line in order])
        axes[0].set_ylim(len(order) - 0.4, -0.6)
        fig.legend(handles=_part_handles(parts, looks), loc="outside upper center", ncols=max(len(parts), 1))
    return fig


def _is_drawn(method, of_paper, shares, part):
    """Not what never drafts; nor a paper's bar of which parts are missing: it would look like a small whole."""
    return not (part == "source" and method == BASELINE) and not (of_paper and shares.sum() < WHOLE)


def _plot_bar(ax, y, bar, looks, height):
    if bar is None:
        ax.text(0.01, y, ABSENT, va="center", color="0.35")
        return
    left = 0.0
    for part, share in bar.dropna().items():
        _, color, hatch = looks.get(part, OTHER_LOOK)
        ax.barh(y, share, height, left, color=color, hatch=hatch, edgecolor="white", linewidth=0.5)
        left += share


def _bar_label(method, of_paper):
    return AS_IN_THE_PAPER if of_paper else method_style(method).label


def _part_handles(parts, looks):
    look = {part: looks.get(part, OTHER_LOOK) for part in parts}
    return [
        Patch(facecolor=color, hatch=hatch, edgecolor="white", linewidth=0.5, label=part_label(part, looks))
        for part, (_, color, hatch) in look.items()
    ]


def _dot(look):
    """How a measured value is drawn; a marker of bare lines larger and bolder, to weigh as much as a filled one."""
    bold = {"markersize": 7, "markeredgewidth": 1.5} if look.marker in VARIANT_MARKERS.values() else {}
    return {"color": look.color, "marker": look.marker, "linestyle": "none"} | bold


def _handle(look):
    return Line2D([], [], label=look.label, **_dot(look))


def _paper_handle():
    return Line2D([], [], color=GREY, marker="o", markerfacecolor="white", linestyle="none", label="hollow: the paper")
