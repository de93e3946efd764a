"""The figures, drawn from frames that were measured and saved elsewhere."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, PercentFormatter

from samlib.report.styles import (
    BLACK,
    BLOCK_LABELS,
    BLUE,
    GREY,
    METHOD_STYLES,
    ORANGE,
    PAGE_WIDTH,
    SOURCE_COLORS,
    TASK_LABELS,
    style_context,
)
from samlib.report.tables import REFERENCE_METHODS, TABLE1_METHODS, complete_table1

DRAWN_METHODS = tuple(m for m in TABLE1_METHODS if m != "autoregressive") + REFERENCE_METHODS[1:]

STRUCTURES = {
    "scan": ("n-gram scan (PLD)", ORANGE, "s", "--"),
    "suffix_array": ("Suffix array", GREY, "v", "-."),
    "automaton": ("Suffix automaton", BLUE, "o", "-"),
}
COMPLEXITY_PANELS = {"context": "Prompt and answer so far", "corpus": "Fixed corpus"}


def plot_table1(frame):
    """Speed-up by task and method with 95 % intervals, one panel a block; hollow markers: the paper's values."""
    cells = complete_table1(frame)
    with style_context():
        fig = Figure(figsize=(PAGE_WIDTH, 4.4))
        axes = fig.subplots(2, 1, sharex=True, sharey=True)
        for ax, (block, label) in zip(axes, BLOCK_LABELS.items(), strict=True):
            _plot_block(ax, cells[cells["block"] == block])
            ax.set_title(label)
        axes[-1].set_xticks(range(len(TASK_LABELS)), TASK_LABELS.values())
        fig.supylabel("Speed-up over autoregressive decoding", fontsize=8)
        handles = [_method_handle(method) for method in DRAWN_METHODS] + [_hollow_handle()]
        fig.legend(handles=handles, loc="outside upper center", ncols=len(handles), columnspacing=1.2)
    return fig


def plot_complexity(frame):
    """Cost of one lookup against text length, log-log: medians as lines, quartiles as bands; one panel a text."""
    with style_context():
        fig = Figure(figsize=(PAGE_WIDTH, 2.8))
        axes = fig.subplots(1, 2, sharey=True)
        for ax, (part, label) in zip(axes, COMPLEXITY_PANELS.items(), strict=True):
            for structure, rows in frame[frame["part"] == part].groupby("structure", sort=False):
                _plot_cost(ax, structure, rows.sort_values("length"))
            ax.set(xscale="log", yscale="log", xlabel="Length (tokens)", title=label)
            _tick_lengths(ax, sorted(set(frame.loc[frame["part"] == part, "length"])))
        decades = np.log10(frame["q75_us"].max() / frame["q25_us"].min())
        axes[0].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 2 else (1,)))
        axes[0].yaxis.set_major_formatter(lambda value, _: _short_count(value))
        axes[0].set_ylabel("One lookup (µs)")
        fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(STRUCTURES))
    return fig


def plot_sources(shares):
    """Share of steps by draft source, one bar a method. `shares`: columns method, source, share (0 to 1)."""
    methods = [m for m in METHOD_STYLES if m in set(shares["method"])]
    table = shares.pivot_table(index="method", columns="source", values="share", aggfunc="sum", fill_value=0.0)
    with style_context():
        fig = Figure(figsize=(PAGE_WIDTH, 0.6 + 0.3 * len(methods)))
        ax = fig.subplots()
        left = np.zeros(len(methods))
        for source in sorted(table, key=_source_rank):
            width = table.loc[methods, source].to_numpy()
            ax.barh(methods, width, left=left, color=SOURCE_COLORS.get(source, GREY), label=_source_label(source))
            left += width
        ax.set_yticks(range(len(methods)), [METHOD_STYLES[m].label for m in methods])
        ax.set(xlabel="Share of verification steps", xlim=(0, 1))
        ax.xaxis.set_major_formatter(PercentFormatter(1.0))
        ax.tick_params(axis="y", length=0)
        ax.invert_yaxis()
        ax.grid(visible=False)
        fig.legend(loc="outside upper center", ncols=table.shape[1])
    return fig


def _plot_block(ax, cells):
    offsets = np.linspace(-0.32, 0.32, len(DRAWN_METHODS))
    for offset, method in zip(offsets, DRAWN_METHODS, strict=True):
        rows = cells[cells["method"] == method].set_index("task").loc[list(TASK_LABELS)]
        _plot_method(ax, np.arange(len(rows)) + offset, rows, METHOD_STYLES[method])
    ax.axhline(1.0, color=BLACK, linewidth=0.8)
    for boundary in np.arange(len(TASK_LABELS) - 1) + 0.5:
        ax.axvline(boundary, color="0.93", linewidth=0.6, zorder=0)
    ax.set_xlim(-0.5, len(TASK_LABELS) - 0.5)
    ax.set_ylim(bottom=0)
    ax.tick_params(axis="x", length=0)


def _plot_method(ax, x, rows, look):
    ax.vlines(x, rows["speedup_low"], rows["speedup_high"], color=look.color, linewidth=1.0)
    ax.plot(x, rows["speedup"], look.marker, color=look.color)
    ax.plot(x, rows["paper_speedup"], look.marker, markerfacecolor="white", color=look.color, alpha=0.75, zorder=1.5)


def _method_handle(method):
    look = METHOD_STYLES[method]
    return Line2D([], [], color=look.color, marker=look.marker, linestyle="none", label=look.label)


def _hollow_handle():
    return Line2D([], [], color=GREY, marker="o", markerfacecolor="white", linestyle="none", label="hollow: the paper")


def _plot_cost(ax, structure, rows):
    label, color, marker, linestyle = STRUCTURES[structure]
    ax.plot(rows["length"], rows["median_us"], linestyle, marker=marker, color=color, label=label)
    ax.fill_between(rows["length"], rows["q25_us"], rows["q75_us"], color=color, alpha=0.2, linewidth=0)


def _source_rank(source):
    """Known sources in their fixed order, "none" last."""
    known = list(SOURCE_COLORS)
    return (source == "none", known.index(source) if source in known else len(known), source)


def _source_label(source):
    return METHOD_STYLES[source].label if source in METHOD_STYLES else source


def _tick_lengths(ax, lengths):
    """Ticks where something was measured, at most six of them labelled."""
    every = -(-len(lengths) // 6)
    ax.set_xticks(lengths, [_short_count(n) if i % every == 0 else "" for i, n in enumerate(lengths)])
    ax.minorticks_off()


def _short_count(value):
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"
