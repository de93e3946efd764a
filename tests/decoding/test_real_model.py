"""The default language model, on real prompts: ids equal to those of greedy decoding, for every method."""

from functools import cache

import pytest
import torch

import samlib
from samlib import paths

from .models import EAGER, METHODS

NEAR_TIE = 1e-3
NEW_TOKENS = 32
TASKS = ["qa", "math_reasoning", "translation"]
LATER = ("lookahead", "suffix_decoding", "eagle", "sam[e]")  # only where there is time
pytestmark = pytest.mark.model


def _slow(values):
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


@pytest.fixture(scope="module")
def target():
    """(model, tokenizer) of the profile `cpu`, from its folder; nothing is downloaded by a test."""
    from samlib.bench import load_model
    from samlib.bench.model import CHECKSUMS
    from samlib.bench.profiles import load_profile

    folder = paths.MODELS / load_profile("cpu").model
    if not (folder / CHECKSUMS).exists():
        pytest.skip(f"the default model is not in {folder.relative_to(paths.ROOT)}: ./run_all.sh fetches it")
    threads = torch.get_num_threads()
    yield load_model("cpu")
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def prompts(target):
    """One short question of each of three tasks, in the model's chat template."""
    from samlib.bench.data import load_questions

    tokenizer, questions = target[1], load_questions("cpu")
    chosen = [next(question for question in questions if question.category == task) for task in TASKS]
    return {question.category: _chat(tokenizer, question.turns[0]) for question in chosen}


def _chat(tokenizer, text):
    message = [{"role": "user", "content": text}]
    written = tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
    return tokenizer(written, add_special_tokens=False)["input_ids"]


@pytest.fixture(scope="module")
def answers(target, prompts):
    """Plain greedy `model.generate`, when asked for: task -> (new ids, the top two logits' gap at each)."""
    return cache(lambda task: _greedy_with_gaps(target[0], prompts[task]))


def _greedy_with_gaps(model, prompt):
    ids = torch.tensor([prompt])
    output = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=NEW_TOKENS,
        output_logits=True,
        return_dict_in_generate=True,
    )
    top = [logits[0].topk(2).values for logits in output.logits]
    return output.sequences[0, len(prompt) :].tolist(), [float(best - second) for best, second in top]


def assert_same(tokens, answer):
    """Equal ids; where they part, greedy's two best logits must have been a near-tie."""
    expected, gaps = answer
    if tokens != expected:
        place = next(i for i, pair in enumerate(zip(tokens, expected, strict=False)) if pair[0] != pair[1])
        assert gaps[place] < NEAR_TIE, f"differs at {place}, where the gap is {gaps[place]:.4f}"


@pytest.fixture(scope="module")
def store(target, prompts, answers):
    """A store over some tasks: each true answer and copies with wrong tokens, so that trees branch."""

    def build(*tasks):
        vocabulary, documents = len(target[1]), []
        for task in tasks:
            start, answer = prompts[task][-3:], answers(task)[0]
            wrong = [(token + 1) % vocabulary if place % 6 == 5 else token for place, token in enumerate(answer)]
            documents += [[*start, *answer], [*start, *wrong], [*start, *wrong]]
        return samlib.StaticAutomaton.build(documents, vocab_size=vocabulary)

    return cache(build)


@pytest.mark.parametrize("task", [TASKS[0], *_slow(TASKS[1:])])
@pytest.mark.parametrize("method", [*(method for method in METHODS if method not in LATER), *_slow(LATER)])
def test_every_method_equals_greedy(target, prompts, answers, store, method, task):
    static = store(task) if method == "rest" else None
    result = samlib.generate(target[0], prompts[task], method=method, static=static, max_new_tokens=NEW_TOKENS)
    assert_same(result.tokens, answers(task))


@pytest.mark.slow
@pytest.mark.parametrize("method", EAGER)
def test_static_drafts_equal_greedy(target, prompts, answers, store, method):
    accepted = 0
    for task, prompt in prompts.items():
        options = {"static": store(*TASKS), "max_new_tokens": NEW_TOKENS, **EAGER[method]}
        result = samlib.generate(target[0], prompt, method=method, **options)
        assert_same(result.tokens, answers(task))
        accepted += sum(step.accepted for step in result.steps if step.source == "static")
    assert accepted > 20


def test_the_models_own_eos_ends_an_answer(target):
    """A question with a short answer: the default EOS is the generation config's, as for `generate`."""
    model, tokenizer = target
    prompt = _chat(tokenizer, "Reply with the single word: yes")
    expected, _ = _greedy_with_gaps(model, prompt)
    result = samlib.generate(model, prompt, method="sam[t]", max_new_tokens=NEW_TOKENS)
    assert result.tokens == expected
    assert result.finish_reason == ("eos" if expected[-1] in _eos_ids(model) else "length")


def _eos_ids(model):
    eos = model.generation_config.eos_token_id
    return eos if isinstance(eos, list) else [eos]
