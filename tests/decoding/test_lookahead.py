"""Lookahead in the decode loop: what is accepted is greedy's, whether it comes from the pool or from the window."""

import pytest

import samlib
from samlib.drafters.lookahead import Lookahead

from .models import (
    CYCLE_PROMPT,
    FAMILIES,
    Watched,
    counted_forwards,
    cycle,
    cycle_model,
    greedy,
    random_model,
    random_prompt,
)


class WindowOnly(Lookahead):
    """Remembers no n-gram, so that whatever is accepted stood in the window."""

    def _remember(self, first, rest):
        pass


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("make", [Lookahead, WindowOnly])
def test_trees_are_partly_accepted(family, attention, make):
    """On text that repeats itself; drafts branch at nearly every step."""
    accepted, drafter = 0, Watched(make(4, 4, 4))
    for seed in range(3):
        model = random_model(family, attention, seed=seed, initializer_range=0.1)
        prompt = random_prompt(seed, 12)
        result = samlib.generate(model, prompt, drafter=drafter, max_new_tokens=60)
        assert result.tokens == greedy(model, prompt, 60)
        accepted += sum(step.accepted for step in result.steps)
    assert accepted > 2
    assert sum(not draft.is_chain for draft in drafter.drafts) > 20


@pytest.mark.parametrize("make", [Lookahead, WindowOnly])
@pytest.mark.parametrize("eos", range(8))
def test_an_eos_among_the_accepted_ends_the_answer(make, eos):
    for size in range(11, 19):
        prompt = cycle(0, size)
        result = samlib.generate(cycle_model(), prompt, drafter=make(), max_new_tokens=40, eos_token_id=eos)
        assert result.tokens == greedy(cycle_model(), prompt, 40, eos_token_id=eos)
        assert (result.tokens.count(eos), result.finish_reason) == (1, "eos")


@pytest.mark.parametrize("make", [Lookahead, WindowOnly])
def test_some_eos_was_accepted_inside_a_draft(make):
    """The test above would show nothing if every EOS were a step's bonus token."""
    inside = 0
    for size in range(11, 19):
        for eos in range(8):
            options = {"drafter": make(), "max_new_tokens": 40, "eos_token_id": eos}
            steps = samlib.generate(cycle_model(), cycle(0, size), **options).steps
            inside += bool(steps) and steps[-1].accepted == len(steps[-1].tokens) < steps[-1].drafted
    assert inside > 5


@pytest.mark.parametrize("options", [{}, {"window": 1, "ngram": 2, "guesses": 1}, {"window": 3, "ngram": 3}])
def test_the_cap_is_exact_wherever_it_falls(options):
    """Near the end there is no room for the window, then none for a guess, and in a last step none for a draft."""
    model, rooms = cycle_model(), set()
    for cap in range(1, 31):
        with counted_forwards(model) as widths:
            result = samlib.generate(model, CYCLE_PROMPT, method="lookahead", max_new_tokens=cap, **options)
        assert result.tokens == cycle(4, cap)
        assert result.num_target_forwards == len(widths) <= cap
        rooms.add(len(result.steps[-1].tokens) if result.steps and result.steps[-1].drafted == 0 else 0)
    assert 1 in rooms  # some last step had room for its bonus token only
