"""Fitting the acceptance model: what it learns from, that it learns, and what is written."""

import json

import numpy as np
import pytest

from samlib import StaticAutomaton
from samlib.bench.fit_acceptance import TOP_K, fit, save_prior
from samlib.bench.replay import Trajectory
from samlib.drafters import acceptance
from samlib.drafters.acceptance import SHAPES


def trajectories(count=6, length=40):
    """Answers that repeat a random phrase; the target's second choice is always right, its first one never."""
    rng, made = np.random.default_rng(1), []
    for _ in range(count):
        phrase = rng.permutation(60)[:9].tolist()
        tokens = np.array((phrase * 5)[:length], dtype=np.int32)
        following = np.append(tokens[1:], 0)
        top = np.array(
            [[60 + i, token, *range(70, 70 + TOP_K - 2)] for i, token in enumerate(following[:-1])], np.int32
        )
        made.append(Trajectory(np.array(phrase[:2], dtype=np.int32), tokens, length, "length", top))
    return made


@pytest.fixture(scope="module")
def fitted():
    return fit(trajectories(), StaticAutomaton.build([[1, 2, 3]]), epochs=3, progress=False)


def test_the_loss_falls_from_pass_to_pass(fitted):
    _, losses = fitted
    assert len(losses) == 3 and losses[2] < losses[1] < losses[0]


def test_it_learns_what_is_right(fitted):
    prior, _ = fitted
    assert {name: part.shape for name, part in prior.items()} == SHAPES
    assert prior["row"][1] > 0 > prior["row"][0]
    assert prior["hit"][0].max() > 0
    assert (prior["hit"][3:] == 0).all(), "nothing was in the static index"


def test_it_is_the_same_each_time(fitted):
    again, losses = fit(trajectories(), StaticAutomaton.build([[1, 2, 3]]), epochs=3, progress=False)
    assert losses == fitted[1]
    assert all((again[name] == part).all() for name, part in fitted[0].items())


def test_what_is_written_is_read_again(fitted, tmp_path, monkeypatch):
    path = tmp_path / "prior.json"
    save_prior(path, fitted[0], {"model": "made up"})
    monkeypatch.setattr(acceptance, "PRIOR_FILE", path)
    for name, part in acceptance.load_prior().items():
        np.testing.assert_allclose(part, fitted[0][name], atol=1e-4)
    assert json.loads(path.read_text(encoding="utf-8"))["about"] == {"model": "made up"}
