"""The parameters that the notebooks take. papermill only warns of an unknown one, so they are checked here."""

import ast
import logging
from typing import Any

from samlib.bench.profiles import Profile
from samlib.bench.tables import RUNS
from samlib.cli.arguments import Options, UsageError, nearest
from samlib.cli.plan import Notebook


def accepted(notebook: Notebook) -> dict[str, Any]:
    """The names in the notebook's cell tagged `parameters`, with their defaults (None where not a plain value)."""
    import papermill

    logging.getLogger("papermill.translators").setLevel(logging.ERROR)  # it warns of every line that is no parameter
    found = papermill.inspect_notebook(str(notebook.path))
    return {name: _literal(parameter["default"]) for name, parameter in found.items()}


def assign(notebooks: list[Notebook], options: Options, profile: Profile) -> dict[str, dict[str, Any]]:
    """By notebook name, the parameters to run it with: the profile, the time budget, and the user's own.

    A parameter goes to every notebook that takes it; UsageError where none does.
    """
    takes = {notebook.name: accepted(notebook) for notebook in notebooks}
    known = {name for defaults in takes.values() for name in defaults}
    for name in options.parameters:
        if name not in known:
            raise UsageError(f"no selected notebook takes the parameter {name}{nearest(name, known)}")
    if options.minutes is not None and "minutes" not in known:
        raise UsageError("--minutes: no selected notebook measures within a time budget; leave it out")
    minutes = profile.minutes if options.minutes is None else options.minutes
    budgets = divide(minutes, [notebook for notebook in notebooks if "minutes" in takes[notebook.name]])
    return {
        name: _values(defaults, {"profile": profile.name, "minutes": budgets.get(name)}, options.parameters)
        for name, defaults in takes.items()
    }


def divide(minutes: float, notebooks: list[Notebook]) -> dict[str, float]:
    """Each notebook's part of the time budget: that of its run, by shares; notebooks of one run have it in common."""
    runs = {notebook.name: run_of(notebook) for notebook in notebooks}
    shares = {run: RUNS[run].share if run else 1.0 for run in runs.values()}
    return {name: round(minutes * shares[run] / sum(shares.values()), 2) for name, run in runs.items()}


def run_of(notebook: Notebook) -> str | None:
    """The run of the tables that the notebook measures in, by its records; None where it is none of them."""
    return next((run for run in RUNS if f"{run}.jsonl" in notebook.records), None)


def _values(defaults: dict[str, Any], common: dict[str, Any], given: dict[str, str]) -> dict[str, Any]:
    values = {name: value for name, value in common.items() if name in defaults}
    return values | {name: convert(name, text, defaults[name]) for name, text in given.items() if name in defaults}


def convert(name: str, text: str, default: Any) -> Any:
    """`text` as a value of the default's type, so that 007 stays a text where one is due; UsageError if it is none."""
    if isinstance(default, str):
        return text
    if isinstance(default, bool):
        text = text.capitalize()
    value = _literal(text)
    if isinstance(default, float) and type(value) is int:
        return float(value)
    if default is not None and type(value) is not type(default):
        raise UsageError(f"-p {name}: {text!r} is not of the type of its default, {default!r}")
    return text if value is None and text != "None" else value


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None
