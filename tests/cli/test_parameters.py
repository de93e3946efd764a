"""Parameters: names must be known to a notebook, values become what their defaults are."""

import pytest

from samlib.bench.profiles import load_profile
from samlib.bench.tables import RUNS
from samlib.cli import parameters, plan
from samlib.cli.arguments import Options, UsageError


@pytest.mark.parametrize(
    ("text", "default", "value"),
    [
        ("007", "a text", "007"),
        ("7", 1, 7),
        ("7", 1.0, 7.0),
        ("1e-3", 1.0, 0.001),
        ("true", False, True),
        ("False", True, False),
        ("[1, 2]", [], [1, 2]),
        ("7", None, 7),
        ("a word", None, "a word"),
        ("None", None, None),
    ],
)
def test_values_take_the_type_of_the_default(text, default, value):
    converted = parameters.convert("x", text, default)
    assert converted == value
    assert type(converted) is type(value)


@pytest.mark.parametrize(("text", "default"), [("soon", 1.0), ("1.5", 1), ("yes", True), ("1", True), ("x", [])])
def test_a_value_of_another_type_is_refused(text, default):
    with pytest.raises(UsageError, match="-p x: .* is not of the type of its default"):
        parameters.convert("x", text, default)


@pytest.fixture
def notebooks(workspace):
    workspace.notebook("07_toy", "pass")
    workspace.notebook("08_timed", "pass", parameters="minutes = 15.0")
    return plan.notebooks(workspace.notebooks)


def test_each_notebook_gets_what_it_takes(notebooks):
    options = Options(profile="smoke", minutes=4.0, parameters={"count": "3"})
    values = parameters.assign(notebooks, options, load_profile("smoke"))
    assert values == {
        "07_toy": {"profile": "smoke", "count": 3},
        "08_timed": {"profile": "smoke", "minutes": 4.0, "count": 3},
    }


def test_the_profile_has_its_own_budget(notebooks):
    profile = load_profile("smoke")
    assert parameters.assign(notebooks, Options(profile="smoke"), profile)["08_timed"]["minutes"] == profile.minutes


def test_the_budget_is_divided_among_runs_not_notebooks(tmp_path):
    """Tables 1 and 3 are one run, so that their notebooks share its part; alone, a run has all of it."""
    tables = [plan.Notebook(tmp_path / f"{n}_x.ipynb", records=plan.RECORDS[n]) for n in ("02", "03", "04")]
    shares = {run.name: run.share for run in RUNS.values()}
    found = parameters.divide(20.0, tables)
    assert found["02_x"] == found["04_x"] == pytest.approx(20 * shares["table1"])
    assert found["03_x"] == pytest.approx(20 * shares["table2"])
    assert parameters.divide(20.0, tables[1:2]) == {"03_x": pytest.approx(20.0)}
    assert parameters.divide(20.0, tables[::2]) == {"02_x": pytest.approx(20.0), "04_x": pytest.approx(20.0)}


def test_an_unknown_parameter_is_refused_and_the_nearest_named(notebooks):
    with pytest.raises(UsageError, match="takes the parameter cout; did you mean count"):
        parameters.assign(notebooks, Options(parameters={"cout": "3"}), load_profile("smoke"))


def test_a_budget_for_notebooks_without_one_is_refused(notebooks):
    with pytest.raises(UsageError, match="--minutes: no selected notebook"):
        parameters.assign(notebooks[:1], Options(minutes=3.0), load_profile("smoke"))
