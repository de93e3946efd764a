"""Table 1 from its frame: every method, task and block has its cell, beside the paper's; – where absent."""

import pandas as pd

from samlib.bench.cost_table import basis, cost_table
from samlib.bench.losslessness import ROUNDING_FACTOR
from samlib.report.save import save_csv, save_markdown
from samlib.report.styles import BLOCK_LABELS, METHOD_STYLES, TASK_LABELS

TABLE1_METHODS = ("autoregressive", "pld", "token_recycling", "sam", "sam[t]")
REFERENCE_METHODS = ("hf_generate", "hf_prompt_lookup")
SHARED_BLOCK = "reference"  # measured once, shown in both blocks
ABSENT = "–"
SUMMARY_HEAD = "   n    MAT  tokens/s  speed-up  95 % interval   paper  identical"


def complete_table1(frame):
    """The Table 1 frame with one row for each block, method and task, in the table's order.

    `frame` has the columns of `samlib.bench.metrics.table1_rows`. Rows of the block "reference" are repeated in both
    blocks; a cell that was not measured becomes a row with n = 0 and empty numbers.
    """
    keys = ["block", "method", "task"]
    shared = frame[frame["block"] == SHARED_BLOCK]
    copies = [shared.assign(block=block) for block in BLOCK_LABELS]
    rows = pd.concat([frame[frame["block"] != SHARED_BLOCK], *copies]).drop_duplicates(keys).set_index(keys)
    grid = pd.MultiIndex.from_product([BLOCK_LABELS, TABLE1_METHODS + REFERENCE_METHODS, TASK_LABELS], names=keys)
    complete = rows.reindex(grid).reset_index()
    counts = [column for column in ("n", "n_no_repeat") if column in complete]
    complete[counts] = complete[counts].fillna(0).astype(int)
    return complete


def save_table1(frame, profile, caption):
    """Write figures/<profile>/table1.md and table1.csv from a Table 1 frame; returns the two paths."""
    markdown = save_markdown(table1_markdown(frame, caption), "table1", profile)
    return markdown, save_csv(complete_table1(frame), "table1", profile)


def save_cost(rows, profile, caption):
    """Write figures/<profile>/cost.md, T(n) beside its limits, from the frame of `cost_rows`; returns the path."""
    parts = ["# T(n): the cost of verifying n tokens", caption, f"{basis(rows)}.", _markdown(cost_table(rows))]
    return save_markdown("\n\n".join([*parts, _how_to_read_cost()]) + "\n", "cost", profile)


def table1_markdown(frame, caption=""):
    """Table 1 as Markdown: for each block the paper's layout (speed-up by task), then every cell with all it holds."""
    cells = complete_table1(frame)
    parts = ["# Table 1: speed-up over autoregressive decoding", caption, _how_to_read()]
    for block, label in BLOCK_LABELS.items():
        rows = cells[cells["block"] == block]
        parts += [f"## {label}", _markdown(speedup_grid(rows)), f"### {label}: every cell", _markdown(all_cells(rows))]
    parts += _differences(frame.attrs.get("differences"))
    return "\n\n".join(part for part in parts if part) + "\n"


def summary_table(frame):
    """The "overall" rows of both blocks as a DataFrame of strings, for a notebook."""
    cells = complete_table1(frame)
    overall = cells[cells["task"] == "overall"]
    index = pd.MultiIndex.from_arrays([overall["block"].map(BLOCK_LABELS), overall["method"].map(_label)])
    return pd.DataFrame(_measures(overall)).set_axis(index.set_names(["Block", "Method"]))


def summary_text(frame):
    """`summary_table` in short, for the end of a run: plain text, under 100 columns where all answers are identical."""
    cells = complete_table1(frame)
    overall = cells[cells["task"] == "overall"]
    lines = []
    for block, label in BLOCK_LABELS.items():
        lines.append(f"{label:<28}{SUMMARY_HEAD}")
        lines += [_summary_line(row) for row in overall[overall["block"] == block].itertuples()]
    return "\n".join(lines)


def speedup_grid(rows):
    """One block as the paper prints it: a row a method (ours, then the paper's), speed-up a task, MAT, tokens/s."""
    lines = []
    for method in TABLE1_METHODS + REFERENCE_METHODS:
        of_method = rows[rows["method"] == method].set_index("task")
        lines.append(_our_line(method, of_method))
        if of_method[["paper_speedup", "paper_mat"]].notna().any(axis=None):
            lines.append(_paper_line(of_method))
    return pd.DataFrame(lines)


def all_cells(rows):
    """Every cell of one block as strings: method and task, then all measures beside the paper's."""
    labels = {"Method": rows["method"].map(_label), "Task": rows["task"].map(TASK_LABELS)}
    return pd.DataFrame(labels | _measures(rows)).reset_index(drop=True)


def number(value, digits=2):
    """A number for a reader, or an en dash where there is none."""
    return ABSENT if pd.isna(value) else f"{value:.{digits}f}"


def interval(low, high):
    """A confidence interval for a reader, or an en dash where n was too small for one."""
    return ABSENT if pd.isna(low) or pd.isna(high) else f"{low:.2f}–{high:.2f}"


def _measures(rows):
    return {
        "n": rows["n"].astype(str),
        "MAT": rows["mat"].map(number),
        "MAT, paper": rows["paper_mat"].map(number),
        "tokens/s": _numbers(rows["tokens_per_s"], 1),
        "tokens/s, paper": _numbers(rows["paper_tokens_per_s"], 1),
        "Speed-up": rows["speedup"].map(number),
        "95 % interval": [interval(*pair) for pair in zip(rows["speedup_low"], rows["speedup_high"], strict=True)],
        "Speed-up, paper": rows["paper_speedup"].map(number),
        "By total time": rows["speedup_total_time"].map(number),
        "Decode only": rows["speedup_decode"].map(number),
        "Without repeats (n)": [_with_n(*p) for p in zip(rows["speedup_no_repeat"], rows["n_no_repeat"], strict=True)],
        "Identical": rows["identical"].map(lambda text: ABSENT if pd.isna(text) else text),
    }


def _summary_line(row):
    bounds, identical = interval(row.speedup_low, row.speedup_high), ABSENT if pd.isna(row.identical) else row.identical
    numbers = f"{row.n:>4}{number(row.mat):>7}{number(row.tokens_per_s, 1):>10}{number(row.speedup):>10}"
    return f"  {_label(row.method):<26}{numbers}  {bounds:<15}{number(row.paper_speedup):>6}  {identical}"


def _our_line(method, of_method):
    line = {"Method": _label(method)}
    for task, label in TASK_LABELS.items():
        row = of_method.loc[task]
        line[label] = _speedup(row["speedup"], row["speedup_low"], row["speedup_high"])
    overall = of_method.loc["overall"]
    ending = {"MAT": number(overall["mat"]), "tokens/s": number(overall["tokens_per_s"], 1)}
    identical = ABSENT if pd.isna(overall["identical"]) else overall["identical"]
    return line | ending | {"n": str(overall["n"]), "Identical": identical}


def _paper_line(of_method):
    line = {"Method": "*as in the paper*"}
    line |= {label: f"*{number(of_method.loc[task, 'paper_speedup'])}*" for task, label in TASK_LABELS.items()}
    overall = of_method.loc["overall"]
    ending = {"MAT": f"*{number(overall['paper_mat'])}*", "tokens/s": f"*{number(overall['paper_tokens_per_s'], 1)}*"}
    return line | ending | {"n": "", "Identical": ""}


def _how_to_read():
    return (
        "Speed-up: mean over questions of tokens/s, divided by the same mean of autoregressive decoding in the same "
        "loop; in brackets its bootstrap 95 % interval over questions (from 5 questions a task, 12 overall). MAT: mean "
        "accepted tokens, that is, emitted tokens a verification step. Identical: answers equal, id by id, to greedy "
        "decoding by the model's own `generate` in the same precision. In float32 the one exception is a *near-tie*: "
        "where the two answers part, the logits of the two tokens are less than 0.001 apart, which one-token and "
        "many-token passes may round differently. In float16 and bfloat16 that is common: such an answer counts as "
        "*different in* that type, with the largest gap between the two logits, and bit equality is not promised; "
        f"*beyond rounding* is a gap above {ROUNDING_FACTOR} times the rounding error measured at that place, which "
        "fails the run, as a larger gap does in float32. *In italics: as printed in the paper (Vicuna-7B-v1.3, one "
        "A6000).* "
        f"{ABSENT}: not measured, or too few questions."
    )


def _how_to_read_cost():
    return (
        "All times in milliseconds; in brackets the quartiles. n counts the tokens of one forward, the draft's root "
        "included; context: tokens in the KV cache before it. Memory limit: all weights and the cache read once at the "
        "bandwidth. Operations limit: n times the operations of a token at the peak rate. T(n) / limit: the first way "
        "beside the larger of the two limits. How limits are measured and counted: `samlib/bench/roofline.py`."
    )


def _differences(lines):
    """The section that names every answer that is not greedy decoding's, where there are any."""
    return ["## Answers that differ from greedy decoding", "\n".join(f"- {line}" for line in lines)] if lines else []


def _label(method):
    return METHOD_STYLES[method].label


def _numbers(column, digits):
    return [number(value, digits) for value in column]


def _speedup(value, low, high):
    bounds = interval(low, high)
    return number(value) if bounds == ABSENT else f"{number(value)} [{bounds}]"


def _with_n(value, n):
    return ABSENT if pd.isna(value) else f"{value:.2f} ({n})"


def _markdown(table):
    rows = [table.columns, [":--", *["--:"] * (table.shape[1] - 1)], *table.itertuples(index=False)]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)
