"""What Tables 1, 2 and 3 consist of: their lines, and the runs that measure them.

A *line* is one method at one setting, a row of a table. A *run* measures its lines on the questions of its data sets.
Table 3's lines are measured in Table 1's run, on the same questions, so that both tables share the baseline and the
lines of SAM itself.
"""

import dataclasses
from typing import NamedTuple

from samlib.bench.data import TASKS
from samlib.bench.profiles import PAPER_SETTINGS

BASELINE = "autoregressive"
ORACLE = "hf_generate"
HF_OPTIONS = {ORACLE: {}, "hf_prompt_lookup": {"prompt_lookup_num_tokens": 10}}

COLD = "cold"
WITHOUT_STATIC, WITHOUT_DYNAMIC, WITHOUT_AUXILIARY = "without static", "without dynamic", "without auxiliary"
#: What Table 3 leaves out of a method. SAM[E2] without its auxiliary drafter is SAM[T] without its own.
ABLATED = {
    "sam[t]": (WITHOUT_STATIC, WITHOUT_DYNAMIC, WITHOUT_AUXILIARY),
    "sam[e2]": (WITHOUT_STATIC, WITHOUT_DYNAMIC),
    "sam": (WITHOUT_STATIC, WITHOUT_DYNAMIC),
}

NEVER = 100_000  # tokens: no match is that long


class Line(NamedTuple):
    """One method at one setting.

    block: "reference" (transformers' own), "paper" (the paper's settings), "device" (sized to this device) or
    "ablation". options: of make_drafter, or of `model.generate`. variant: "", COLD (all that the drafter keeps is
    forgotten before each question), or what an ablation leaves out.
    """

    block: str
    method: str
    options: dict
    variant: str = ""

    @property
    def name(self):
        """The row's name, for example "sam without static"."""
        return f"{self.method} {self.variant}".strip()


class Run(NamedTuple):
    """One measurement: its data sets, its part of the time for all tables, and which tables it serves."""

    name: str
    datasets: tuple[str, ...]
    share: float
    tables: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Table:
    """A table: the run that it is made of, its tasks, the blocks with a baseline, and which lines are its own."""

    name: str
    run: str
    tasks: tuple[str, ...]
    blocks: tuple[str, ...] = ("paper", "device")

    def blocks_of(self, lines):
        """{line: the table's block that it stands in} of a run's lines, (block, name) pairs; other tables' left out.

        Table 3 holds the methods that were taken apart in that run, whole and in parts.
        """
        lines = list(lines)
        whole = {BASELINE, *(name.partition(" ")[0] for block, name in lines if block == "ablation")}
        placed = {line: self._block_of(*line, whole) for line in lines}
        return {line: block for line, block in placed.items() if block is not None}

    def _block_of(self, block, name, whole):
        if self.name != "table3":
            return None if block == "ablation" else block
        if block == "ablation" or (block == "paper" and name in whole):
            return "paper"
        return "reference" if name == ORACLE else None


TABLES = {
    "table1": Table("table1", "table1", TASKS),
    "table2": Table("table2", "table2", ("human_eval", "mbpp", "hagrid")),
    "table3": Table("table3", "table1", TASKS, blocks=("paper",)),
}
RUNS = {
    "table1": Run("table1", ("spec_bench",), 0.57, ("table1", "table3")),
    "table2": Run("table2", ("human_eval", "mbpp", "hagrid"), 0.43, ("table2",)),
}


def title_of(run):
    """The tables of a Run for a reader: "Table 2", "Tables 1 and 3"."""
    numbers = [table.removeprefix("table") for table in run.tables]
    return f"Table{'s' if len(numbers) > 1 else ''} {' and '.join(numbers)}"


def run_datasets(run, profile):
    """The data sets of a Run that the profile measures."""
    return [name for name in run.datasets if name in profile.datasets]


def run_lines(run, profile, device_options):
    """The lines of a run in the order of its tables, the oracle and the baseline first.

    device_options: {method: options} sized to this device.
    """
    paper = [Line("paper", method, PAPER_SETTINGS[method]) for method in profile.paper]
    sized = [Line("device", method, options) for method, options in device_options.items()]
    lines = [Line("reference", ORACLE, {}), Line("paper", BASELINE, {}), *paper, *sized]
    if run == "table1":
        lines += [Line("reference", method, HF_OPTIONS[method]) for method in profile.references]
        lines += [Line("paper", line.method, line.options, COLD) for line in paper if line.method == "token_recycling"]
        lines += [line for method in profile.paper if method in profile.ablated for line in ablations(method)]
    return lines


def ablations(method):
    """Table 3's lines of a method at the paper's settings, one for each module left out; none where none is defined."""
    settings = PAPER_SETTINGS[method]
    return [
        Line("ablation", method, settings | _changes(variant, settings), variant) for variant in ABLATED.get(method, ())
    ]


def _changes(variant, settings):
    """What a variant changes, as the paper's first version had it: thresholds that one automaton can never reach.

    Without the auxiliary drafter retrieval always drafts, at most 15 tokens; no match, no draft.
    """
    if variant == WITHOUT_DYNAMIC:
        return {"l_bias": -NEVER, "l_threshold": NEVER + settings["l_bias"] + settings["l_threshold"]}
    return {"draft_size": 15, "l_threshold": 0} if variant == WITHOUT_AUXILIARY else {}
