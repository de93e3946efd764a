"""What an EAGLE draft costs: what is timed, how it is read, kept and found again."""

import dataclasses
import json

import pytest

from samlib import paths
from samlib.bench import head_cost, load_model
from samlib.bench.head_cost import HeadCost, cached_head_cost, measure_head_cost
from samlib.bench.heads import random_head
from samlib.bench.profiles import load_profile
from samlib.drafters.eagle_head import EagleHead

SMALL = dataclasses.replace(load_profile("smoke"), cost_repeats=1, cost_contexts=(6, 9))


@pytest.fixture(scope="module")
def model():
    return load_model("smoke")[0]


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    return tmp_path


def test_a_level_more_costs_one_slope_more():
    cost = HeadCost(base=3.0, level=0.5, vocabulary=8, repeats=1, device="made up")
    assert [cost.seconds(depth) for depth in (1, 2, 5)] == [3.0, 3.5, 5.0]


def test_base_and_slope_are_those_of_the_medians_without_the_warm_up(model, folders, monkeypatch):
    seconds = {1: iter([99.0, 3.0, 1.0, 2.0]), 5: iter([99.0, 7.0, 10.0, 9.0])}
    order = []

    def spy(model, drafter, depth):
        assert (drafter.depth, drafter.tree_size, drafter.top_k_nodes) == (depth, depth, 1)
        order.append(depth)
        return next(seconds[depth])

    monkeypatch.setattr(head_cost, "time_draft", spy)
    head = random_head(model, folders / "head")
    found = measure_head_cost(model, vocabulary=20, context=7, repeats=3, device="made up", head=head)
    assert found == HeadCost(2.0, (9.0 - 2.0) / 4, 20, 3, "made up")
    assert order == [5, 1, 1, 5, 5, 1, 1, 5]


def test_noise_gives_no_slope_below_zero(model, folders, monkeypatch):
    monkeypatch.setattr(head_cost, "time_draft", lambda model, drafter, depth: 1.0 / depth)
    head = random_head(model, folders / "head")
    assert measure_head_cost(model, vocabulary=20, context=7, repeats=1, head=head).level == 0.0


def test_the_drafts_are_real(model, folders, monkeypatch):
    """The head runs once over the context, then once for the step and once for each further level of each draft."""
    widths = []
    forward = EagleHead.forward

    def spy(self, embedded, *rest):
        widths.append(embedded.shape[1])
        return forward(self, embedded, *rest)

    monkeypatch.setattr(EagleHead, "forward", spy)
    head = random_head(model, folders / "head")
    measure_head_cost(model, vocabulary=20, context=7, repeats=2, head=head)
    assert sorted(widths) == sorted([7 + 1, 7 + 1] + [1] * 4 + [1] * 4 * 3)


def test_it_is_kept_and_measured_again_for_another_head_or_other_code(model, folders, monkeypatch):
    first = cached_head_cost(SMALL, model, progress=False)
    assert first.vocabulary == 259 and first.repeats == 1 and first.base > 0
    assert str(folders) not in (paths.runs_dir("smoke") / "head_cost.json").read_text()
    other = dataclasses.replace(first, base=123.0)
    monkeypatch.setattr(head_cost, "measure_head_cost", lambda *_, **__: other)
    assert cached_head_cost(SMALL, model, progress=False) == first
    for name in ("head_identity", "sources_key", "cost_key"):
        with monkeypatch.context() as patch:
            patch.setattr(head_cost, name, lambda *_: "another")
            assert cached_head_cost(SMALL, model, progress=False) == other, name
        (paths.runs_dir("smoke") / "head_cost.json").write_text(kept(first))


def kept(cost):
    return json.dumps({"key": head_cost._key(SMALL), "cost": dataclasses.asdict(cost)})


@pytest.mark.parametrize("damage", ["", "[1]", '{"key": 3}', '{"cost": {}}'])
def test_a_damaged_file_is_measured_anew(model, monkeypatch, damage):
    first = cached_head_cost(SMALL, model, progress=False)
    path = paths.runs_dir("smoke") / "head_cost.json"
    path.write_text(damage)
    monkeypatch.setattr(head_cost, "measure_head_cost", lambda *_, **__: first)
    assert cached_head_cost(SMALL, model, progress=False) == first
    assert path.read_text() == kept(first)
