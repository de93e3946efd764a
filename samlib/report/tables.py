"""The tables from their frames: every row, column and block of a layout has its cell, beside the paper's.

"–" is a cell that was not measured, or too few questions; "not run" a line that there was no time for, or no head.
"""

import dataclasses

import pandas as pd

from samlib.bench.cost_table import basis, cost_table
from samlib.bench.losslessness import ROUNDING_FACTOR
from samlib.bench.metrics import BASELINE, NOT_RUN, OVERALL
from samlib.report.formats import ABSENT, in_italics, interval, markdown_table, number, with_interval
from samlib.report.layouts import OTHER_BASELINE, STARRED
from samlib.report.save import save_csv, save_markdown
from samlib.report.shares import AS_IN_THE_PAPER, PHASES_TITLE, SOURCES_TITLE, phases_table, sources_table
from samlib.report.styles import method_style

SHARED_BLOCK = "reference"  # measured once, shown in every block
SUMMARY_HEAD = "   n    MAT  tokens/s  speed-up  95 % interval   paper  identical"
NO_BRACKETS = str.maketrans("", "", "[]")
KEYS = ["block", "method", "task"]


def complete_table(frame, layout):
    """The frame of a table with one row for each block, method and task of its layout, in the layout's order.

    `frame` has the columns `samlib.bench.metrics.COLUMNS`. Rows of the block "reference" are repeated in every block; a
    cell without a row becomes one with n = 0 and empty numbers. ValueError: the frame has a row that the layout lacks.
    """
    shared = frame[frame["block"] == SHARED_BLOCK]
    copies = [shared.assign(block=block) for block in layout.blocks]
    rows = pd.concat([frame[frame["block"] != SHARED_BLOCK], *copies]).drop_duplicates(KEYS).set_index(KEYS)
    present = {(block, method) for block, method, _ in rows.index}
    cells = [(*line, task) for line in layout.lines(present) for task in layout.columns]
    if missing := sorted(set(rows.index) - set(cells)):
        raise ValueError(f"{layout.short_title} has no place for {missing[0]}: add it to samlib/report/layouts.py")
    complete = rows.reindex(pd.MultiIndex.from_tuples(cells, names=KEYS)).reset_index()
    counts = [column for column in ("n", "n_no_repeat") if column in complete]
    complete[counts] = complete[counts].fillna(0).astype(int)
    return complete


def without_idle_blocks(frame, layout):
    """(frame, layout) without the blocks in which the profile measures nothing but the baseline."""
    own = frame[~frame["method"].isin([BASELINE, *layout.references])]
    idle = set(layout.blocks) & set(frame["block"]) - set(own["block"])
    if len(idle) == len(layout.blocks):
        return frame, layout
    blocks = {block: label for block, label in layout.blocks.items() if block not in idle}
    return frame[~frame["block"].isin(idle)], dataclasses.replace(layout, blocks=blocks)


def save_table(frame, layout, profile, caption, *, sources=None, phases=None):
    """Write figures/<profile>/<table>.md and .csv from the frame of a table; returns the two paths.

    sources, phases: DataFrames as of `sources_table` and `phases_table`; they go into the Markdown file, and into
    <table>_sources.csv and <table>_phases.csv beside it.
    """
    for name, shares in (("sources", sources), ("phases", phases)):
        if shares is not None:
            save_csv(shares, f"{layout.name}_{name}", profile)
    text = table_markdown(frame, layout, caption, sources=sources, phases=phases)
    cells = complete_table(*without_idle_blocks(frame, layout))
    return save_markdown(text, layout.name, profile), save_csv(cells, layout.name, profile)


def save_cost(rows, profile, caption):
    """Write figures/<profile>/cost.md, T(n) beside its limits, from the frame of `cost_rows`; returns the path."""
    parts = ["# T(n): the cost of verifying n tokens", caption, f"{basis(rows)}.", markdown_table(cost_table(rows))]
    return save_markdown("\n\n".join([*parts, _how_to_read_cost()]) + "\n", "cost", profile)


def table_markdown(frame, layout, caption="", *, sources=None, phases=None):
    """A table as Markdown: for each block the paper's layout (speed-up by column), then every cell with all it holds.

    Behind them the shares by source and by phase, where given, and what the frame's attrs list: lines not run, and
    answers that differ.
    """
    frame, layout = without_idle_blocks(frame, layout)
    cells = complete_table(frame, layout)
    parts = [f"# {layout.title}", caption, _how_to_read(layout)]
    for block, label in layout.blocks.items():
        rows = cells[cells["block"] == block]
        parts += [f"## {label}", markdown_table(speedup_grid(rows, layout))]
        parts += [f"### {label}: every cell", markdown_table(all_cells(rows, layout))]
    if sources is not None:
        parts += [f"## {SOURCES_TITLE}", markdown_table(sources_table(sources, layout))]
    if phases is not None:
        parts += [f"## {PHASES_TITLE}", markdown_table(phases_table(phases, layout))]
    parts += _section("Not run", frame.attrs.get("not_run"))
    parts += _section("Answers that differ from greedy decoding", frame.attrs.get("differences"))
    return "\n\n".join(part for part in parts if part) + "\n"


def summary_table(frame, layout):
    """The "overall" rows of every block as a DataFrame of strings, for a notebook."""
    frame, layout = without_idle_blocks(frame, layout)
    overall = _overall(frame, layout)
    index = pd.MultiIndex.from_arrays([overall["block"].map(layout.blocks), overall["method"].map(_label)])
    return pd.DataFrame(_measures(overall)).set_axis(index.set_names(["Block", "Method"]))


def summary_text(frame, layout):
    """A table in short, for the end of a run: plain text, under 100 columns where all answers are identical.

    The overall rows; where the layout ranks several columns, the speed-ups in each of those.
    """
    frame, layout = without_idle_blocks(frame, layout)
    cells = complete_table(frame, layout)
    several = len(layout.ranked) > 1
    lines = [f"{layout.title}, each with its 95 % interval" if several else layout.title]
    for block, label in layout.blocks.items():
        rows = cells[cells["block"] == block]
        lines += _grid_lines(rows, layout, label) if several else _overall_lines(rows, label)
    return "\n".join(lines)


def speedup_grid(rows, layout):
    """One block as the paper prints it: a row a method (ours, then the paper's), speed-up a column, MAT, tokens/s."""
    lines = []
    for method, of_method in rows.groupby("method", sort=False):
        of_method = of_method.set_index("task")
        lines.append(_our_line(method, of_method, layout))
        if of_method[["paper_speedup", "paper_mat"]].notna().any(axis=None):
            lines.append(_paper_line(of_method, layout))
    return pd.DataFrame(lines)


def all_cells(rows, layout):
    """Every cell of one block as strings: method and task, then all measures beside the paper's."""
    labels = {"Method": rows["method"].map(_label), layout.unit.capitalize(): rows["task"].map(layout.columns)}
    return pd.DataFrame(labels | _measures(rows)).reset_index(drop=True)


def is_not_run(rows):
    """Which rows are of lines that were not run, as a boolean Series."""
    return rows["identical"] == NOT_RUN


def _overall(frame, layout):
    cells = complete_table(frame, layout)
    return cells[cells["task"] == OVERALL]


def _measures(rows):
    speedups = rows["speedup"].map(number).mask(is_not_run(rows), NOT_RUN)
    return {
        "n": rows["n"].astype(str),
        "MAT": rows["mat"].map(number),
        "MAT, paper": rows["paper_mat"].map(number),
        "tokens/s": _numbers(rows["tokens_per_s"], 1),
        "tokens/s, paper": _numbers(rows["paper_tokens_per_s"], 1),
        "Speed-up": speedups,
        "95 % interval": [interval(*pair) for pair in zip(rows["speedup_low"], rows["speedup_high"], strict=True)],
        "Speed-up, paper": rows["paper_speedup"].map(number),
        "By total time": rows["speedup_total_time"].map(number),
        "Decode only": rows["speedup_decode"].map(number),
        "Without repeats (n)": [_with_n(*p) for p in zip(rows["speedup_no_repeat"], rows["n_no_repeat"], strict=True)],
        "Identical": rows["identical"].map(_words),
    }


def _overall_lines(rows, label):
    overall = rows[rows["task"] == OVERALL]
    return [f"{label:<28}{SUMMARY_HEAD}", *(_summary_line(row) for row in overall.itertuples())]


def _summary_line(row):
    bounds, value = interval(row.speedup_low, row.speedup_high), _speedup(row._asdict(), number(row.speedup))
    numbers = f"{row.n:>4}{number(row.mat):>7}{number(row.tokens_per_s, 1):>10}{value:>10}"
    return f"  {_label(row.method):<26}{numbers}  {bounds:<15}{number(row.paper_speedup):>6}  {_words(row.identical)}"


def _grid_lines(rows, layout, label):
    """The ranked columns side by side: speed-up and interval, and whether all answers are identical."""
    most = rows.groupby("task")["n"].max()
    head = "".join(f"{layout.columns[task] + f' n={most[task]}':>16}" for task in layout.ranked)
    lines = [f"{label:<23}{head}  identical"]
    for method, of_method in rows.groupby("method", sort=False):
        of_method = of_method.set_index("task")
        cells = "".join(f"{_bare_cell(of_method.loc[task]):>16}" for task in layout.ranked)
        lines.append(f"  {_label(method):<21}{cells}  {_words(of_method.loc[OVERALL, 'identical'])}")
    return lines


def _bare_cell(row):
    """Speed-up and interval without brackets: four of them fit into a line of a terminal."""
    return _speedup(row, with_interval(row["speedup"], row["speedup_low"], row["speedup_high"]).translate(NO_BRACKETS))


def _our_line(method, of_method, layout):
    line = {"Method": _label(method)}
    for task, label in layout.columns.items():
        row = of_method.loc[task]
        line[label] = _speedup(row, with_interval(row["speedup"], row["speedup_low"], row["speedup_high"]))
    overall = of_method.loc[OVERALL]
    ending = {"MAT": number(overall["mat"]), "tokens/s": number(overall["tokens_per_s"], 1)}
    return line | ending | {"n": str(overall["n"]), "Identical": _words(overall["identical"])}


def _paper_line(of_method, layout):
    line = {"Method": AS_IN_THE_PAPER}
    line |= {label: number(of_method.loc[task, "paper_speedup"]) for task, label in layout.columns.items()}
    overall = of_method.loc[OVERALL]
    line |= {"MAT": number(overall["paper_mat"]), "tokens/s": number(overall["paper_tokens_per_s"], 1)}
    return {name: in_italics(text) for name, text in line.items()} | {"n": "", "Identical": ""}


def _how_to_read(layout):
    starred = f"; {STARRED}" if set(OTHER_BASELINE) & set(layout.rows) else ""
    return (
        "Speed-up: mean over questions of tokens/s, divided by the same mean of autoregressive decoding in the same "
        f"loop; in brackets its bootstrap 95 % interval over questions (from 5 questions a {layout.unit}, 12 overall). "
        "The prompt's forward is the same for all of samlib's methods: it is made once, and its time counts for each. "
        "MAT: mean accepted tokens, that is, emitted tokens a verification step. Identical: answers equal, id by id, "
        "to greedy decoding by the model's own `generate` in the same precision. In float32 the one exception is a "
        "*near-tie*: where the two answers part, the logits of the two tokens are less than 0.001 apart, which "
        "one-token and many-token passes may round differently. In float16 and bfloat16 that is common: such an answer "
        "counts as *different in* that type, with the largest gap between the two logits, and bit equality is not "
        f"promised; *beyond rounding* is a gap above {ROUNDING_FACTOR} times the rounding error measured at that "
        "place, which fails the run, as a larger gap does in float32. *In italics: as printed in the paper "
        f"(Vicuna-7B-v1.3, one A6000){starred}.* "
        f"{ABSENT}: not measured, or too few questions. {NOT_RUN}: there was no time for it, or it needs an EAGLE "
        "head and there is none for the model."
    )


def _how_to_read_cost():
    return (
        "All times in milliseconds; in brackets the quartiles. n counts the tokens of one forward, the draft's root "
        "included; context: tokens in the KV cache before it. Memory limit: all weights and the cache read once at the "
        "bandwidth. Operations limit: n times the operations of a token at the peak rate. T(n) / limit: the first way "
        "beside the larger of the two limits. How limits are measured and counted: `samlib/bench/roofline.py`."
    )


def _section(title, lines):
    """A heading and the lines below it; nothing where there are none."""
    return [f"## {title}", "\n".join(f"- {line}" for line in lines)] if lines else []


def _label(method):
    return method_style(method).label


def _numbers(column, digits):
    return [number(value, digits) for value in column]


def _words(identical):
    return ABSENT if pd.isna(identical) else identical


def _speedup(row, words):
    """A speed-up in words, or that its line was not run."""
    return NOT_RUN if row["identical"] == NOT_RUN else words


def _with_n(value, n):
    return ABSENT if pd.isna(value) else f"{value:.2f} ({n})"
