"""The notebooks as files: short cells, no outputs, parameters that papermill finds, and no logic of their own."""

import ast
import json
import re

import pytest

from samlib import paths
from samlib.cli.plan import FIGURES, SHIPPED_FIGURES

NOTEBOOKS = sorted(paths.NOTEBOOKS.glob("*.ipynb"))
ABSOLUTE_PATH = re.compile(r"(?:^|[\s\"'`(=])(?:/(?:home|root|work|tmp|usr|mnt|opt|Users)\b|[A-Z]:\\)")
MOST_LINES = 12


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return request.param.name, json.loads(request.param.read_text(encoding="utf-8"))


def sources(content, kind):
    return ["".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == kind]


def test_the_notebooks_of_this_version_are_there():
    assert {"00", "01", "02", "07", "08"} <= {path.name[:2] for path in NOTEBOOKS}


def test_one_cell_is_tagged_parameters_and_names_the_default_profile(notebook):
    _, content = notebook
    tagged = [cell for cell in content["cells"] if "parameters" in cell["metadata"].get("tags", [])]
    assert len(tagged) == 1 and tagged[0]["cell_type"] == "code"
    assert 'profile = "cpu"' in "".join(tagged[0]["source"])


def test_code_cells_are_short_and_define_nothing(notebook):
    _, content = notebook
    for source in sources(content, "code"):
        assert len(source.splitlines()) <= MOST_LINES
        kinds = {type(node) for node in ast.walk(ast.parse(source))}
        assert not kinds & {ast.FunctionDef, ast.ClassDef, ast.Lambda, ast.Try, ast.While}


def test_nothing_was_left_from_a_run(notebook):
    _, content = notebook
    for cell in content["cells"]:
        assert not cell.get("outputs") and cell.get("execution_count") is None
        assert "papermill" not in cell["metadata"]
    assert "papermill" not in content["metadata"]


def test_no_path_of_anyones_machine(notebook):
    _, content = notebook
    for source in sources(content, "code") + sources(content, "markdown"):
        assert not ABSOLUTE_PATH.search(source)


def test_the_format_and_kernel_are_those_of_the_environment(notebook):
    _, content = notebook
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    assert content["metadata"]["kernelspec"]["name"] == "python3"


def test_it_opens_with_its_number_and_a_question(notebook):
    name, content = notebook
    first = sources(content, "markdown")[0]
    assert content["cells"][0]["cell_type"] == "markdown"
    assert first.startswith(f"# {name[:2]} · ") and "**Question.**" in first


def test_every_figure_that_a_run_expects_is_named_in_its_notebook(notebook):
    name, content = notebook
    code = "\n".join(sources(content, "code"))
    figures = FIGURES.get(name[:2], ()) + SHIPPED_FIGURES.get(name[:2], ())
    for stem in {figure.split(".")[0] for figure in figures}:
        assert f'"{stem}"' in code
