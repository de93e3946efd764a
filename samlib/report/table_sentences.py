"""What Tables 1, 2 and 3 say, in sentences computed from their frames: no more than the intervals allow."""

import itertools

from samlib.bench.metrics import BASELINE, OVERALL
from samlib.report.formats import listed, number, with_interval
from samlib.report.layouts import OTHER_BASELINE
from samlib.report.styles import method_style
from samlib.report.tables import complete_table, is_not_run, without_idle_blocks


def table_findings(frame, layout):
    """What a table says, beside what the paper's says, a sentence each; the last is whether all answers are identical.

    frame: of `samlib.bench.metrics`, or the table's CSV read back.
    """
    frame, layout = without_idle_blocks(frame, layout)
    cells = complete_table(frame, layout)
    measured = cells[cells["n"] > 0]
    of_blocks = [
        sentence
        for block in layout.blocks
        for sentence in _block_findings(measured[measured["block"] == block], layout, block)
    ]
    return [*of_blocks, *_not_run_sentences(cells, layout), _identical_sentence(measured, layout)]


def _block_findings(rows, layout, block):
    label, rivals = layout.blocks[block], rows[rows["method"] != BASELINE]
    own = rivals[~rivals["method"].isin(layout.references)]
    if own.empty:
        return [f"{label}: nothing was measured."]
    ranked = {task: rivals[rivals["task"] == task].set_index("method") for task in layout.ranked}
    columns = {f"{label}, {layout.columns[task]}": rows for task, rows in ranked.items() if len(rows)}
    overall = own[own["task"] == OVERALL].set_index("method")
    return [
        *(_fastest_sentence(where, rows) for where, rows in columns.items()),
        *(text for where, rows in columns.items() for text in _order_sentences(where, rows)),
        *([f"{label}: {_mat_sentence(overall)}"] if block == "paper" and len(overall) else []),
        *_cold_sentences(overall, layout),
        *_module_sentences(overall, layout),
        f"{label}: {_slower_sentence(rivals, layout)}",
    ]


def _fastest_sentence(where, rows):
    """The highest speed-up of a column, what its interval says, and the next one."""
    order = rows.sort_values("speedup", ascending=False, kind="stable")
    text = f"{where}: the highest speed-up is {_named_value(order.iloc[0])}, {_beside_one(order.iloc[0])}"
    if len(order) == 1:
        return f"{text}."
    return f"{text}; the next is {_named_value(order.iloc[1])} ({_next_words(*order.iloc[:2].itertuples())})."


def _next_words(first, second):
    if _apart(first, second):
        return "its whole interval lies below"
    missing = second.speedup_high != second.speedup_high or first.speedup_low != first.speedup_low  # nan
    return "too few questions for intervals" if missing else "the intervals overlap: the order is not certain"


def _beside_one(row):
    if row["speedup_low"] > 1:
        return "faster than autoregressive decoding"
    if row["speedup_high"] < 1:
        return "slower than autoregressive decoding"
    why = "the interval includes 1" if row["speedup_low"] <= 1 else "too few questions for an interval"
    return f"not certainly faster than autoregressive decoding ({why})"


def _order_sentences(where, rows):
    """Our order of the methods whose speed-ups the paper took over its own baseline, beside the paper's."""
    rows = rows.drop(index=[method for method in OTHER_BASELINE if method in rows.index])
    rows = rows.dropna(subset=["speedup", "paper_speedup"])
    if len(rows) < 2:
        return []
    ours, theirs = (rows[name].sort_values(ascending=False, kind="stable") for name in ("speedup", "paper_speedup"))
    return [f"{where}: ordered by speed-up {_values(ours)}; in the paper {_values(theirs)}: {_same_order(rows)}."]


def _same_order(rows):
    """Which pairs stand the other way round than in the paper, and whether the intervals bear it out."""
    pairs = list(itertools.combinations(rows.sort_values("speedup", ascending=False, kind="stable").itertuples(), 2))
    swapped = [(a, b) for a, b in pairs if a.paper_speedup < b.paper_speedup]
    certain = [f"{_label(a.Index)} before {_label(b.Index)}" for a, b in swapped if _apart(a, b)]
    if certain:
        return f"another order, with intervals apart for {listed(certain)}"
    if swapped:
        return "another order, but only between methods whose intervals overlap or are missing"
    if all(_apart(a, b) for a, b in pairs):
        return "the same order, all intervals apart"
    return "the same order, though not all intervals are apart"


def _mat_sentence(overall):
    top, paper = overall["mat"].idxmax(), overall["paper_mat"].dropna()
    text = f"{_label(top)} emits the most tokens a step, {overall['mat'].max():.2f}"
    return f"{text}; in the paper, {_label(paper.idxmax())} with {paper.max():.2f}." if len(paper) else f"{text}."


def _cold_sentences(overall, layout):
    """A method that learns from question to question, beside itself when it starts each question with nothing."""
    pairs = [(row.removesuffix(" cold"), row) for row in layout.optional if row.endswith(" cold")]
    return [_cold_sentence(overall, *pair) for pair in pairs if set(pair) <= set(overall.index)]


def _cold_sentence(overall, method, cold):
    kept, forgotten = overall.loc[method], overall.loc[cold]
    return (
        f"{_label(method)}, warm (what it learned is kept from question to question): {_mat_and_speed(kept)}; cold: "
        f"{_mat_and_speed(forgotten)}; warm beside cold: {_compared(kept, forgotten)}."
    )


def _module_sentences(overall, layout):
    """For each module of each ablated method, what taking it away changes, beside what the paper's change is."""
    pairs = [(method, row) for method in layout.ablated for row in layout.without(method)]
    return [_module_sentence(overall, *pair) for pair in pairs if set(pair) <= set(overall.index)]


def _module_sentence(overall, method, row):
    whole, without = overall.loc[method], overall.loc[row]
    text = (
        f"{_label(row)}: MAT {number(whole['mat'])} → {number(without['mat'])}, speed-up {_value(whole)} → "
        f"{_value(without)}: {_compared(without, whole)}"
    )
    theirs = without[["paper_mat", "paper_speedup"]].notna() & whole[["paper_mat", "paper_speedup"]].notna()
    if not theirs.all():
        return f"{text}."
    mat, speedup = (f"{number(whole[f'paper_{m}'])} → {number(without[f'paper_{m}'])}" for m in ("mat", "speedup"))
    return f"{text}; in the paper MAT {mat}, speed-up {speedup}."


def _slower_sentence(rows, layout):
    slower = rows[rows["speedup_high"] < 1]
    if rows["speedup_high"].isna().all():
        return "too few questions for intervals: whether a method is slower than autoregressive decoding is open."
    if slower.empty:
        return "no interval lies wholly below 1, so that no method is certainly slower than autoregressive decoding."
    return f"slower than autoregressive decoding, with the whole interval below 1: {_with_columns(slower, layout)}."


def _not_run_sentences(cells, layout):
    waiting = cells[is_not_run(cells)]
    words = {block: _with_columns(rows, layout) for block, rows in waiting.groupby("block", sort=False)}
    if len(words) == len(layout.blocks) and len(set(words.values())) == 1:
        return [f"Not run: {next(iter(words.values()))}."]
    named = "; ".join(f"{methods} ({layout.blocks[block]})" for block, methods in words.items())
    return [f"Not run: {named}."] if words else []


def _identical_sentence(measured, layout):
    overall = measured[measured["task"] == OVERALL]
    wrong = [row for row in overall.itertuples() if not _all_identical(row.identical)]
    if overall.empty:
        return "No answer was measured."
    if not wrong:
        return "Every answer of every method that was run is identical to greedy decoding."
    named = ", ".join(f"{_label(row.method)} ({row.block}) {row.identical}" for row in wrong)
    return f"Not every answer is identical to greedy decoding: {named}."


def _all_identical(text):
    same, _, all_of_them = text.partition("/")
    return same == all_of_them


def _with_columns(rows, layout):
    """Methods with the columns that rows are about, as "SAM (QA, RAG), PLD"; no columns where it is all of them."""
    found = {method: list(of_method["task"]) for method, of_method in rows.groupby("method", sort=False)}
    return ", ".join(
        _label(method)
        + ("" if tasks == list(layout.columns) else f" ({', '.join(layout.columns[task] for task in tasks)})")
        for method, tasks in found.items()
    )


def _compared(row, other):
    """How a row's speed compares with another's, as far as their intervals tell."""
    if row[["speedup_low", "speedup_high"]].isna().any() or other[["speedup_low", "speedup_high"]].isna().any():
        return "too few questions to tell"
    if row["speedup_low"] > other["speedup_high"]:
        return "faster"
    return "slower" if row["speedup_high"] < other["speedup_low"] else "within the noise (the intervals overlap)"


def _apart(first, second):
    """Whether the whole interval of one row is above the other's; not where an interval is missing."""
    return first.speedup_low > second.speedup_high


def _mat_and_speed(row):
    return f"MAT {number(row['mat'])}, speed-up {_value(row)}"


def _value(row):
    return with_interval(row["speedup"], row["speedup_low"], row["speedup_high"])


def _named_value(row):
    return f"{_label(row.name)}'s, {_value(row)}"


def _values(column):
    return ", ".join(f"{_label(method)} {value:.2f}" for method, value in column.items())


def _label(method):
    return method_style(method).label
