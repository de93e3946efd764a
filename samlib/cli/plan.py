"""Which notebooks there are and what each must leave behind. Standard library only: see before_install.py."""

import json
from dataclasses import dataclass
from pathlib import Path


def _table_files(name: str) -> tuple[str, ...]:
    """The files of one of the paper's tables: itself, its figure, its draft sources, and its phases of time."""
    kinds = {"": "csv md pdf png", "_sources": "csv pdf png", "_phases": "csv pdf png"}
    return tuple(f"{name}{part}.{ending}" for part, endings in kinds.items() for ending in endings.split())


# What each notebook must write into figures/<profile>/; a run in which one is missing has failed.
FIGURES = {
    "00": (),
    "01": (
        "automaton.pdf",
        "automaton.png",
        "automaton_scale.csv",
        "automaton_scale.pdf",
        "automaton_scale.png",
        "complexity.csv",
        "complexity.pdf",
        "complexity.png",
    ),
    "02": _table_files("table1"),
    "03": _table_files("table2"),
    "04": _table_files("table3"),
    "07": ("cost.csv", "cost.md", "cost.pdf", "cost.png"),
    "08": ("eagle_live.csv", "eagle_live.pdf", "eagle_live.png"),
}

# What it must write besides, where a trained EAGLE head is shipped for the profile's model.
SHIPPED_FIGURES = {
    "08": ("eagle_training.csv", "eagle_training.md", "eagle_training.pdf", "eagle_training.png"),
}

# What each notebook keeps in runs/<profile>/records/; without it the notebook is due again. The cost curve lies beside
# that folder, because other notebooks use it as well; it is named here, so that --fresh forgets it, too.
RECORDS = {
    "01": ("automaton.jsonl", "complexity.csv"),
    "02": ("table1.jsonl",),
    "03": ("table2.jsonl",),
    "04": ("table1.jsonl",),  # Table 3 is measured with Table 1
    "07": ("cost.csv", "../cost.json"),
}


@dataclass(frozen=True)
class Notebook:
    """A numbered notebook and the names of the files that it must leave."""

    path: Path
    figures: tuple[str, ...] = ()
    records: tuple[str, ...] = ()

    @property
    def number(self) -> str:
        """The two digits that the file's name starts with."""
        return self.path.name[:2]

    @property
    def name(self) -> str:
        """The file's name without its ending, e.g. 02_table1."""
        return self.path.stem


def notebooks(folder: Path, only: tuple[str, ...] = (), *, shipped_head: bool = False) -> list[Notebook]:
    """The numbered notebooks in `folder`, in order; those in `only` where it is not empty.

    shipped_head: a trained EAGLE head is shipped for the model that they will run.
    """
    found = [_notebook(path, shipped_head) for path in sorted(folder.glob("[0-9][0-9]_*.ipynb"))]
    return [notebook for notebook in found if not only or notebook.number in only]


def _notebook(path: Path, shipped_head: bool) -> Notebook:
    number = path.name[:2]
    figures = FIGURES.get(number, ()) + (SHIPPED_FIGURES.get(number, ()) if shipped_head else ())
    return Notebook(path, figures, RECORDS.get(number, ()))


def describe(notebook: Notebook) -> str:
    """One line for a dry run: the name, how many code cells, and the figures."""
    cells = json.loads(notebook.path.read_text(encoding="utf-8"))["cells"]
    count = sum(cell["cell_type"] == "code" for cell in cells)
    return f"{notebook.name}: {count} code cells; writes {', '.join(notebook.figures) or 'no figures'}"
