"""How numbers, intervals and whole tables are written for a reader."""

import pandas as pd

from samlib.bench.automaton_table import ABSENT


def number(value, digits=2):
    """A number for a reader, or an en dash where there is none."""
    return ABSENT if pd.isna(value) else f"{value:.{digits}f}"


def percent(share):
    """A share (0 to 1) for a reader, as "12.3 %", or an en dash where there is none."""
    return ABSENT if pd.isna(share) else f"{100 * share:.1f} %"


def interval(low, high):
    """A confidence interval for a reader, or an en dash where n was too small for one."""
    return ABSENT if pd.isna(low) or pd.isna(high) else f"{low:.2f}–{high:.2f}"


def with_interval(value, low, high):
    """A number and its interval, as "1.50 [1.20–1.80]"; the number alone where there is no interval."""
    bounds = interval(low, high)
    return number(value) if bounds == ABSENT else f"{number(value)} [{bounds}]"


def in_italics(text):
    """Markdown's italics, which mark what is printed in the paper."""
    return f"*{text}*"


def listed(words):
    """Words as a list in a sentence: "a", "a and b", "a, b and c"."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def markdown_table(table):
    """A DataFrame of strings as a Markdown table, the first column to the left and the others to the right."""
    rows = [table.columns, [":--", *["--:"] * (table.shape[1] - 1)], *table.itertuples(index=False)]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)
