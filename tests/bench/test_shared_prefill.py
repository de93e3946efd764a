"""One prefill for several requests: the ids are greedy decoding's, whatever was decoded from the same cache before."""

import numpy as np
import pytest

import samlib
from samlib.bench.answers import samlib_answer
from samlib.bench.shared_prefill import SharedPrefill
from samlib.decoding import TargetModel, served_by, target_for
from tests.decoding.models import counted_forwards, greedy, means_of, random_model, random_prompt

METHODS = ["autoregressive", "token_recycling", "sam[t]", "lookahead", "autoregressive"]
WITH_HEADS = ["eagle", "sam[e]", "token_recycling", "eagle2", "sam[e2]"]


@pytest.fixture
def shared():
    return SharedPrefill(random_model())


def answer(shared, prompt, method, size=30):
    drafter = samlib.make_drafter(method, model=shared.model, **means_of(method, shared.model))
    return samlib_answer(shared.model, prompt, size, drafter=drafter, prefill=shared)


def test_every_method_on_one_prompt_then_on_others(shared):
    """Trees and chains of other methods were written behind the prompt before: nothing of them is left."""
    for seed, size in [(0, 12), (1, 300), (0, 12), (2, 1)]:
        prompt = random_prompt(seed, size)
        expected = greedy(shared.model, prompt, 30)
        for method in METHODS + WITH_HEADS:
            assert answer(shared, prompt, method).ids == expected


def test_the_prompt_runs_once_and_its_time_counts_for_all(shared):
    prompt = random_prompt(3, 200)
    with counted_forwards(shared.model) as widths:
        turns = [answer(shared, prompt, method).turn for method in METHODS]
    assert widths.count(200) == 1
    first, *others = turns
    assert first["prefill_saved"] == 0.0
    for turn in others:
        assert 0.0 < turn["prefill_saved"] <= turn["timings"]["prefill"] < turn["timings"]["total"]
        assert turn["prefill_saved"] <= first["timings"]["prefill"]
        assert turn["forwards"] == 1 + turn["steps"]


def test_hidden_states_are_shared_too(shared):
    """The first method that needs them makes the prefill anew, with them; from then on nobody does."""
    prompt = random_prompt(3, 200)
    with counted_forwards(shared.model) as widths:
        turns = {method: answer(shared, prompt, method).turn for method in ["autoregressive", *WITH_HEADS]}
    assert widths.count(200) == 2
    assert [method for method, turn in turns.items() if turn["prefill_saved"] == 0.0] == ["autoregressive", "eagle"]
    for method, turn in turns.items():
        options = {"method": method, **means_of(method, shared.model)}
        alone = samlib.generate(shared.model, prompt, max_new_tokens=30, **options)
        assert turn["sources"].keys() == {step.source for step in alone.steps}
        assert (turn["drafted"], turn["accepted"]) == (
            sum(step.drafted for step in alone.steps),
            sum(step.accepted for step in alone.steps),
        )


def test_hidden_states_are_kept_from_the_start_where_requests_will_ask_for_them():
    shared, prompt = SharedPrefill(random_model(), hidden=True), np.array(random_prompt(9, 40), dtype=np.int32)
    with counted_forwards(shared.model) as widths:
        first, second = shared.prefill(prompt), shared.prefill(prompt, hidden=True)
    assert widths == [40] and first is second and second.hidden.shape[0] == 40
    expected = TargetModel(shared.model).prefill(prompt, hidden=True).hidden
    assert (second.hidden == expected).all()


def test_the_restored_cache_is_the_prompts_bit_for_bit(shared):
    prompt = np.array(random_prompt(4, 20), dtype=np.int32)
    answer(shared, prompt, "token_recycling")
    fresh = TargetModel(shared.model)
    choices = [target.prefill(prompt).choices for target in (shared, fresh)]
    assert choices[0] == choices[1] and shared.num_cached == fresh.num_cached == 20
    ours, theirs = (
        target.verify(choices[0][0], samlib.Draft.chain([5, 6, 7], "x")).logits for target in (shared, fresh)
    )
    assert (ours == theirs).all()


def test_a_prompt_that_begins_like_the_last_one_is_another_prompt(shared):
    prompt = random_prompt(5, 20)
    answer(shared, prompt, "autoregressive")
    for other in (prompt[:-1], [*prompt, 3], [*prompt[:-1], (prompt[-1] + 1) % 64]):
        assert answer(shared, other, "autoregressive").ids == greedy(shared.model, other, 30)


def test_forget_makes_the_next_prefill_anew(shared):
    prompt = random_prompt(6, 10)
    answer(shared, prompt, "autoregressive")
    shared.forget()
    assert answer(shared, prompt, "autoregressive").turn["prefill_saved"] == 0.0


def test_a_prefill_that_fails_is_not_gone_back_to(shared, monkeypatch):
    prompt = random_prompt(7, 10)
    answer(shared, prompt, "autoregressive")
    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="out of memory"):
        patch.setattr(TargetModel, "prefill", lambda *_: (_ for _ in ()).throw(RuntimeError("out of memory")))
        answer(shared, random_prompt(8, 10), "autoregressive")
    assert answer(shared, prompt, "autoregressive").ids == greedy(shared.model, prompt, 30)


def test_requests_are_served_by_it_only_within_its_context(shared):
    with shared.serving():
        assert target_for(shared.model) is shared
        assert type(target_for(random_model(seed=1))) is TargetModel
        with pytest.raises(RuntimeError, match="leave that with block first"), served_by(shared.model, TargetModel):
            pass
        assert target_for(shared.model) is shared
    assert type(target_for(shared.model)) is TargetModel
