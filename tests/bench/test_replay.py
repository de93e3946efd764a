"""A replay's steps are those of the live run, and its modelled time is the sum of T(n)."""

import dataclasses

import numpy as np
import pytest

import samlib
from samlib import StaticAutomaton, make_drafter
from samlib.bench.cost import CostCurve
from samlib.bench.replay import Trajectory, is_exact, modelled_seconds, record, replay

from ..decoding.models import (
    CYCLE_PROMPT,
    EAGER,
    corpus_of,
    cycle_model,
    generation_defaults,
    greedy,
    means_of,
    random_model,
    random_prompt,
)

EXACT = ("autoregressive", "pld", "rest", "sam", "suffix_decoding")  # they read token ids only


def drafter_for(method, model, static):
    return make_drafter(method, static=static, model=model, **EAGER.get(method, {}))


@pytest.mark.parametrize("recorded_by", ["autoregressive", "sam", "token_recycling"])
def test_a_trajectory_is_the_greedy_answer_and_its_largest_logits(recorded_by):
    import torch

    model, prompt = random_model(initializer_range=0.1), random_prompt(1, 9) * 2
    trajectory = record(model, prompt, make_drafter(recorded_by), max_new_tokens=40, top_k=5)
    expected = greedy(model, prompt, 40)
    with torch.inference_mode():
        logits = model(torch.tensor([prompt + expected])).logits[0, len(prompt) : -1]
    assert trajectory.tokens.tolist() == expected
    assert trajectory.top.tolist() == logits.topk(5).indices.tolist()
    assert (trajectory.prompt.tolist(), trajectory.limit, trajectory.finish_reason) == (prompt, 40, "length")


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("width", [0.3, 0.1])
def test_the_steps_are_those_of_the_live_run(method, width):
    model = random_model(initializer_range=width)
    static = corpus_of(model, [random_prompt(seed, 8) for seed in range(3)])
    live, replayed = (drafter_for(method, model, static) for _ in range(2))
    for seed in range(4):  # requests in a row
        prompt = random_prompt(seed, 9) * 2
        trajectory = record(model, prompt, max_new_tokens=40)
        expected = samlib.generate(model, prompt, drafter=live, max_new_tokens=40)
        found = replay(replayed, trajectory)
        assert is_exact(replayed)
        assert found.steps == expected.steps
        assert (found.tokens, found.finish_reason) == (expected.tokens, expected.finish_reason)
        assert found.num_target_forwards == expected.num_target_forwards
        assert set(found.timings.values()) == {0.0}


@pytest.mark.parametrize("limit", range(1, 14))
@pytest.mark.parametrize("method", EXACT)
def test_the_end_is_that_of_the_live_run(method, limit):
    """Whole drafts of the cycle are accepted: the end falls behind, between and inside drafts, by length and by EOS."""
    model = cycle_model()
    static = StaticAutomaton.build([CYCLE_PROMPT])
    for eos in (None, 2, 7):
        with generation_defaults(model, eos_token_id=eos):
            trajectory = record(model, CYCLE_PROMPT, max_new_tokens=limit)
            expected = samlib.generate(
                model, CYCLE_PROMPT, drafter=drafter_for(method, model, static), max_new_tokens=limit
            )
        found = replay(drafter_for(method, model, static), trajectory)
        assert found.steps == expected.steps
        assert (found.tokens, found.finish_reason) == (expected.tokens, expected.finish_reason)


def test_the_context_ends_a_replay_too():
    model = cycle_model(max_positions=16)
    trajectory = record(model, CYCLE_PROMPT, max_new_tokens=40)
    expected = samlib.generate(model, CYCLE_PROMPT, method="sam", max_new_tokens=40)
    found = replay(make_drafter("sam"), trajectory)
    assert trajectory.finish_reason == found.finish_reason == expected.finish_reason == "context"
    assert found.steps == expected.steps


@pytest.mark.parametrize("method", ["token_recycling", "sam[t]"])
def test_token_recycling_replays_by_what_was_recorded(method):
    """Its drafts lie on the answer alone, so that they differ from the live ones, but its tokens cannot."""
    model, prompt = random_model(initializer_range=0.1), random_prompt(1, 9) * 2
    trajectory = record(model, prompt, max_new_tokens=60, top_k=8)
    drafter = make_drafter(method)
    found = replay(drafter, trajectory)
    assert not is_exact(drafter)
    assert found.tokens == greedy(model, prompt, 60)
    assert any(step.source == "token_recycling" and step.accepted for step in found.steps)


def test_token_recycling_without_rejected_tokens_is_exact():
    """Where a tree is a chain along the answer, nothing else was verified that could have taught it anything."""
    model = cycle_model()
    options = {"tree_size": 1, "k": 1}
    trajectory = record(model, CYCLE_PROMPT, max_new_tokens=40, top_k=1)
    expected = samlib.generate(model, CYCLE_PROMPT, method="token_recycling", max_new_tokens=40, **options)
    assert replay(make_drafter("token_recycling", **options), trajectory).steps == expected.steps


def test_what_cannot_be_replayed_is_refused():
    model, prompt = random_model(), random_prompt(1, 9)
    trajectory = record(model, prompt, max_new_tokens=8, top_k=4)
    with pytest.raises(ValueError, match=r"8 largest logits, of which the trajectory holds 4.*top_k=8"):
        replay(make_drafter("token_recycling"), trajectory)
    with pytest.raises(ValueError, match="hidden states"):
        replay(make_drafter("eagle", model=model, **means_of("eagle", model)), trajectory)
    with pytest.raises(ValueError, match="'stop'"):
        dataclasses.replace(trajectory, finish_reason="stop")
    with pytest.raises(ValueError, match="one new token"):
        dataclasses.replace(trajectory, tokens=trajectory.tokens[:0])


def test_modelled_seconds_are_the_sum_of_the_steps_costs():
    """The cycle of 8 after a prompt of 11: one copied draft of 4 and its bonus token a step, each 5 tokens further."""
    curve = {"T": {1: 1.0, 5: 2.0}, "T_plain": {1: 1.0, 5: 2.0}}
    cost = CostCurve(
        **curve, context=11, repeats=1, device="", further={21: {name: {1: 2.0, 5: 4.0} for name in curve}}
    )
    tokens = np.array([(4 + i) % 8 for i in range(11)], dtype=np.int32)
    trajectory = Trajectory(np.array(CYCLE_PROMPT, dtype=np.int32), tokens, 11, "length")
    generation = replay(make_drafter("pld", draft_size=4), trajectory)
    assert [step.drafted for step in generation.steps] == [4, 4]
    assert modelled_seconds(generation, cost, len(CYCLE_PROMPT)) == pytest.approx(2.0 + 3.0)
