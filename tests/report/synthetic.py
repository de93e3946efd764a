"""Invented measurements, as frames and as a cost curve, for tests that need no model."""

import numpy as np
import pandas as pd

from samlib.bench.cost import CostCurve
from samlib.bench.metrics import COLUMNS
from samlib.bench.roofline import ForwardLimits
from samlib.report.layouts import TABLE1

PAPER_OVERALL = {"pld": 1.56, "token_recycling": 1.84, "sam": 1.84, "sam[t]": 2.27, "rest": 1.38, "lookahead": 1.2}
PAPER_OVERALL |= {"eagle": 2.27, "eagle2": 2.38, "sam[e]": 2.35, "sam[e2]": 2.58}
ABLATED_OVERALL = {"sam": 1.84, "sam without static": 1.64, "sam without dynamic": 1.33}


def table_frame(layout=TABLE1):
    """Every block and row of a layout on every column; speeds differ by row, so that a mixed-up cell shows."""
    lines = [(block, method) for block in layout.blocks for method in layout.methods]
    lines = [line for line in lines if line[1] not in layout.optional or line[0] == _block_of(line[1])]
    lines += [("reference", method) for method in layout.references]
    return pd.DataFrame([_row(layout, *line, task) for line in lines for task in layout.columns], columns=COLUMNS)


def number_of_lines(layout):
    """How many lines `table_frame` has in all blocks, references in each; an optional one is in one block only."""
    return len(layout.blocks) * len(layout.rows) - (len(layout.blocks) - 1) * len(variants(layout))


def variants(layout):
    """The optional rows that are a block's own."""
    return [row for row in layout.optional if row not in layout.references]


def _block_of(row):
    """The one block in which an optional row stands."""
    return "device" if row == "sam_auto" else "paper"


def not_run(frame, *methods):
    """The same frame, but there was no time for some methods: n = 0, no numbers, and it says so."""
    frame = frame.copy()
    chosen = frame["method"].isin(methods)
    numbers = [column for column in COLUMNS if column not in ("block", "method", "task", "identical")]
    frame[numbers] = frame[numbers].where(~chosen).fillna({"n": 0, "n_no_repeat": 0})
    return frame.assign(identical=frame["identical"].mask(chosen, "not run"))


def _row(layout, block, method, task):
    rank, place = layout.rows.index(method), list(layout.columns).index(task)
    speedup = 1 if method == "autoregressive" else 1 + 0.25 * (rank % 5) + 0.03 * place + 0.1 * (block == "device")
    n = 5 * (len(layout.columns) - 1) if task == "overall" else 5
    row = dict.fromkeys(COLUMNS, np.nan) | {"block": block, "method": method, "task": task}
    row |= {"n": n, "identical": f"{n}/{n}"}
    row |= {"mat": 1 + 0.4 * rank, "tokens_per_s": 20 * speedup, "speedup": speedup}
    row |= {"speedup_low": 0.9 * speedup, "speedup_high": 1.1 * speedup, "speedup_total_time": 0.98 * speedup}
    row |= {"speedup_decode": 1.1 * speedup, "speedup_no_repeat": 0.95 * speedup, "n_no_repeat": n - 1}
    return row | _papers(layout, block, method, task, place)


def _papers(layout, block, method, task, place):
    """The paper's numbers as it has them: Table 2 by data set but not MBPP, Table 3 overall, MAT at its own sizes."""
    known = (ABLATED_OVERALL if layout.ablated else PAPER_OVERALL).get(method)
    missing = {"table1": (), "table2": ("mbpp", "overall"), "table3": set(layout.columns) - {"overall"}}
    if known is None or block == "reference" or task in missing[layout.name]:
        return {}
    numbers = {"paper_speedup": known + 0.01 * (place - len(layout.columns) + 1)}
    if block == "paper" and (task == "overall" or layout.name == "table2"):
        numbers |= {"paper_mat": 2.5, "paper_tokens_per_s": 70.0}
    return numbers


def sources_frame(layout=TABLE1):
    """Draft sources of every row of a layout; of SAM[T] beside the paper's, as on Spec-Bench."""
    rows = [line for method in layout.methods for line in _sources(method)]
    frame = pd.DataFrame(rows, columns="method source steps share mat paper_share paper_mat".split())
    blocks = [frame.assign(block=block) for block in layout.blocks]
    frame = pd.concat(blocks, ignore_index=True)[["block", *frame.columns]]
    frame.loc[frame["block"] != "paper", ["paper_share", "paper_mat"]] = np.nan
    return frame


def _sources(method):
    base, _, variant = method.partition(" ")
    shares = {
        "autoregressive": {"none": 1.0},
        "pld": {"pld": 0.6, "none": 0.4},
        "rest": {"static": 0.8, "none": 0.2},
        "lookahead": {"lookahead": 0.5, "none": 0.5},
        "token_recycling": {"token_recycling": 0.98, "none": 0.02},
        "eagle": {"eagle": 1.0},
        "eagle2": {"eagle2": 0.9, "none": 0.1},
        "sam[e]": {"dynamic": 0.25, "static": 0.15, "eagle": 0.6},
        "sam[e2]": {"dynamic": 0.2, "static": 0.1, "eagle2": 0.7},
        "sam": {"dynamic": 0.7, "static": 0.25, "none": 0.05},
        "sam[t]": {"dynamic": 0.3, "static": 0.1, "token_recycling": 0.6},
        "suffix_decoding": {"dynamic": 0.45, "static": 0.2, "none": 0.35},
        "sam_auto": {"dynamic": 0.5, "static": 0.2, "token_recycling": 0.25, "none": 0.05},
    }[base]
    gone = variant.removeprefix("without ").replace("auxiliary", "token_recycling")
    shares = {source: share for source, share in shares.items() if source != gone}
    whole, paper = sum(shares.values()), {}
    if method == "sam[t]":
        paper = {"token_recycling": (0.8596, 2.51), "dynamic": (0.1159, 6.57), "static": (0.0245, 3.39)}
    for number, (source, share) in enumerate(shares.items()):
        theirs = paper.get(source, (np.nan, np.nan))
        yield (method, source, int(1000 * share), share / whole, 1.0 if source == "none" else 2.0 + number, *theirs)


def phases_frame(layout=TABLE1):
    """Shares of time of every row of a layout; the paper's of SAM[T]'s."""
    paper = {"prefill": 0.042, "draft": 0.006, "verify": 0.889, "update": 0.063}
    rows = []
    for block in layout.blocks:
        for rank, method in enumerate(layout.methods):
            shares = {"prefill": 0.1, "draft": 0.01 * rank, "update": 0.01 + 0.002 * rank, "other": 0.03}
            shares["verify"] = 1 - sum(shares.values())
            for phase, share in shares.items():
                theirs = paper.get(phase, np.nan) if (block, method) == ("paper", "sam[t]") else np.nan
                rows.append((block, method, phase, share, theirs))
    return pd.DataFrame(rows, columns="block method phase share paper_share".split())


def complexity_frame():
    """As theory says: the scan grows in proportion, the suffix array with the logarithm, the automaton never."""
    rows = []
    for part, lengths in {"context": (1000, 2000, 4000, 8000), "corpus": (2000, 8000, 32000, 128000)}.items():
        for n in lengths:
            costs = {"scan": 0.05 * n, "suffix_array": 3 * np.log2(n), "automaton": 2.0}
            rows += [(part, structure, n, cost, 0.9 * cost, 1.2 * cost, 60, "key") for structure, cost in costs.items()]
    return pd.DataFrame(rows, columns="part structure length median_us q25_us q75_us steps settings".split())


def cost_curve(main=300, other=900):
    """A CostCurve of two contexts with kernels, quartiles and limits; every number differs from every other."""
    t = {300: {1: 0.050, 8: 0.060, 16: 0.090, 61: 0.200}, 900: {1: 0.058, 8: 0.071, 16: 0.105, 61: 0.240}}
    plain = {300: {1: 0.055, 8: 0.100, 16: 0.120, 61: 0.280}, 900: {1: 0.065, 8: 0.130, 16: 0.150, 61: 0.320}}
    curves = {context: {"T": t[context], "T_plain": plain[context]} for context in (main, other)}
    return CostCurve(
        **curves[main],
        context=main,
        repeats=15,
        device="CPU A, 2 threads",
        kernels=True,
        further={other: curves[other]},
        quartiles={
            context: {way: {n: [0.95 * s, 1.1 * s] for n, s in of_way.items()} for way, of_way in ways.items()}
            for context, ways in curves.items()
        },
        limits=ForwardLimits(500_000_000, 40_000, 250_000_000, 70_000, bandwidth=25e9, rate=100e9),
    )
