"""T(n): what is timed, how it is read, the command's last line."""

import json

import pytest

from samlib import paths
from samlib.bench import cost, forward, load_model
from samlib.bench.cost import CostCurve, cached_cost, measure_cost
from samlib.bench.profiles import load_profile


@pytest.fixture(scope="module")
def model():
    return load_model("smoke")[0]


def curve(seconds):
    return CostCurve(T=seconds, T_plain=seconds, context=300, repeats=1, device="made up")


def test_a_curve_is_linear_between_its_points_and_beyond_the_last_two():
    t = curve({1: 1.0, 8: 1.7, 16: 2.5})
    assert [t.seconds(n) for n in (1, 8, 16)] == [1.0, 1.7, 2.5]
    assert t.seconds(4) == pytest.approx(1.3)
    assert t.seconds(12) == pytest.approx(2.1)
    assert t.seconds(26) == pytest.approx(3.5)
    assert t.ratio(8) == pytest.approx(1.7)


def test_a_curve_of_one_point_is_constant():
    assert curve({1: 2.0}).seconds(40) == 2.0


def test_a_curve_survives_json():
    t = curve({1: 1.0, 8: 1.7})
    assert CostCurve.from_json(t.to_json()) == t


def test_every_width_is_timed_with_that_many_tokens_after_the_context(model):
    from samlib.bench.answers import forward_clock

    with forward_clock(model) as forwards:
        found = measure_cost(model, widths=(1, 2, 8), context=50, repeats=2)
    widths = [width for width, _ in forwards]
    assert widths[0] == 50
    assert sorted(widths[1:]) == [1] * 3 + [2] * 3 + [8] * 3  # the warm-up pass and two more
    assert sorted(found.T) == [1, 2, 8]
    assert all(seconds > 0 for seconds in found.T.values())
    assert found.T_plain == found.T


def test_the_cache_is_rolled_back_after_every_forward(model):
    target = forward.prefilled(model, 50)
    for width in (1, 5, 61):
        forward.time_forward(model, target, width)
        assert target.num_cached == 50


def test_the_draft_is_a_tree_whose_parents_come_first():
    draft = forward._binary_tree(6)
    assert draft.parents.tolist() == [-1, -1, 0, 0, 1, 1]
    assert not draft.is_chain
    assert len(forward._binary_tree(0)) == 0


def test_a_measured_curve_is_kept_and_measured_again_for_other_settings(model, tmp_path, monkeypatch):
    import dataclasses

    monkeypatch.setattr(paths, "RUNS", tmp_path)
    profile = dataclasses.replace(load_profile("smoke"), cost_widths=(1, 2), cost_repeats=1, cost_context=5)
    first = cached_cost(profile, model, progress=False)
    assert cached_cost(profile, model, progress=False) == first
    other = cached_cost(dataclasses.replace(profile, cost_context=6), model, progress=False)
    assert other.context == 6


def test_the_command_ends_with_one_line_of_json(capsys):
    cost.main(["--profile", "smoke", "--context", "20", "--repeats", "1"])
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["context"] == 20
    assert list(last["T"]) == list(last["T_plain"]) == [str(n) for n in load_profile("smoke").cost_widths]
