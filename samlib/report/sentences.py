"""Conclusions in sentences, worded by what was measured: another run may say something else."""

from samlib.bench.automaton_table import number
from samlib.bench.complexity import growth

FLAT, STEEP = 0.2, 0.7  # exponents of growth: below the first hardly growing, above the second about as length does
TOLD_WIDTHS = (2, 8, 16, 41, 61)  # whose cost is told in words
PART_WORDS = {"context": "In the growing context", "corpus": "In a fixed corpus"}
STRUCTURE_WORDS = {"scan": "the n-gram scan", "suffix_array": "the suffix array", "automaton": "the automaton"}


def complexity_findings(frame):
    """What the measured costs say about the paper's claim, a sentence each; the last is the verdict."""
    table = growth(frame)
    flat = (table.loc[table["structure"] == "automaton", "slope"] < FLAT).all()
    verdict = "supports" if flat else "does not clearly support"
    return [
        *(_growth_sentence(row) for row in table.to_dict("records")),
        f"This run {verdict} the claim that an automaton's lookup does not depend on the length of the text.",
    ]


def automaton_scale_findings(rows):
    """What the automata at scale came to, beside each peer and each target, a sentence each.

    rows: of `samlib.bench.automaton_table.automaton_rows`.
    """
    by_name = rows.set_index("measurement")
    peers = [name.removeprefix("build, ") for name in by_name.index if name.startswith("build, ")]
    failures = [f"Not measured: {error}." for error in dict.fromkeys(rows["error"].dropna())]
    return [
        *_scale_sentences(by_name),
        *(_peer_sentence(by_name, peer) for peer in peers),
        *failures,
        _target_sentence(rows),
    ]


def cost_findings(rows):
    """What the measured T(n) comes to, a sentence each: by context, beside plain layers, and beside the limits.

    rows: of `samlib.bench.cost_table.cost_rows`.
    """
    contexts = list(dict.fromkeys(rows["context"]))
    of_contexts = [rows[rows["context"] == context] for context in contexts]
    return [*(_cost_sentence(of_context) for of_context in of_contexts), *_limit_sentences(of_contexts[0])]


def bullets(sentences):
    """Sentences as a Markdown list."""
    return "\n".join(f"- {sentence}" for sentence in sentences)


def _cost_sentence(rows):
    """One context: what some widths cost in single-token forwards, and the same through plain layers."""
    ways = {way: of_way.set_index("width") for way, of_way in rows.groupby("way", sort=False)}
    first = next(iter(ways.values()))
    widths = [width for width in TOLD_WIDTHS if width in first.index]
    costs = ", ".join(f"{width} tokens {first.loc[width, 'ratio']:.2f}" for width in widths)
    one = f"After {rows['context'].iloc[0]:,} tokens, one token takes {1e3 * first.loc[1, 'seconds']:.1f} ms"
    text = f"{one}; measured in that, verifying at once costs: {costs}"
    if len(ways) == 1:
        return f"{text}."
    plain = ways["plain"]
    theirs = ", ".join(f"{plain.loc[width, 'ratio']:.2f}" for width in widths)
    return f"{text} (through plain layers: {1e3 * plain.loc[1, 'seconds']:.1f} ms, and then {theirs})."


def _limit_sentences(rows):
    """How far the main context's T(n) is from the limits, and where the second takes over; none without limits."""
    first = rows[rows["way"] == rows["way"].iloc[0]].set_index("width")
    one = first.loc[1]
    if one["memory_seconds"] != one["memory_seconds"]:  # nan: no limits on file
        return []
    longest = first.loc[first.index.max()]
    limit = max(longest["memory_seconds"], longest["compute_seconds"])
    crossing = one["memory_seconds"] / one["compute_seconds"]
    return [
        f"Reading {number(one['weights_mb'])} MB of weights, and the cache, at {one['bandwidth_gb_s']:.1f} GB/s takes "
        f"{number(1e3 * one['memory_seconds'])} ms; one token takes {one['seconds'] / one['memory_seconds']:.1f} times "
        "that.",
        f"At {one['rate_gflop_s']:,.0f} GFLOP/s the operations of {crossing:.0f} tokens take as long as the reading: "
        "up to there further tokens could be free, beyond it each costs. "
        f"{longest.name} tokens take {longest['seconds'] / limit:.1f} times their limit.",
    ]


def _growth_sentence(row):
    slope = row["slope"]
    kind = "hardly growing" if slope < FLAT else "about as length" if slope > STEEP else "growing, slower than length"
    return (
        f"{PART_WORDS[row['part']]}, {STRUCTURE_WORDS[row['structure']]} goes from {row['first_us']:.1f} µs at "
        f"{row['shortest']:,} tokens to {row['last_us']:.1f} µs at {row['longest']:,} "
        f"({row['last_us'] / row['first_us']:.1f} times); exponent {slope:.2f}: {kind}."
    )


def _scale_sentences(by_name):
    build, size, draft = (by_name.loc[name] for name in ("build", "index memory", "draft, first, held-out"))
    return [
        f"An index of {build['tokens']:,} tokens is built at {number(build['samlib'])} million tokens a second (the "
        f"machine allows about {number(build['limit'])}) and takes {number(size['samlib'])} bytes a token, where the "
        f"text alone takes {number(size['limit'])}; opening it takes {number(by_name.loc['open', 'samlib'])} ms.",
        f"A draft of 40 tokens, lookup included, takes {number(draft['samlib'])} µs from Python along text that is not "
        f"in the index; the machine allows about {number(draft['limit'])}.",
    ]


def _peer_sentence(by_name, peer):
    measured = {"build": f"build, {peer}", "memory": f"index memory, {peer}", "draft": f"draft, held-out, {peer}"}
    rows = {what: by_name.loc[name] for what, name in measured.items()}
    words = ", ".join(f"{what} {_times(row)}" for what, row in rows.items())
    size = f"{rows['build']['tokens']:,} tokens"
    return f"Against {peer}, both with {size}, the ratios (above 1 in favour of samlib) are: {words}."


def _times(row):
    if row["ratio"] != row["ratio"]:  # nan: not measured
        return "not measured"
    bounds = "" if row["ratio_low"] == row["ratio_high"] else f" ({row['ratio_low']:.2f} to {row['ratio_high']:.2f})"
    return f"{number(row['ratio'])}{bounds}"


def _target_sentence(rows):
    judged = rows[rows["reached"].notna()]
    missed = [f"{row.measurement} ({number(row.samlib)} {row.unit})" for row in judged.itertuples() if not row.reached]
    verdict = f"missed: {', '.join(missed)}" if missed else "none is missed"
    reached = len(judged) - len(missed)
    return f"Of {len(judged)} targets, which are meant at 16 million tokens, {reached} are reached; {verdict}."
