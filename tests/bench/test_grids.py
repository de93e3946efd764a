"""Recorded answers are greedy's and resume; a grid's figures are those of its replays."""

import dataclasses
import json

import numpy as np
import pytest

from samlib import StaticAutomaton, make_drafter, paths
from samlib.bench import grids, trajectories
from samlib.bench.cost import CostCurve
from samlib.bench.data import load_questions, rounds
from samlib.bench.model import load_model
from samlib.bench.profiles import PAPER_SETTINGS, load_profile
from samlib.bench.prompts import answer_text, prompt_ids
from samlib.bench.replay import Trajectory, modelled_seconds, replay
from samlib.bench.trajectories import Recorded, recorded_answers

from ..decoding.models import greedy

CURVE = {1: 1.0, 8: 1.4, 61: 5.0}
COST = CostCurve(T=CURVE, T_plain=CURVE, context=300, repeats=1, device="")
STATIC = StaticAutomaton.build([[3, 4, 5, 6, 7, 8]])


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "RUNS", tmp_path)
    monkeypatch.setattr(trajectories, "cached_cost", lambda *_, **__: COST)
    return tmp_path


def made_up(seed, length=40):
    """A Recorded answer that repeats itself, and what was likely along it."""
    rng = np.random.default_rng(seed)
    tokens = np.tile(rng.permutation(20)[:7], 9)[:length].astype(np.int32)
    top = np.stack([np.roll(tokens, -1)[:-1], *[tokens[:-1] + 30 + i for i in range(7)]], axis=1).astype(np.int32)
    return Recorded(seed, "qa", 0, Trajectory(rng.permutation(20)[:9].astype(np.int32), tokens, length, "length", top))


# ---- recording ----


def test_recorded_answers_are_the_greedy_ones_turn_by_turn(runs):
    profile = load_profile("smoke")
    model, tokenizer = load_model(profile)
    found = recorded_answers(profile, most_rounds=1, progress=False)
    questions = rounds(load_questions(profile), profile.seed)[0]
    assert [turn.question_id for turn in found] == [q.question_id for q in questions for _ in q.turns]
    for question in questions:
        messages = []
        for turn in (turn for turn in found if turn.question_id == question.question_id):
            messages.append({"role": "user", "content": question.turns[turn.turn]})
            ids = prompt_ids(tokenizer, messages)
            expected = greedy(model, ids, profile.max_new_tokens, eos_token_id=model.generation_config.eos_token_id)
            assert turn.trajectory.prompt.tolist() == ids
            assert turn.trajectory.tokens.tolist() == expected
            assert turn.trajectory.top[:, 0].tolist() == expected[1:]
            messages.append({"role": "assistant", "content": answer_text(tokenizer, expected)})


def test_what_is_on_file_is_not_recorded_again(runs, monkeypatch):
    first = recorded_answers("smoke", most_rounds=1, progress=False)
    monkeypatch.setattr(trajectories, "load_model", lambda profile: pytest.fail("the model was loaded"))
    again = recorded_answers("smoke", most_rounds=1, progress=False)
    assert [turn[:3] for turn in again] == [turn[:3] for turn in first]
    for a, b in zip(again, first, strict=True):
        for name in ("prompt", "tokens", "top"):
            assert np.array_equal(getattr(a.trajectory, name), getattr(b.trajectory, name))
        assert (a.trajectory.limit, a.trajectory.finish_reason) == (b.trajectory.limit, b.trajectory.finish_reason)


def test_other_settings_are_other_answers(runs):
    profile = load_profile("smoke")
    recorded_answers(profile, most_rounds=1, progress=False)
    longer = recorded_answers(dataclasses.replace(profile, max_new_tokens=15), most_rounds=1, progress=False)
    assert {turn.trajectory.limit for turn in longer} == {15}


# ---- replaying ----


@pytest.mark.parametrize("method", grids.METHODS)
def test_a_grid_adds_up_what_each_replay_gives(method):
    recorded, settings = [made_up(seed) for seed in range(13)], [{"draft_size": size} for size in (5, 40)]
    rows = grids.replayed_rows(recorded, method, settings, static=STATIC, cost=COST, progress=False)
    grid = grids.grid_of(rows)
    assert grid["draft_size"].tolist() == [5, 40] and set(grid["n"]) == {13}
    for setting, row in zip(settings, grid.to_dict("records"), strict=True):
        drafter = make_drafter(method, static=STATIC, **(PAPER_SETTINGS[method] | setting))
        generations = [replay(drafter, turn.trajectory) for turn in recorded]
        emitted = [len(generation.tokens) - 1 for generation in generations]
        seconds = [modelled_seconds(generation, COST, 9) for generation in generations]
        assert row["mat"] == sum(emitted) / sum(len(generation.steps) for generation in generations)
        speeds = np.divide(emitted, seconds)
        assert row["speedup"] == pytest.approx(speeds.mean())  # a forward over one token takes a second
        assert row["speedup_low"] < row["speedup"] < row["speedup_high"]


def test_turns_of_a_question_count_together():
    turns = [Recorded(1, "multi_turn", turn, made_up(turn).trajectory) for turn in range(2)]
    rows = grids.replayed_rows(turns, "sam", [{"draft_size": 5}], static=None, cost=COST, progress=False)
    assert len(rows) == 1 and rows["emitted"].item() == 78
    assert rows["baseline"].item() == pytest.approx(78.0)
    assert grids.grid_of(rows)["speedup_low"].isna().all(), "an interval of one question"


def test_a_threshold_that_nothing_reaches_drafts_nothing():
    recorded = [made_up(seed) for seed in range(3)]
    settings = [{"l_bias": 0, "l_threshold": least} for least in (1, 1000)]
    grid = grids.grid_of(grids.replayed_rows(recorded, "sam", settings, static=None, cost=COST, progress=False))
    assert grid["mat"].tolist()[0] > 2 and grid["mat"].tolist()[1] == 1
    assert grid["speedup"].tolist()[1] == pytest.approx(1.0)


def test_the_papers_settings_are_in_the_grids():
    best = grids.PAPER_BEST
    assert {name: best[name] for name in ("l_bias", "l_threshold")} in grids.threshold_settings()
    assert {"draft_size": best["draft_size"]} in grids.size_settings()


def test_the_command_prints_every_grid_and_a_line_of_json(runs, monkeypatch, capsys):
    monkeypatch.setattr(grids, "cached_cost", lambda *_, **__: COST)
    monkeypatch.setattr(grids, "BIASES", (0, 5))
    monkeypatch.setattr(grids, "THRESHOLDS", (1, 5))
    monkeypatch.setattr(grids, "DRAFT_SIZES", (10, 40))
    grids.main(["--profile", "smoke", "--rounds", "2"])
    text = capsys.readouterr().out
    found = json.loads(text.splitlines()[-1])["grids"]
    assert list(found) == [f"{m}, {names}" for m in grids.METHODS for names in ("l_bias and l_threshold", "draft_size")]
    assert [len(grid) for grid in found.values()] == [4, 2, 4, 2]
    assert text.count("at the paper's") == 4 and "12 questions" in text
