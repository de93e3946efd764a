"""The figures of costs, drawn from frames that were measured and saved elsewhere."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from samlib.report.styles import BLACK, BLUE, GREY, ORANGE, PAGE_WIDTH, PURPLE, style_context

STRUCTURES = {
    "scan": ("n-gram scan (PLD)", ORANGE, "s", "--"),
    "suffix_array": ("Suffix array", GREY, "v", "-."),
    "automaton": ("Suffix automaton", BLUE, "o", "-"),
}
# What the figure of the automata at scale shows: (the library's measurement, beside a peer, label of the axis).
SCALE_PANELS = (
    ("build", "build, {}", "Building (million tokens/s)"),
    ("index memory", "index memory, {}", "Finished index (bytes/token)"),
    ("draft, first, held-out", "draft, held-out, {}", "Draft of 40 tokens (µs)"),
)
PEER_LOOKS = {"DraftRetriever": (ORANGE, "s"), "ArcticInference": (PURPLE, "^"), "plain Python": (GREY, "v")}
COST_LOOKS = {"kernels": ("samlib's kernels", BLUE, "o", "-"), "plain": ("plain layers", ORANGE, "s", "-")}
COST_LIMITS = {
    "memory_seconds": ("limit: weights over bandwidth", BLACK, "--"),
    "compute_seconds": ("limit: operations over peak rate", BLACK, ":"),
}
COMPLEXITY_PANELS = {"context": "Prompt and answer so far", "corpus": "Fixed corpus"}


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
        _label_decades(axes[0].yaxis, decades)
        axes[0].set_ylabel("One lookup (µs)")
        fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(STRUCTURES))
    return fig


def plot_automaton_scale(rows):
    """Building, memory and drafting of the static index beside each peer, log axes; ticks: what the machine allows.

    rows: of `samlib.bench.automaton_table.automaton_rows`. A line of the figure is one comparison: samlib and the peer
    at the same size in the same run, bars from the smallest to the largest repeat.
    """
    peers = [name for name in PEER_LOOKS if name in set(rows["peer"])]
    by_name = rows.set_index("measurement")
    with style_context():
        fig = Figure(figsize=(PAGE_WIDTH, 1.1 + 0.25 * (1 + len(peers))))
        axes = fig.subplots(1, len(SCALE_PANELS), sharey=True)
        for ax, (alone, beside, label) in zip(axes, SCALE_PANELS, strict=True):
            _plot_comparisons(ax, by_name, [alone, *(beside.format(peer) for peer in peers)])
            ax.set(xscale="log", xlabel=label)
            _label_decades(ax.xaxis, np.log10(ax.get_xlim()[1] / ax.get_xlim()[0]))
        names = ["build", *(f"build, {peer}" for peer in peers)]
        labels = [
            f"{peer}, {_short_count(by_name.loc[name, 'tokens'])}"
            for peer, name in zip(["samlib", *peers], names, strict=True)
        ]
        axes[0].set_yticks(range(len(names)), labels)
        axes[0].set_ylim(len(names) - 0.5, -0.5)
        fig.legend(handles=_scale_handles(peers), loc="outside upper center", ncols=2 + len(peers))
    return fig


def plot_cost(rows):
    """T(n) against n beside its two limits: one panel a context, one line a way, quartiles as bands.

    rows: of `samlib.bench.cost_table.cost_rows`.
    """
    contexts = list(dict.fromkeys(rows["context"]))
    with style_context():
        fig = Figure(figsize=(PAGE_WIDTH, 2.9))
        axes = fig.subplots(1, len(contexts), sharey=True, squeeze=False)[0]
        for ax, context in zip(axes, contexts, strict=True):
            _plot_cost_panel(ax, rows[rows["context"] == context].sort_values("width"))
            ax.set(xlabel="Tokens in the forward, n", title=f"{context:,} tokens in the KV cache")
        axes[0].set_ylabel("T(n) (ms)")
        axes[0].set_ylim(bottom=0)
        handles, labels = axes[0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return fig


def _plot_cost_panel(ax, rows):
    """One context's lines; the limits come from the first way's rows, since they are the same for all."""
    for way, of_way in rows.groupby("way", sort=False):
        label, color, marker, linestyle = COST_LOOKS[way]
        x = of_way["width"]
        ax.plot(x, 1e3 * of_way["seconds"], linestyle, marker=marker, color=color, label=label)
        ax.fill_between(x, 1e3 * of_way["q25"], 1e3 * of_way["q75"], color=color, alpha=0.2, linewidth=0)
    once = rows.drop_duplicates("width")
    for column, (label, color, linestyle) in COST_LIMITS.items():
        ax.plot(once["width"], 1e3 * once[column], linestyle, color=color, label=label)
    ax.set_xlim(left=0)


def _plot_comparisons(ax, by_name, names):
    """One row a name, from above: the peer's marker, samlib's, a line between, and a tick at the machine's limit."""
    ax.grid(visible=True, axis="x")
    ax.tick_params(axis="y", length=0)
    for y, row in enumerate(by_name.loc[name] for name in names):
        ax.plot([row["samlib"], row["other"]], [y, y], color="0.8", linewidth=1.0, zorder=1)
        if row["peer"] in PEER_LOOKS:
            color, marker = PEER_LOOKS[row["peer"]]
            ax.hlines(y, row["other_low"], row["other_high"], color=color)
            ax.plot(row["other"], y, marker, color=color)
        ax.hlines(y, row["samlib_low"], row["samlib_high"], color=BLUE)
        ax.plot(row["samlib"], y, "o", color=BLUE)
        ax.plot(row["limit"], y, "|", color=BLACK, markersize=9)


def _scale_handles(peers):
    looks = (
        {"samlib": (BLUE, "o")} | {peer: PEER_LOOKS[peer] for peer in peers} | {"limit of the machine": (BLACK, "|")}
    )
    return [Line2D([], [], color=c, marker=m, linestyle="none", label=name) for name, (c, m) in looks.items()]


def _plot_cost(ax, structure, rows):
    label, color, marker, linestyle = STRUCTURES[structure]
    ax.plot(rows["length"], rows["median_us"], linestyle, marker=marker, color=color, label=label)
    ax.fill_between(rows["length"], rows["q25_us"], rows["q75_us"], color=color, alpha=0.2, linewidth=0)


def _tick_lengths(ax, lengths):
    """Ticks where something was measured, at most six of them labelled."""
    every = -(-len(lengths) // 6)
    ax.set_xticks(lengths, [_short_count(n) if i % every == 0 else "" for i, n in enumerate(lengths)])
    ax.minorticks_off()


def _label_decades(axis, decades):
    """Labels at powers of ten; on an axis that spans less than two decades also at 2 and 5 times these."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 2 else (1,)))
    axis.set_major_formatter(lambda value, _: _short_count(value))
    axis.set_minor_formatter(NullFormatter())


def _short_count(value):
    if value >= 1_000_000:
        return f"{value / 1_000_000:g}M"
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"
