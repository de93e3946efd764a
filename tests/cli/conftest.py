"""A throw-away workspace: its own notebooks, runs and figures, and no model."""

import nbformat
import pytest

from samlib import paths
from samlib.cli import arguments, plan

WRITE_FIGURE = """
from pathlib import Path
Path(figures).mkdir(parents=True, exist_ok=True)
(Path(figures) / "toy.md").write_text(f"a table of {profile}, {count}")
"""


class Workspace:
    """Folders under tmp_path in which `python -m samlib run` works as in the repository."""

    def __init__(self, root):
        self.root = root
        self.notebooks = root / "notebooks"
        self.figures = root / "figures" / "smoke"
        self.runs = root / "runs" / "smoke"
        self.notebooks.mkdir()

    def notebook(self, name, code, parameters=""):
        """Writes a notebook of two cells, the first one tagged `parameters`."""
        given = f'profile = "cpu"\nfigures = {str(self.figures)!r}\ncount = 1\n{parameters}'
        cells = [nbformat.v4.new_code_cell(given, metadata={"tags": ["parameters"]}), nbformat.v4.new_code_cell(code)]
        for number, cell in enumerate(cells):
            cell["id"] = f"cell-{number}"
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), self.notebooks / f"{name}.ipynb")

    def executed(self, name):
        """The cells of an executed notebook."""
        return nbformat.read(self.runs / f"{name}.ipynb", as_version=4).cells


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    """A Workspace that all of samlib.cli takes for the repository; notebook 07 must write toy.md."""
    root = tmp_path / "a folder"
    root.mkdir()
    made = Workspace(root)
    monkeypatch.setattr(paths, "NOTEBOOKS", made.notebooks)
    monkeypatch.setattr(paths, "RUNS", root / "runs")
    monkeypatch.setattr(paths, "FIGURES", root / "figures")
    monkeypatch.setattr(arguments, "notebook_numbers", lambda: ["07", "08"])
    monkeypatch.setitem(plan.FIGURES, "07", ("toy.md",))
    monkeypatch.delitem(plan.RECORDS, "07")
    monkeypatch.setattr("samlib.bench.hello.first_contact", lambda profile, **_: f"hello {profile.name}")
    monkeypatch.setattr("samlib.report.page.write_report", lambda profile: made.runs / "report.html")
    monkeypatch.delenv("SAMLIB_DATA", raising=False)
    return made
