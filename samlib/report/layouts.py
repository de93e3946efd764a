"""Tables 1, 2 and 3 as layouts: which rows, columns and blocks each has. A new row is one more name in a layout."""

from collections.abc import Iterator
from dataclasses import dataclass

from samlib.bench.metrics import OVERALL
from samlib.report.styles import BLOCK_LABELS, TASK_LABELS

#: The paper took these speed-ups over another baseline than its own (`data/paper_numbers.csv`): shown, not ranked.
OTHER_BASELINE = ("rest", "lookahead")

_BARS = "bars are bootstrap 95 % intervals over questions"
_PAPER = "hollow markers are the paper's values (Vicuna-7B-v1.3 on one A6000)"
STARRED = "REST's and Lookahead's speed-ups over another baseline than the others'"


@dataclass(frozen=True)
class TableLayout:
    """How one of the paper's tables is laid out, in Markdown, in figures and in words.

    name        of its files, without ending
    notebook    the two digits of the notebook that makes it
    title       of the table; its part before the colon is its short name
    about       what its figure shows: the first sentence of the caption
    blocks      {block: label}, in order
    methods     the names of the rows that each block has of its own, in order
    references  the rows of the block "reference", measured once and shown below the others in every block
    columns     {task: label}, in order, "overall" the last
    unit        what one column is, e.g. "task"
    ranked      the columns in which findings rank the methods; several also stand side by side in the summary
    optional    rows that a block does without where a frame has nothing of them there
    ablated     methods whose modules are taken away, each in a row "METHOD without MODULE"
    """

    name: str
    notebook: str
    title: str
    about: str
    blocks: dict[str, str]
    methods: tuple[str, ...]
    references: tuple[str, ...]
    columns: dict[str, str]
    unit: str = "task"
    ranked: tuple[str, ...] = (OVERALL,)
    optional: tuple[str, ...] = ()
    ablated: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[str, ...]:
        """All rows in order, the references last."""
        return self.methods + self.references

    @property
    def short_title(self) -> str:
        """The title up to its colon, e.g. "Table 1"."""
        return self.title.partition(":")[0]

    def lines(self, present: set[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        """Each (block, row) in order; an optional row only where it is among the pairs `present`."""
        for block in self.blocks:
            for row in self.rows:
                if row not in self.optional or (block, row) in present:
                    yield block, row

    def without(self, method: str) -> tuple[str, ...]:
        """The rows in which a module of an ablated method is missing."""
        return tuple(row for row in self.rows if row.startswith(f"{method} without "))


TABLE1 = TableLayout(
    name="table1",
    notebook="02",
    title="Table 1: speed-up by task",
    about="Speed-up over autoregressive decoding by task, at the paper's draft sizes and at sizes for this device; "
    f"{_BARS}; {_PAPER}, {STARRED}.",
    blocks=BLOCK_LABELS,
    methods=(
        "autoregressive",
        "pld",
        "rest",
        "lookahead",
        "token_recycling",
        "token_recycling cold",
        "eagle",
        "eagle2",
        "sam",
        "sam[t]",
        "sam[e]",
        "sam[e2]",
        "suffix_decoding",
        "sam_auto",
    ),
    references=("hf_generate", "hf_prompt_lookup"),
    columns=TASK_LABELS,
    optional=("token_recycling cold", "sam_auto", "hf_prompt_lookup"),  # not in every block, nor with every profile
)

TABLE2 = TableLayout(
    name="table2",
    notebook="03",
    title="Table 2: speed-up by data set",
    about="Speed-up over autoregressive decoding by data set, at the paper's draft sizes and at sizes for this "
    f"device; {_BARS}; {_PAPER}, {STARRED}.",
    blocks=BLOCK_LABELS,
    methods=(
        "autoregressive",
        "pld",
        "rest",
        "lookahead",
        "token_recycling",
        "eagle",
        "eagle2",
        "sam",
        "sam[t]",
        "sam[e]",
        "sam[e2]",
        "suffix_decoding",
        "sam_auto",
    ),
    references=("hf_generate",),
    columns={"human_eval": "HumanEval", "mbpp": "MBPP", "hagrid": "HAGRID", OVERALL: TASK_LABELS[OVERALL]},
    unit="data set",
    ranked=("human_eval", "mbpp", "hagrid", OVERALL),
    optional=("sam_auto",),
)

_SAM_E2 = ("sam[e2]", "sam[e2] without static", "sam[e2] without dynamic")  # not taken apart with every profile

TABLE3 = TableLayout(
    name="table3",
    notebook="04",
    title="Table 3: SAM without one of its modules",
    about="Speed-up over autoregressive decoding and mean accepted tokens (MAT) of SAM and its variants, whole and "
    f"without one module each, all tasks together, at the paper's draft sizes; {_BARS}; {_PAPER}.",
    blocks={"paper": BLOCK_LABELS["paper"]},
    methods=(
        "autoregressive",
        "sam[t]",
        "sam[t] without static",
        "sam[t] without dynamic",
        "sam[t] without auxiliary",
        *_SAM_E2,
        "sam",
        "sam without static",
        "sam without dynamic",
    ),
    references=("hf_generate",),
    columns=TASK_LABELS,
    optional=_SAM_E2,
    ablated=("sam[t]", "sam[e2]", "sam"),
)

LAYOUTS = (TABLE1, TABLE2, TABLE3)
