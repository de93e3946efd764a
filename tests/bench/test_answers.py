"""What is recorded of an answer: counts that agree with each other, by both decode loops."""

import pytest

from samlib.bench import load_model
from samlib.bench.answers import Contender, forward_clock, hf_answer
from samlib.bench.heads import head_options
from samlib.bench.prompts import prompt_ids
from samlib.bench.tables import Line

NEW_TOKENS = 20
TURN_FIELDS = {
    "prompt_tokens", "new_tokens", "forwards", "steps", "drafted", "accepted", "mat_emitted", "finish_reason",
    "timings", "prefill_saved", "sources", "output_sha256",
}  # fmt: skip


@pytest.fixture(scope="module")
def model_and_prompt():
    model, tokenizer = load_model("smoke")
    return model, prompt_ids(tokenizer, [{"role": "user", "content": "one two one two one"}])


@pytest.mark.parametrize(
    ("method", "options"),
    [("hf_generate", {}), ("hf_prompt_lookup", {"prompt_lookup_num_tokens": 10}), ("autoregressive", {}),
     ("pld", {"draft_size": 4}), ("token_recycling", {}), ("eagle2", {"depth": 2}), ("sam", {}), ("sam[t]", {})],
)  # fmt: skip
def test_every_method_gives_the_greedy_ids_and_counts_that_agree(model_and_prompt, method, options):
    model, ids = model_and_prompt
    assets = head_options("smoke", model, method)
    answer = Contender(Line("paper", method, options), model=model, assets=assets).answer(ids, NEW_TOKENS)
    turn = answer.turn
    assert answer.ids == hf_answer(model, ids, NEW_TOKENS).ids
    assert set(turn) == TURN_FIELDS
    assert turn["prompt_tokens"] == len(ids)
    assert turn["new_tokens"] == len(answer.ids) == 1 + turn["mat_emitted"]
    assert turn["forwards"] == 1 + turn["steps"]
    assert turn["mat_emitted"] == turn["accepted"] + turn["steps"]
    assert turn["accepted"] <= turn["drafted"]


def test_phases_are_part_of_the_total(model_and_prompt):
    model, ids = model_and_prompt
    for method in ("hf_generate", "sam[t]"):
        timings = Contender(Line("paper", method, {}), model=model).answer(ids, NEW_TOKENS).turn["timings"]
        phases = sum(timings[name] for name in ("prefill", "draft", "verify", "update"))
        assert 0 < timings["prefill"] < phases <= timings["total"]


def test_the_forward_clock_counts_and_leaves_no_hook(model_and_prompt):
    model, ids = model_and_prompt
    with forward_clock(model) as forwards:
        hf_answer(model, ids, 5)
    assert [width for width, _ in forwards] == [len(ids), 1, 1, 1, 1]
    hf_answer(model, ids, 5)
    assert len(forwards) == 5


def test_token_recycling_stays_warm_between_questions_and_reset_makes_it_cold(model_and_prompt):
    model, ids = model_and_prompt
    contender = Contender(Line("paper", "token_recycling", {}), model=model)
    cold, warm = (contender.answer(ids, NEW_TOKENS).turn["steps"] for _ in range(2))
    contender.reset()
    again = contender.answer(ids, NEW_TOKENS).turn["steps"]
    assert warm < cold == again


def test_sources_add_up_to_the_steps(model_and_prompt):
    model, ids = model_and_prompt
    contender = Contender(Line("paper", "token_recycling", {}), model=model)
    turn = [contender.answer(ids, NEW_TOKENS).turn for _ in range(2)][-1]
    assert sum(entry["steps"] for entry in turn["sources"].values()) == turn["steps"]
    assert sum(entry["emitted"] for entry in turn["sources"].values()) == turn["mat_emitted"]
    assert "token_recycling" in turn["sources"]
