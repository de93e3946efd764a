"""A Table 1 frame with the columns of `samlib.bench.metrics`, invented, for tests that need no model."""

import numpy as np
import pandas as pd

from samlib.bench.metrics import COLUMNS
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
