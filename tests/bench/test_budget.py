"""How many rounds fit, and that the decision is remembered."""

import dataclasses

import pytest

from samlib.bench.budget import Plan, PlanFile, rounds_within
from samlib.bench.profiles import load_profile


@pytest.mark.parametrize(
    ("budget", "overhead", "per_round", "rounds"),
    [
        (1000, 0, 100, 9),  # 5 % are kept in hand
        (1000, 350, 100, 6),
        (1000, 900, 100, 2),  # never fewer than at_least
        (1000, 2000, 100, 2),
        (1e9, 0, 100, 12),  # never more than at_most
    ],
)
def test_rounds_within(budget, overhead, per_round, rounds):
    assert rounds_within(budget, overhead, per_round, at_least=2, at_most=12) == rounds


def measured_plan():
    return Plan(device_options={}, overhead_seconds=60.0, seconds_per_round=120.0)


def test_a_decision_stands_for_its_budget_and_changes_with_it():
    profile, plan = load_profile("cpu"), measured_plan()
    plan.decide(11, profile, available=80)
    assert plan.rounds == 4
    plan.seconds_per_round = 1.0  # a later, faster look does not change what was decided
    plan.decide(11, profile, available=80)
    assert plan.rounds == 4
    plan.decide(12, profile, available=80)
    assert plan.rounds == 80


def test_the_data_limits_the_rounds():
    plan = measured_plan()
    plan.decide(1000, load_profile("cpu"), available=1)
    assert plan.rounds == 1


def test_an_impossible_budget_is_said_in_one_line():
    plan = measured_plan()
    plan.decide(2, load_profile("cpu"), available=80)
    assert plan.rounds == 2
    assert plan.overrun() == ("the least that is measured, 2 questions of each task, takes about 5 minutes here, not 2")
    plan.decide(11, load_profile("cpu"), available=80)
    assert plan.overrun() is None


def test_plans_are_kept_by_settings(tmp_path):
    file = PlanFile(tmp_path / "runs" / "plan.json")
    assert file.current is None and file.get("a") is None
    plan = measured_plan()
    file.save("a", plan)
    file.save("b", dataclasses.replace(plan, rounds=7))
    again = PlanFile(file.path)
    assert again.current == "b"
    assert again.get("a") == plan
    assert again.get("b").rounds == 7
