"""The records of `samlib.bench.automaton` as a frame, and as a table: beside each figure its target and its limit."""

import numpy as np
import pandas as pd

from samlib.bench.limits import Limits, text_bytes

#: What the design asks for at 16 million tokens: (is it a floor?, bound), on the figure itself or on the ratio.
TARGETS = {
    "build": (True, 2.5),
    "peak memory": (False, 90.0),
    "open": (False, 50.0),
    **{f"draft, {choice}, {walk}": (False, 3.0) for choice in ("first", "latest") for walk in ("held-out", "quoting")},
    **{f"extend at {context}": (False, 0.5) for context in (1000, 10_000, 100_000)},
    **{f"step at {context} against 1000": (False, 1.5) for context in (10_000, 100_000)},
}
RATIO_TARGETS = {
    "build, DraftRetriever": (True, 1.1),
    "draft, held-out, DraftRetriever": (True, 50.0),
    "draft, quoting, DraftRetriever": (True, 50.0),
    "build, plain Python": (True, 30.0),
}
MEMORY_TARGETS = {2: 26.0, 4: 30.0}  # bytes a token of the index, by those of the text alone
NO_TARGET = False, np.nan
ABSENT = "–"


def automaton_rows(records):
    """One row a measurement: measurement, tokens, unit, and median, low and high of samlib, other and ratio.

    low and high: the smallest and the largest of the repeats. ratio: how many times better samlib is than `peer`,
    repeat by repeat. target: of the figure, or of the ratio; nan without one. floor: whether it is a least value.
    reached: True, False, or None where that cannot be told. limit: what the machine allows, in the figure's unit, or
    nan.
    """
    limits = next((Limits(r["facts"]) for r in records if r["measurement"] == "limits" and r["facts"]), None)
    return pd.DataFrame([_row(record, limits) for record in records if record["measurement"] != "limits"])


def automaton_table(records):
    """The rows as a DataFrame of strings, indexed by measurement, for readers."""
    rows = automaton_rows(records)
    columns = {
        "tokens": rows["tokens"].map("{:,}".format),
        "samlib": _spans(rows, "samlib"),
        "peer": _spans(rows, "other"),
        "ratio": _spans(rows.assign(unit=""), "ratio"),
        "target": [_target(row) for row in rows.itertuples()],
        "limit": rows["limit"].map(number),
    }
    return pd.DataFrame(columns).set_axis(pd.Index(rows["measurement"], name="measurement"))


def table_text(records):
    """The table as plain text, under lines on the corpus and the machine, above what failed."""
    errors = dict.fromkeys(record["error"] for record in records if record["error"])
    table = automaton_table(records).reset_index().to_string(index=False)
    return "\n".join([*basis(records), "", table, *(f"failed: {error}" for error in errors)])


def basis(records):
    """Lines on what the figures rest on: the corpus, the machine, what was measured of that."""
    facts, limits = records[0]["corpus"], next((r for r in records if r["measurement"] == "limits"), None)
    corpus = (
        f"corpus: {facts['tokens']:,} tokens in {facts['documents']:,} documents, {facts['bytes'] / 1e6:,.1f} MB, "
        f"vocabulary {facts['vocabulary']:,}, {facts['skipped']} files skipped, sha256 {facts['sha256'][:16]}"
    )
    if limits is None:
        return [corpus, f"machine: {records[0]['cpu']}"]
    found = Limits(limits["facts"])
    latency = ", ".join(f"{size >> 10:,} KiB {1000 * found.latency_us(size):.3g} ns" for size in found.sizes)
    memory = f"copying {found.copy_gb_s:.3g} GB/s; a call with a copy of 40 tokens {found.call_us:.2g} µs"
    return [corpus, f"machine: {records[0]['cpu']}; {memory}", f"dependent access at random: {latency}"]


def number(value):
    """Three significant digits, or a dash where there is none."""
    if pd.isna(value):
        return ABSENT
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _row(record, limits):
    ours, theirs = record["samlib"], record["other"]
    pairs = [pair for pair in zip(ours, theirs, strict=False) if min(pair) > 0]
    ratios = [a / b if record["better"] == "more" else b / a for a, b in pairs]
    named = {name: record[name] for name in ("measurement", "tokens", "unit", "peer", "repeats", "error")}
    spans = _span("samlib", ours) | _span("other", theirs) | _span("ratio", ratios)
    (floor, target), value = _target_of(record, spans)
    reached = None if np.isnan(target) or np.isnan(value) else bool(value >= target if floor else value <= target)
    judged = {"target": target, "floor": floor, "reached": reached}
    return named | spans | judged | {"limit": _limit(record, limits)}


def _span(name, values):
    if not values:
        return {name: np.nan, f"{name}_low": np.nan, f"{name}_high": np.nan}
    return {name: float(np.median(values)), f"{name}_low": min(values), f"{name}_high": max(values)}


def _target_of(record, spans):
    """The target of a record and the number that it is about."""
    name = record["measurement"]
    if name == "index memory":
        return (False, MEMORY_TARGETS[text_bytes(record["corpus"]["vocabulary"])]), spans["samlib"]
    if name in RATIO_TARGETS:
        return RATIO_TARGETS[name], spans["ratio"]
    return TARGETS.get(name, NO_TARGET), spans["samlib"]


def _limit(record, limits):
    """The machine's limit for a record, in its unit; nan where none is stated."""
    kind, facts = record["measurement"].split(",")[0].split(" at ")[0], record["facts"]
    if kind == "index memory":
        return text_bytes(record["corpus"]["vocabulary"])
    if limits is None or "nbytes" not in facts:
        return np.nan
    if record["measurement"] == "open, verified":
        return limits.read_ms(facts["nbytes"])
    place = {"nbytes": facts["nbytes"], "jumps": facts.get("jumps", 1.0)}
    of_kind = {
        "build": lambda: limits.build_mtok_s(tokens=record["tokens"], **place),
        "draft": lambda: limits.draft_us(**place),
        "advance in one call": lambda: limits.follow_us(**place),
        "extend": lambda: limits.follow_us(**place),
    }
    return of_kind.get(kind, lambda: np.nan)()


def _spans(rows, name):
    columns = (rows[name], rows[f"{name}_low"], rows[f"{name}_high"], rows["unit"])
    return [_words(*values) for values in zip(*columns, strict=True)]


def _words(median, low, high, unit):
    """ "2.1 Mtok/s [1.9–2.2]": the median with its range over repeats."""
    if pd.isna(median):
        return ABSENT
    return f"{number(median)} {unit}".strip() + (f" [{number(low)}–{number(high)}]" if low != high else "")


def _target(row):
    if np.isnan(row.target):
        return ABSENT
    verdict = {True: ", reached", False: ", missed"}.get(row.reached, "")
    return f"{'≥' if row.floor else '≤'} {number(row.target)}{verdict}"
