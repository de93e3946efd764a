"""Counts: prefill, steps, drafted, accepted, forwards, and the means made of them."""

import math
import pickle

import pytest

import samlib
from samlib import Draft, StaticAutomaton
from samlib.decoding import clock

from .models import (
    CYCLE_PROMPT,
    METHODS,
    Scripted,
    assets,
    corpus_of,
    counted_forwards,
    cycle,
    cycle_model,
    draft_of,
    means_of,
    random_model,
    random_prompt,
)

EVERY_METHOD = pytest.mark.parametrize("method", METHODS)
SOURCES = {
    "autoregressive": {"none"},
    "pld": {"pld", "none"},
    "rest": {"static", "none"},
    "lookahead": {"lookahead", "none"},
    "token_recycling": {"token_recycling", "none"},
    "sam": {"dynamic", "static", "none"},
    "sam[t]": {"dynamic", "static", "token_recycling", "none"},
    "eagle": {"eagle", "none"},
    "eagle2": {"eagle2", "none"},
    "sam[e]": {"dynamic", "static", "eagle", "none"},
    "sam[e2]": {"dynamic", "static", "eagle2", "none"},
    "suffix_decoding": {"dynamic", "static", "none"},
    "sam_auto": {"dynamic", "static", "token_recycling", "none"},
}


def check_counts(result, widths, method):
    """Section 5.2 of the design, for any result; `widths` are the sizes of the forwards that were really made."""
    steps = result.steps
    assert result.num_target_forwards == len(widths) == 1 + len(steps)
    assert len(result.tokens) == 1 + sum(len(step.tokens) for step in steps)
    assert result.tokens[1:] == [token for step in steps for token in step.tokens]
    for step, width in zip(steps, widths[1:], strict=True):
        assert step.drafted == width - 1
        assert 0 <= step.accepted <= step.drafted
        assert len(step.tokens) in (step.accepted, step.accepted + 1)
        assert step.source in SOURCES[method]
        assert (step.drafted == 0) == (step.source == "none")
    assert all(len(step.tokens) == step.accepted + 1 for step in steps[:-1])
    if steps:
        assert result.mean_accepted_tokens == pytest.approx((len(result.tokens) - 1) / len(steps))
    else:
        assert math.isnan(result.mean_accepted_tokens)


@EVERY_METHOD
@pytest.mark.parametrize("eos", [None, 6, 11])
@pytest.mark.parametrize("cap", [1, 2, 7, 40])
def test_every_count_of_a_request(method, eos, cap):
    model, prompt = random_model(seed=3, initializer_range=0.1), random_prompt(3, 10)
    index = corpus_of(model, [prompt, random_prompt(4, 10)], 30)
    options = {"static": index, "max_new_tokens": cap, "eos_token_id": eos, **means_of(method, model, [prompt])}
    with counted_forwards(model) as widths:
        result = samlib.generate(model, prompt, method=method, **options)
    check_counts(result, widths, method)


@EVERY_METHOD
@pytest.mark.parametrize("cap", [5, 20, 50])
def test_every_count_where_drafts_are_accepted(method, cap):
    model, options = cycle_model(), {"static": StaticAutomaton.build([cycle(0, 30)]), **means_of(method)}
    with counted_forwards(model) as widths:
        result = samlib.generate(model, CYCLE_PROMPT, method=method, max_new_tokens=cap, **options)
    check_counts(result, widths, method)


@pytest.mark.parametrize("size", [1, 2, 6, 30])
def test_an_autoregressive_step_emits_one_token(size):
    result = samlib.generate(cycle_model(), CYCLE_PROMPT, method="autoregressive", max_new_tokens=size)
    assert result.num_target_forwards == size
    assert [len(step.tokens) for step in result.steps] == [1] * (size - 1)
    assert size == 1 or result.mean_accepted_tokens == 1.0


def test_the_counts_of_a_known_request():
    """Prefill 4; then two drafts of four accepted whole with their bonus tokens, and a last one cut by the cap."""
    drafter = Scripted(lambda known, room: Draft.chain(cycle(known[-1] + 1, min(4, room)), "scripted"))
    result = samlib.generate(cycle_model(), CYCLE_PROMPT, drafter=drafter, max_new_tokens=13)
    assert [step.tokens for step in result.steps] == [[5, 6, 7, 0, 1], [2, 3, 4, 5, 6], [7, 0]]
    assert [(step.drafted, step.accepted, step.source) for step in result.steps] == [
        (4, 4, "scripted"),
        (4, 4, "scripted"),
        (1, 1, "scripted"),
    ]
    assert result.mean_accepted_tokens == pytest.approx(12 / 3)
    assert result.num_target_forwards == 4


def test_a_step_that_eos_cuts_counts_what_was_emitted():
    drafter = Scripted(lambda known, room: Draft.chain(cycle(known[-1] + 1, min(6, room)), "scripted"))
    result = samlib.generate(cycle_model(), CYCLE_PROMPT, drafter=drafter, max_new_tokens=20, eos_token_id=7)
    assert [(step.tokens, step.drafted, step.accepted) for step in result.steps] == [([5, 6, 7], 6, 3)]
    assert result.mean_accepted_tokens == 3.0


def test_steps_without_a_draft_count():
    """A draft at every second step only: half of the steps emit one token."""
    turns = []

    def propose(known, room):
        turns.append(1)
        return Draft.chain(cycle(known[-1] + 1, min(3, room)), "scripted") if len(turns) % 2 else Draft.empty()

    result = samlib.generate(cycle_model(), CYCLE_PROMPT, drafter=Scripted(propose), max_new_tokens=11)
    assert [len(step.tokens) for step in result.steps] == [4, 1, 4, 1]
    assert result.mean_accepted_tokens == 2.5
    assert [step.source for step in result.steps] == ["scripted", "none"] * 2


def test_the_drafter_is_told_everything():
    """The prompt once, then every emitted token in order, and for each verification its tokens and top logits."""
    drafter = Scripted(lambda known, room: draft_of([5, 30, 6], [-1, -1, 0]).clipped(room), top_k=3)
    result = samlib.generate(cycle_model(), CYCLE_PROMPT, drafter=drafter, max_new_tokens=9)
    assert drafter.begun == [CYCLE_PROMPT]
    assert [token for emitted, _ in drafter.observed for token in emitted] == result.tokens
    assert drafter.observed[0] == ([4], None)
    verified = drafter.observed[1][1]
    assert verified.tokens.tolist() == [4, 5, 30, 6]
    assert verified.top.shape == (4, 3)
    assert verified.top[:, 0].tolist() == [5, 6, 30, 7]


def test_no_top_logits_for_a_drafter_that_asks_for_none():
    drafter = Scripted(lambda known, room: Draft.empty())
    samlib.generate(cycle_model(), CYCLE_PROMPT, drafter=drafter, max_new_tokens=4)
    assert all(verified is None or verified.top is None for _, verified in drafter.observed)


# --- stream, timings, pickles -----------------------------------------------------------------------------------------


@EVERY_METHOD
def test_stream_yields_the_steps_of_generate(method):
    model, prompt = random_model(seed=3, initializer_range=0.1), random_prompt(5, 10)
    options = {"method": method, "static": corpus_of(model, [prompt], 20), "max_new_tokens": 30}
    options |= means_of(method, model, [prompt])
    streamed = list(samlib.stream(model, prompt, **options))
    assert streamed == samlib.generate(model, prompt, **options).steps


def test_stream_yields_each_step_as_it_is_verified():
    model = cycle_model()
    with counted_forwards(model) as widths:
        steps = samlib.stream(model, CYCLE_PROMPT, method="autoregressive", max_new_tokens=10)
        assert len(widths) == 0
        for number in range(1, 4):
            assert next(steps).tokens == cycle(4 + number, 1)
            assert len(widths) == 1 + number


def test_the_result_of_a_stream():
    steps = samlib.stream(cycle_model(), CYCLE_PROMPT, max_new_tokens=10)
    list(steps)
    whole = samlib.generate(cycle_model(), CYCLE_PROMPT, max_new_tokens=10)
    assert (steps.generation.tokens, steps.generation.finish_reason) == (whole.tokens, whole.finish_reason)


def test_two_streams_at_once_do_not_meddle():
    model = random_model()
    prompts = [random_prompt(seed, 8) for seed in (1, 2)]
    streams = [samlib.stream(model, prompt, max_new_tokens=20) for prompt in prompts]
    for pair in zip(*streams, strict=False):
        assert len(pair) == 2
    for prompt, running in zip(prompts, streams, strict=True):
        list(running)
        assert running.generation.tokens == samlib.generate(model, prompt, max_new_tokens=20).tokens


@EVERY_METHOD
def test_timings_add_up(method):
    result = samlib.generate(cycle_model(), CYCLE_PROMPT, method=method, max_new_tokens=20, **assets(method))
    timings = result.timings
    assert {"prefill", "draft", "verify", "update", "total"} <= set(timings)
    assert all(seconds >= 0 for seconds in timings.values())
    assert 0 < timings["prefill"] and 0 < timings["verify"]
    parts = sum(timings[phase] for phase in ("prefill", "draft", "verify", "update"))
    assert parts <= timings["total"] * 1.001


def test_what_the_caller_does_between_two_steps_is_not_counted(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(clock.time, "perf_counter", lambda: now[0])
    steps = samlib.stream(cycle_model(), CYCLE_PROMPT, method="autoregressive", max_new_tokens=5)
    for _ in steps:
        now[0] += 1000.0
    assert set(steps.generation.timings.values()) == {0.0}


@EVERY_METHOD
def test_results_pickle(method):
    result = samlib.generate(cycle_model(), CYCLE_PROMPT, method=method, max_new_tokens=12, **assets(method))
    copy = pickle.loads(pickle.dumps(result))
    assert copy == result
    assert pickle.loads(pickle.dumps(result.steps[0])) == result.steps[0]
    assert isinstance(result, samlib.Generation) and isinstance(result.steps[0], samlib.Step)


def test_tokens_are_plain_integers():
    result = samlib.generate(cycle_model(), CYCLE_PROMPT, max_new_tokens=12)
    assert {type(token) for token in result.tokens} == {int}
    assert {type(token) for step in result.steps for token in step.tokens} == {int}
    assert {type(count) for step in result.steps for count in (step.drafted, step.accepted)} == {int}
