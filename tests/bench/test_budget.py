"""How many rounds fit and which lines, and that the decision is remembered."""

import dataclasses

import pytest

from samlib.bench.budget import Plan, PlanFile, lines_within

SECONDS = {"oracle": 30.0, "sam": 20.0, "lookahead": 50.0, "pld": 20.0}  # 120 a round
ESSENTIAL = ["oracle", "sam"]


def decided(minutes, *, at_least=2, at_most=80, seconds=SECONDS, **fields):
    plan = Plan(device_options={}, **{"overhead_seconds": 60.0, "seconds": seconds} | fields)
    plan.decide(minutes, at_least=at_least, at_most=at_most, essential=ESSENTIAL)
    return plan


@pytest.mark.parametrize(
    ("minutes", "rounds"),
    [
        (20, 9),  # 1140 of 1200 s, 5 % in hand: 60 to begin with, nine rounds of 120
        (5.5, 2),  # 313 s: 60 + 2 * 120
        (1000, 12),  # never more than there are
    ],
)
def test_rounds_that_fit(minutes, rounds):
    plan = decided(minutes, at_most=12)
    assert (plan.rounds, plan.left_out) == (rounds, [])
    assert plan.overrun() is None


def test_the_slowest_lines_are_left_out_where_the_least_does_not_fit():
    plan = decided(5)  # 285 s: 180 are gone after the first round, 105 are left for another
    assert (plan.rounds, plan.left_out) == (2, ["lookahead"])
    assert plan.not_run() == {"lookahead": "needs about 0.8 minutes more"}
    assert plan.overrun() is None


def test_what_is_left_out_may_leave_time_for_more_rounds():
    plan = decided(5.7, at_least=3)  # 325 s: 145 are left, 72 for each of two more rounds
    assert plan.left_out == ["lookahead"] and plan.rounds == 3


def test_essential_lines_are_measured_in_any_case_and_the_overrun_is_said():
    plan = decided(2)
    assert plan.left_out == ["lookahead", "pld"] and plan.rounds == 2
    assert plan.overrun() == "the least that is measured, 2 questions of each task, takes about 4 minutes here, not 2"


def test_one_round_is_measured_whole():
    plan = decided(0.001, at_least=1)
    assert (plan.rounds, plan.left_out, plan.not_run()) == (1, [], {})


def test_a_decision_stands_for_its_budget_and_changes_with_it():
    plan = decided(5)
    plan.seconds = dict.fromkeys(SECONDS, 1.0)  # a later, faster look does not change what was decided
    plan.decide(5, at_least=2, at_most=80, essential=ESSENTIAL)
    assert (plan.rounds, plan.left_out) == (2, ["lookahead"])
    plan.decide(6, at_least=2, at_most=80, essential=ESSENTIAL)
    assert (plan.rounds, plan.left_out) == (70, [])


@pytest.mark.parametrize(
    ("budget", "kept"),
    [
        (120, ["oracle", "sam", "pld", "lookahead"]),
        (119, ["oracle", "sam", "pld"]),
        (70, ["oracle", "sam", "pld"]),
        (69, ["oracle", "sam"]),
        (-5, ["oracle", "sam"]),
    ],
)
def test_lines_within(budget, kept):
    assert lines_within(budget, SECONDS, ESSENTIAL) == kept


def test_plans_are_kept_by_settings(tmp_path):
    file = PlanFile(tmp_path / "runs" / "plan.json")
    assert file.current is None and file.get("a") is None
    plan = decided(5)
    file.save("a", plan)
    file.save("b", dataclasses.replace(plan, rounds=7))
    again = PlanFile(file.path)
    assert again.current == "b"
    assert again.get("a") == plan
    assert again.get("b").rounds == 7
