"""The measured cost of a forward as a frame of numbers, and as a table for readers beside the machine's limits."""

import pandas as pd

from samlib.bench.automaton_table import ABSENT, number


def cost_rows(curve):
    """A CostCurve as a DataFrame, a row a context, way and width, the main context first.

    way: "kernels" or "plain". width: tokens in the forward, the root included. Times in seconds: `seconds` (median),
    `q25`, `q75`, and the limits `memory_seconds`, `compute_seconds`. ratio: to T(1) of the same way and context.
    `repeats`, `device`, `bandwidth_gb_s`, `rate_gflop_s`, `weights_mb` are the same in all rows. nan: not in the curve.
    """
    ways = {"kernels": "T", "plain": "T_plain"} if curve.kernels else {"plain": "T"}
    rows = []
    for way, name in ways.items():
        for context, by_width in curve.curves(name).items():
            rows += [_row(curve, way, name, context, width, by_width) for width in sorted(by_width)]
    frame = pd.DataFrame(rows)
    order = {context: place for place, context in enumerate(curve.curves())}
    return frame.sort_values("context", key=lambda column: column.map(order), kind="stable", ignore_index=True)


def cost_table(rows):
    """The frame of `cost_rows` as strings for readers, a row a context and width: ways side by side, then the limits.

    Times in milliseconds. The last column is the profile's own way beside the larger limit.
    """
    keys = ["context", "width"]
    by_way = {way: of_way.set_index(keys) for way, of_way in rows.groupby("way", sort=False)}
    first = next(iter(by_way.values()))
    columns = {"context": first.index.get_level_values(0), "n": first.index.get_level_values(1)}
    for way, of_way in by_way.items():
        columns[f"{way} [quartiles]"] = [_spread(row) for row in of_way.itertuples()]
        columns[f"{way} / T(1)"] = _numbers(of_way["ratio"])
    columns["memory limit"] = first["memory_seconds"].map(_ms).to_numpy()
    columns["operations limit"] = first["compute_seconds"].map(_ms).to_numpy()
    columns["T(n) / limit"] = _numbers(first["seconds"] / first[["memory_seconds", "compute_seconds"]].max(axis=1))
    return pd.DataFrame(columns)


def cost_text(rows):
    """The table as plain text, a block a context, under a line on the machine."""
    blocks = [of_context.drop(columns="context") for _, of_context in cost_table(rows).groupby("context", sort=False)]
    texts = [
        f"context {context}\n{block.to_string(index=False)}"
        for context, block in zip(rows["context"].unique(), blocks, strict=True)
    ]
    return "\n\n".join([basis(rows) + "; all times in ms", *texts])


def basis(rows):
    """One line on what the figures rest on: device, repeats, and what sets the limits."""
    row = rows.iloc[0]
    measured = f"{row['device']}; medians of {row['repeats']} interleaved forwards"
    if pd.isna(row["bandwidth_gb_s"]):
        return measured
    limits = f"reads {row['bandwidth_gb_s']:.1f} GB/s, computes {row['rate_gflop_s']:,.0f} GFLOP/s"
    return f"{measured}; the machine {limits}; {number(row['weights_mb'])} MB of weights"


def _row(curve, way, name, context, width, by_width):
    nothing = float("nan")
    q25, q75 = curve.quartiles.get(context, {}).get(name, {}).get(width, (nothing, nothing))
    limits = curve.limits
    return {
        "way": way,
        "context": context,
        "width": width,
        "seconds": by_width[width],
        "q25": q25,
        "q75": q75,
        "ratio": by_width[width] / by_width[1] if 1 in by_width else nothing,
        "memory_seconds": limits.memory_seconds(context) if limits else nothing,
        "compute_seconds": limits.compute_seconds(width, context) if limits else nothing,
        "repeats": curve.repeats,
        "device": curve.device,
        "bandwidth_gb_s": limits.bandwidth / 1e9 if limits else nothing,
        "rate_gflop_s": limits.rate / 1e9 if limits else nothing,
        "weights_mb": limits.weight_bytes / 1e6 if limits else nothing,
    }


def _spread(row):
    bounds = "" if pd.isna(row.q25) else f" [{_ms(row.q25)}–{_ms(row.q75)}]"
    return f"{_ms(row.seconds)}{bounds}"


def _numbers(column):
    return [ABSENT if pd.isna(value) else f"{value:.2f}" for value in column]


def _ms(seconds):
    return number(1e3 * seconds)
