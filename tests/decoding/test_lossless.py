"""In float32 every method returns the ids of plain greedy `model.generate`."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import samlib
from samlib import Draft, StaticAutomaton
from samlib.decoding.step_cost import StepCost

from .models import (
    EAGER,
    FAMILIES,
    HEADS,
    METHODS,
    VOCABULARY,
    Scripted,
    Watched,
    assets,
    corpus_of,
    cycle_model,
    draft_of,
    greedy,
    means_of,
    random_model,
    random_prompt,
)

NEAR_TIE = 1e-3
WARM = ("token_recycling", "sam[t]", "sam_auto")  # what they learn from a request serves the next one
COPYING = ("sam[t]", "sam[e]", "sam[e2]")  # they copy chains from the static store


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", METHODS)
def test_families_and_attentions(family, attention, method):
    """Sixty-four tokens each; weights wide enough for varied text, and narrow enough for text that repeats itself."""
    accepted = 0
    for seed, width in [(0, 0.3), (1, 0.1)]:
        model = random_model(family, attention, seed=seed, initializer_range=width)
        prompt = random_prompt(seed, 9) * 2
        result = samlib.generate(model, prompt, method=method, max_new_tokens=64, **assets(method, model, [prompt]))
        assert result.tokens == greedy(model, prompt, 64)
        accepted += sum(step.accepted for step in result.steps if step.source.startswith("eagle"))
    assert (accepted > 0) == (method in HEADS), "no token of the head was accepted, so that it was not tested"


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", EAGER)
def test_static_drafts_of_true_and_false_continuations(family, attention, method):
    """The store holds the true answers and what parts from them, so that its trees are partly right at every step."""
    model = random_model(family, attention)
    prompts = [random_prompt(seed, 8) for seed in range(4)]
    answers = [[*prompt, *greedy(model, prompt, 50)] for prompt in prompts]
    index = StaticAutomaton.build([*answers, *_near_copies(answers), *_forks(answers)])
    options = EAGER[method] | means_of(method, model)
    drafter, accepted = Watched(samlib.make_drafter(method, model=model, static=index, **options)), 0
    for prompt, answer in zip(prompts, answers, strict=True):
        result = samlib.generate(model, prompt, drafter=drafter, max_new_tokens=50)
        assert result.tokens == answer[len(prompt) :]
        accepted += sum(step.accepted for step in result.steps if step.source == "static")
    assert accepted > 20, "no static draft was accepted, so that nothing was tested"
    trees = [draft for draft in drafter.drafts if draft.source == "static" and not draft.is_chain]
    assert (len(trees) >= 4) == (method not in COPYING)


def _near_copies(answers):
    """Copies of the answers with every seventh token changed, at seven offsets."""
    return [
        [(token + 1) % VOCABULARY if (place + shift) % 7 == 0 else token for place, token in enumerate(answer)]
        for answer in answers
        for shift in range(7)
    ]


def _forks(answers):
    """The beginnings of each answer, of several lengths, and then one token that is wrong."""
    return [
        [*answer[:size], (answer[size] + 1) % VOCABULARY] for answer in answers for size in range(9, len(answer), 8)
    ]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_true_path_is_found_in_any_tree(family, attention):
    """Random trees that hide the true continuation among false branches: it is accepted whole, and nothing else."""
    model, prompt = random_model(family, attention), random_prompt(6, 10)
    answer = greedy(model, prompt, 60)
    rng = np.random.default_rng(7)
    hidden = []

    def propose(known, room):
        following = answer[len(known) - len(prompt) :][: min(room, int(rng.integers(0, 6)))]
        hidden.append(len(following))
        return _hide(following, rng)

    result = samlib.generate(model, prompt, drafter=Scripted(propose), max_new_tokens=60)
    assert result.tokens == answer
    assert [step.accepted for step in result.steps] == hidden
    assert max(hidden) == 5


def _hide(following, rng):
    """A tree of up to 25 nodes in random topological order that has `following` as one of its paths."""
    tokens, parents = [], []
    place = -1
    for token in [*following, None]:
        taken = {token}
        for _ in range(int(rng.integers(0, 4))):
            wrong = int(rng.integers(0, VOCABULARY))
            if token is not None and wrong not in taken:
                taken.add(wrong)
                tokens.append(wrong)
                parents.append(place)
        if token is not None:
            tokens.append(token)
            parents.append(place)
            place = len(tokens) - 1
    return draft_of(tokens, parents)


def test_bad_drafts_cost_time_only():
    """A drafter that is always wrong, and one that repeats one token on every branch."""
    model, prompt = random_model(), random_prompt(8, 10)
    answer = greedy(model, prompt, 30)
    wrong = Scripted(lambda known, room: Draft.chain([(known[-1] * 7 + 1) % VOCABULARY] * min(room, 12), "scripted"))
    same = Scripted(lambda known, room: draft_of([answer[0]] * 4, [-1, -1, 0, 1]).clipped(room))
    for drafter in (wrong, same):
        assert samlib.generate(model, prompt, drafter=drafter, max_new_tokens=30).tokens == answer


MANY = {
    "rest": {},
    "sam": {"l_bias": -5},
    "suffix_decoding": {"min_token_prob": 0.0, "max_spec_factor": 30.0},
    "sam_auto": {"cost": StepCost({1: 1.0})},  # a forward costs the same over any number of tokens
}


@pytest.mark.parametrize("method", MANY)
@pytest.mark.parametrize("draft_size", [1, 2, 3, 16, 64])
def test_static_trees_of_many_branches_and_of_long_ones(draft_size, method):
    """One context with 300 continuations, and one with five long branches, at any budget."""
    model, prompt = random_model(), random_prompt(9, 6)
    answer = greedy(model, prompt, 30)
    context = [*prompt[-2:], answer[0]]
    wide = [[*context, (other * 5) % VOCABULARY, other % VOCABULARY] for other in range(300)]
    long = [[*context, *answer[1:9], *range(branch, 40)] for branch in range(5)]
    index = StaticAutomaton.build([*wide, *long])
    options = {"static": index, "draft_size": draft_size, "max_new_tokens": 30, **MANY[method]}
    result = samlib.generate(model, prompt, method=method, **options)
    assert result.tokens == answer
    assert {"static"} <= {step.source for step in result.steps}
    assert max(step.drafted for step in result.steps) <= draft_size


def test_an_abandoned_stream_leaves_nothing_behind():
    model, prompt = random_model(initializer_range=0.1), random_prompt(1, 12)
    for method in METHODS:
        drafter = samlib.make_drafter(method, model=model, **assets(method, model, [prompt]))
        abandoned = samlib.stream(model, random_prompt(2, 12), drafter=drafter, max_new_tokens=30)
        next(abandoned)
        assert samlib.generate(model, prompt, drafter=drafter, max_new_tokens=30).tokens == greedy(model, prompt, 30)


def test_one_drafter_for_requests_in_a_row():
    """State of an older request must not show in a later one; ids stay those of greedy, warm or cold."""
    model = random_model(seed=2, initializer_range=0.1)
    prompts = [random_prompt(seed, 12) for seed in (1, 2, 1)]
    index = corpus_of(model, prompts[:2])
    for method in METHODS:
        options = {"static": index, **means_of(method, model, prompts)}
        drafter = samlib.make_drafter(method, model=model, **options)
        for prompt in prompts:
            warm = samlib.generate(model, prompt, drafter=drafter, max_new_tokens=40)
            assert warm.tokens == greedy(model, prompt, 40)
        drafter.reset()
        cold = samlib.generate(model, prompts[0], drafter=drafter, max_new_tokens=40)
        fresh = samlib.generate(model, prompts[0], method=method, max_new_tokens=40, **options)
        assert cold.steps == fresh.steps
        assert method in WARM or warm.steps == fresh.steps  # the third prompt is the first one


def test_suffix_decoding_drafts_from_both_sources():
    model, prompt = random_model(initializer_range=0.1), random_prompt(3, 12)
    answer = greedy(model, prompt, 60)
    index = StaticAutomaton.build([[*prompt[-2:], *answer[:20]], random_prompt(4, 30)])
    result = samlib.generate(model, prompt, method="suffix_decoding", static=index, max_new_tokens=60)
    assert result.tokens == answer
    assert {"dynamic", "static"} <= {step.source for step in result.steps}


def test_a_warm_token_recycling_drafts_from_the_first_step():
    model, prompt = cycle_model(), list(range(8))
    drafter = samlib.make_drafter("token_recycling")
    cold = samlib.generate(model, prompt, drafter=drafter, max_new_tokens=30)
    warm = samlib.generate(model, prompt, drafter=drafter, max_new_tokens=30)
    assert cold.steps[0].drafted == 0 < warm.steps[0].drafted
    assert warm.num_target_forwards < cold.num_target_forwards
    drafter.reset()
    assert samlib.generate(model, prompt, drafter=drafter, max_new_tokens=30).steps == cold.steps


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("method", METHODS)
def test_half_precision_differs_at_near_ties_only(dtype, method):
    """One-token and many-token passes round differently: at the first difference the two logits are close."""
    model = copy.deepcopy(random_model(seed=5)).to(dtype)
    for seed in range(3):
        prompt = random_prompt(seed, 10) * 2
        options = {"max_new_tokens": 40, **assets(method, model, [prompt])}
        found = samlib.generate(model, prompt, method=method, **options).tokens
        assert _gap_at_first_difference(model, prompt, found, greedy(model, prompt, 40)) < 0.1


def _gap_at_first_difference(model, prompt, found, expected):
    """How far the two tokens' logits are apart where the outputs first differ; 0 if they do not."""
    assert len(found) == len(expected)
    for place, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        if ours != theirs:
            with torch.no_grad():
                logits = model(torch.tensor([[*prompt, *expected[:place]]])).logits[0, -1].float()
            return abs(float(logits[ours] - logits[theirs]))
    return 0.0


RETRIEVAL = {"l_bias": st.integers(0, 5), "l_threshold": st.integers(0, 5)}
EAGLE = {"tree_size": st.integers(1, 25)}
EAGLE_2 = {"tree_size": st.integers(1, 80), "depth": st.integers(1, 7), "top_k": st.integers(1, 70)}
OPTIONS = {
    "autoregressive": st.just({}),
    "pld": st.fixed_dictionaries({"draft_size": st.integers(1, 12), "max_ngram": st.integers(1, 4)}),
    "token_recycling": st.fixed_dictionaries({"tree_size": st.integers(1, 60), "k": st.integers(1, 8)}),
    "sam": st.fixed_dictionaries(
        {"draft_size": st.integers(1, 40), "l_bias": st.integers(-3, 5), "l_threshold": st.integers(-1, 5)}
    ),
    "sam[t]": st.fixed_dictionaries(RETRIEVAL),
    "eagle": st.fixed_dictionaries(EAGLE),
    "eagle2": st.fixed_dictionaries(EAGLE_2),
    "sam[e]": st.fixed_dictionaries(RETRIEVAL | EAGLE),
    "sam[e2]": st.fixed_dictionaries(RETRIEVAL | EAGLE_2),
    "rest": st.fixed_dictionaries(
        {
            "draft_size": st.integers(1, 64),
            "max_ngram": st.integers(3, 16),
            "min_ngram": st.integers(1, 3),
            "continuation": st.integers(1, 12),
        }
    ),
    "lookahead": st.fixed_dictionaries(
        {"window": st.integers(1, 8), "ngram": st.integers(2, 6), "guesses": st.integers(1, 8)}
    ),
    "suffix_decoding": st.fixed_dictionaries(
        {
            "draft_size": st.integers(1, 64),
            "max_spec_factor": st.floats(0.2, 8),
            "min_token_prob": st.floats(0, 1),
            "max_match_length": st.integers(1, 64),
        }
    ),
    "sam_auto": st.fixed_dictionaries({"draft_size": st.integers(1, 64), "rate": st.floats(0, 10)}),
}


@settings(max_examples=160)
@given(data=st.data())
def test_any_request_equals_greedy(data):
    """Random prompts, methods, options, caps and EOS ids on small models."""
    seed, width = data.draw(st.sampled_from([(0, 0.3), (1, 0.12), (2, 0.08)]))
    model = random_model("llama", data.draw(st.sampled_from(["sdpa", "eager"])), seed=seed, initializer_range=width)
    token = st.integers(0, data.draw(st.sampled_from([1, 5, VOCABULARY - 1])))
    prompt = data.draw(st.lists(token, min_size=1, max_size=24))
    method = data.draw(st.sampled_from(METHODS))
    cap = data.draw(st.integers(1, 30))
    eos = data.draw(st.lists(st.integers(0, VOCABULARY - 1), max_size=12, unique=True))
    documents = data.draw(st.lists(st.lists(token, max_size=20), max_size=3))
    expected = greedy(model, prompt, cap, eos_token_id=eos or None)
    result = samlib.generate(
        model,
        prompt,
        method=method,
        static=StaticAutomaton.build([*documents, prompt + expected[:9]]),
        max_new_tokens=cap,
        eos_token_id=eos or None,
        **data.draw(OPTIONS[method]),
        **means_of(method, model),
    )
    if result.tokens != expected:
        assume(_gap_at_first_difference(model, prompt, result.tokens, expected) >= NEAR_TIE)
    assert result.tokens == expected
    assert result.finish_reason == ("eos" if expected[-1] in eos else "length")
