"""Where the drafts come from and where the time goes: shares by source and by phase, as tables for readers."""

import pandas as pd

from samlib.report.formats import ABSENT, in_italics, number, percent
from samlib.report.styles import PHASE_LOOKS, SOURCE_LOOKS, method_style

SOURCES_TITLE = "Share of steps by draft source (in brackets: MAT of those steps)"
PHASES_TITLE = "Share of time by phase"
AS_IN_THE_PAPER = "as in the paper"


def sources_table(sources, layout):
    """Share of each method's steps by the source of their draft, in brackets the MAT of those steps, as strings.

    sources: a DataFrame with columns block, method, source, steps, share, mat, paper_share, paper_mat. A row is a
    method of a block, in the order of the layout; one in italics below it holds the paper's numbers, where it has any.
    """
    return _shares_table(sources, layout, "source", SOURCE_LOOKS)


def phases_table(phases, layout):
    """Share of each method's time by phase, as strings.

    phases: a DataFrame with columns block, method, phase, share, paper_share. Rows are laid out as in `sources_table`.
    """
    return _shares_table(phases, layout, "phase", PHASE_LOOKS)


def share_lines(shares, layout, part):
    """Yield (block, method, of the paper?, rows) in the order of the layout; rows: indexed by part, with share and mat.

    `part` is "source" or "phase". A method's own line comes first, and the paper's follows where the paper has numbers.
    """
    groups = dict(tuple(shares.groupby(["block", "method"], sort=False)))
    for key in layout.lines(set(groups)):
        if key not in groups:
            continue
        rows = groups[key].set_index(part)
        yield *key, False, rows
        printed = rows[rows["paper_share"].notna()]
        if not printed.empty:
            renamed = {name: printed[f"paper_{name}"] for name in ("share", "mat") if name in rows}
            yield *key, True, printed.assign(**renamed)


def ordered_parts(shares, part, looks):
    """The parts that occur, known ones in their order, then others, then what is left over ("none", "other") last."""
    order = [*looks][:-1]
    found = set(shares[part])
    unknown = sorted(found - set(looks))
    return [name for name in [*order, *unknown, [*looks][-1]] if name in found]


def _shares_table(shares, layout, part, looks):
    parts = ordered_parts(shares, part, looks)
    lines = [_line(layout, parts, looks, *line) for line in share_lines(shares, layout, part)]
    columns = ["Block", "Method", *(["Steps"] if "steps" in shares else []), *(part_label(p, looks) for p in parts)]
    return pd.DataFrame(lines, columns=columns).drop(columns=["Block"] if len(layout.blocks) == 1 else [])


def _line(layout, parts, looks, block, method, of_paper, rows):
    name = in_italics(AS_IN_THE_PAPER) if of_paper else method_style(method).label
    line = {"Block": layout.blocks[block], "Method": name}
    if "steps" in rows:
        line["Steps"] = "" if of_paper else str(rows["steps"].sum())
    cells = {part_label(p, looks): _share_cell(rows.loc[p]) if p in rows.index else ABSENT for p in parts}
    return line | ({label: in_italics(cell) for label, cell in cells.items()} if of_paper else cells)


def part_label(part, looks):
    """A source's or a phase's name for a reader; its own name where it has no look."""
    return looks[part][0] if part in looks else part


def _share_cell(row):
    return f"{percent(row['share'])} ({number(row['mat'])})" if "mat" in row else percent(row["share"])
