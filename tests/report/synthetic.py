"""Invented measurements, as frames and as a cost curve, for tests that need no model."""

import numpy as np
import pandas as pd

from samlib.bench.cost import CostCurve
from samlib.bench.metrics import COLUMNS
from samlib.bench.roofline import ForwardLimits
from samlib.report.styles import TASK_LABELS
from samlib.report.tables import REFERENCE_METHODS, TABLE1_METHODS


def table1_frame():
    """Every block and method on every task; speeds differ by method, so that a mixed-up cell shows."""
    rows = []
    for block in ("paper", "device"):
        rows += [_row(block, method, task) for method in TABLE1_METHODS for task in TASK_LABELS]
    rows += [_row("reference", method, task) for method in REFERENCE_METHODS for task in TASK_LABELS]
    return pd.DataFrame(rows, columns=COLUMNS)


def _row(block, method, task):
    rank = (TABLE1_METHODS + REFERENCE_METHODS).index(method)
    place = list(TASK_LABELS).index(task)
    speedup = 1 + 0.25 * (rank % 5) + 0.03 * place + (0.1 if block == "device" else 0.0)
    n = 30 if task == "overall" else 5
    row = dict.fromkeys(COLUMNS, np.nan) | {"block": block, "method": method, "task": task}
    row |= {"n": n, "identical": f"{n}/{n}"}
    row |= {"mat": 1 + 0.4 * rank, "tokens_per_s": 20 * speedup, "speedup": speedup}
    row |= {"speedup_low": 0.9 * speedup, "speedup_high": 1.1 * speedup, "speedup_total_time": 0.98 * speedup}
    row |= {"speedup_decode": 1.1 * speedup, "speedup_no_repeat": 0.95 * speedup, "n_no_repeat": n - 1}
    if block == "paper" and method in ("pld", "token_recycling", "sam", "sam[t]"):
        row |= {"paper_speedup": speedup + 0.5, "paper_mat": 2.5, "paper_tokens_per_s": 70.0}
    return row


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
