"""What `samlib.bench.device_check` found, as Markdown, from the content of its JSON file alone."""

from samlib.bench.automaton_table import ABSENT
from samlib.bench.losslessness import ROUNDING_FACTOR


def device_check_markdown(content):
    """The whole page; a part that has not run, or failed, says so in its place."""
    results = content["results"]
    sections = [
        f"# Device check: {content['device']}",
        _facts(content),
        *_section("Captured against plain forwards, float32", content, "equality", _equality),
        *_section("Waits for the device", content, "synchronisations", _waits),
        *_section("T(n), the cost of a verification forward", content, "cost", _cost),
        *_section("Speed", content, "speed", _speed),
    ]
    if "speed" in results:
        sections.append(_how_to_read(content))
    return "\n\n".join(sections) + "\n"


def markdown_table(head, rows):
    """A Markdown table from its head and rows of anything; what is None becomes an en dash."""
    lines = [head, [":--", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(ABSENT if cell is None else str(cell) for cell in line) + " |" for line in lines)


def _facts(content):
    sizes, versions = content["sizes"], content["versions"]
    seconds = ", ".join(f"{name} {value:.0f} s" for name, value in content["part_seconds"].items())
    dirty = " with uncommitted changes" if content["dirty"] else ""
    lines = [
        f"Written {content['written']}; commit {content['commit'] or 'unknown'}{dirty}; "
        + ", ".join(f"{name} {versions[name]}" for name in ("python", "torch", "transformers", "samlib")),
        f"Profile {sizes['profile']} in {sizes['dtype']} on {sizes['device']}; "
        f"wall time {content['wall_seconds']:.0f} s: {seconds or 'nothing has run'}",
        *([_cuda_words(content["cuda"])] if content["cuda"] else []),
        *content["notes"],
    ]
    return "\n".join(f"- {line}" for line in lines)


def _cuda_words(cuda):
    return (
        f"{cuda['name']}, {cuda['memory_bytes'] / 2**30:.0f} GiB, compute capability {cuda['compute_capability']}, "
        f"CUDA {cuda['cuda']}"
    )


def _section(title, content, name, table):
    """Title and body of a part."""
    if name in content["failures"]:
        return [f"## {title}", f"**Failed:** {content['failures'][name]}"]
    if name not in content["results"]:
        return [f"## {title}", "Has not run."]
    return [f"## {title}", table(content["results"][name]) if content["results"][name] else "Nothing was measured."]


def _equality(found):
    rows = [(width, f"{value:.1e}") for width, value in found["largest_difference"].items()]
    how = "replayed from CUDA graphs" if found["is_captured"] else "called without graphs"
    return "\n\n".join(
        [
            f"Answers identical to greedy decoding, captured forwards {how}: {found['identical']}.",
            markdown_table(["Inputs", "Largest difference of a logit"], rows),
        ]
    )


def _waits(rows):
    head = ["Forwards", "Method", "Number", "Waits to read a value", "Calls of synchronize"]
    names = ("way", "method", "forwards", "read", "synchronize")
    return markdown_table(head, [[row[name] for name in names] for row in rows])


def _cost(found):
    tables = []
    for context, ways in found.items():
        widths = sorted({int(width) for curve in ways.values() for width in curve})
        head = [f"Context {context}", *(f"{way}, {what}" for way in ways for what in ("ms", "T(n)/T(1)"))]
        rows = [[f"T({width})", *_cost_cells(ways.values(), width)] for width in widths]
        tables.append(markdown_table(head, rows))
    return "\n\n".join(tables)


def _cost_cells(curves, width):
    """Milliseconds and ratio of each curve at a width. A curve's keys are numbers, or strings where it was read."""
    cells = []
    for curve in curves:
        seconds = {int(n): value for n, value in curve.items()}
        cells += [f"{1e3 * seconds[width]:.2f}", f"{seconds[width] / seconds[1]:.2f}"]
    return cells


def _speed(found):
    head = ["Method", "Forwards", "n", "MAT", "tokens/s", "Speed-up", "95 % interval", "Identical"]
    return markdown_table(head, [_speed_cells(row) for row in found["rows"]])


def _speed_cells(row):
    bounds = None if row["speedup_low"] is None else f"{row['speedup_low']:.2f}–{row['speedup_high']:.2f}"
    numbers = [_number(row["mat"]), _number(row["tokens_per_s"]), _number(row["speedup"]), bounds]
    return [row["method"], row["way"], row["n"], *numbers, row["identical"]]


def _number(value):
    return None if value is None else f"{value:.2f}"


def _how_to_read(content):
    return (
        "Speed-up: mean over questions of tokens/s, divided by the same mean of plain autoregressive decoding in "
        "samlib's loop. Identical: answers equal, id by id, to greedy decoding by the model's own `generate` in "
        f"{content['sizes']['dtype']}. In float16 and bfloat16 logits that are nearly equal often fall either way, so "
        "that bit equality is not promised: such an answer counts as *different in* that type, with the largest gap "
        f"between the two logits. A gap above {ROUNDING_FACTOR} times the rounding error measured at that place is "
        "*beyond rounding*: a mistake."
    )
