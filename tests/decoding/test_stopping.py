"""EOS and stop strings, anywhere inside an accepted block."""

import pytest
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

import samlib
from samlib import Draft, StaticAutomaton

from .models import (
    CYCLE_PROMPT,
    METHODS,
    Scripted,
    assets,
    cycle,
    cycle_model,
    generation_defaults,
    greedy,
    letters,
    means_of,
    random_model,
    random_prompt,
)

EVERY_METHOD = pytest.mark.parametrize("method", METHODS)
INDEX = StaticAutomaton.build([cycle(0, 40)])


def whole_block(size):
    """A drafter whose drafts of `size` tokens the cycle model accepts whole."""
    return Scripted(lambda known, room: Draft.chain(cycle(known[-1] + 1, min(size, room)), "scripted"))


# --- EOS ------------------------------------------------------------------------------------------------------------


@EVERY_METHOD
@pytest.mark.parametrize("eos", [*range(8), [6], [1, 6], [7, 6, 0], [30, 31], (5,)])
def test_eos_ids(method, eos):
    """EOS is kept once, nothing follows it, and the earliest of several wins; ids that never come change nothing."""
    model = cycle_model()
    expected = greedy(model, CYCLE_PROMPT, 20, eos_token_id=list(eos) if isinstance(eos, tuple) else eos)
    options = {"static": INDEX, "max_new_tokens": 20, "eos_token_id": eos, **means_of(method)}
    result = samlib.generate(model, CYCLE_PROMPT, method=method, **options)
    stops = {eos} if isinstance(eos, int) else set(eos)
    assert result.tokens == expected
    assert result.finish_reason == ("eos" if stops & set(range(8)) else "length")
    assert stops.isdisjoint(result.tokens[:-1])


@pytest.mark.parametrize("method", [method for method in METHODS if method != "autoregressive"])
def test_some_eos_was_inside_a_draft(method):
    """The test above would show nothing if no draft reached past an EOS."""
    drafter = samlib.make_drafter(method, model=cycle_model(), static=INDEX, **means_of(method))
    prompt = cycle(0, 40)
    samlib.generate(cycle_model(), prompt, drafter=drafter, max_new_tokens=20)  # Token Recycling learns the cycle
    results = [
        samlib.generate(cycle_model(), prompt[:size], drafter=drafter, max_new_tokens=23, eos_token_id=6)
        for size in range(33, 40)
    ]
    assert any(step.drafted > len(step.tokens) == step.accepted for result in results for step in result.steps)


@EVERY_METHOD
@pytest.mark.parametrize("eos", [None, [], ()])
def test_no_eos_runs_to_the_cap(method, eos):
    with generation_defaults(cycle_model(), eos_token_id=6, pad_token_id=None) as model:
        options = {"max_new_tokens": 20, "eos_token_id": eos, **assets(method)}
        result = samlib.generate(model, CYCLE_PROMPT, method=method, **options)
    assert (result.tokens, result.finish_reason) == (cycle(4, 20), "length")


@EVERY_METHOD
@pytest.mark.parametrize("eos", [None, 6, [7, 6]])
def test_the_models_own_eos_is_the_default(method, eos):
    with generation_defaults(cycle_model(), eos_token_id=eos) as model:
        result = samlib.generate(model, CYCLE_PROMPT, method=method, max_new_tokens=20, **assets(method))
    assert result.tokens == (cycle(4, 20) if eos is None else [4, 5, 6])


@pytest.mark.parametrize("eos_place", range(9))
def test_eos_at_every_place_of_an_accepted_block(eos_place):
    """Prefill emits 4; the block after it is 5, 6, 7, 0, 1, 2 and the bonus token 3."""
    model, expected = cycle_model(), [*cycle(4, 1 + eos_place)]
    eos = expected[-1]
    result = samlib.generate(model, CYCLE_PROMPT, drafter=whole_block(6), max_new_tokens=30, eos_token_id=eos)
    assert result.tokens == expected[: expected.index(eos) + 1]
    assert result.finish_reason == "eos"
    assert len(result.tokens) == 1 + sum(len(step.tokens) for step in result.steps)
    assert all(step.accepted <= len(step.tokens) for step in result.steps)


def test_an_eos_in_a_rejected_branch_stops_nothing():
    drafter = Scripted(lambda known, room: Draft.chain([30, 30, 30][:room], "scripted"))
    result = samlib.generate(cycle_model(), CYCLE_PROMPT, drafter=drafter, max_new_tokens=9, eos_token_id=30)
    assert (result.tokens, result.finish_reason) == (cycle(4, 9), "length")


def test_an_eos_in_the_prompt_stops_nothing():
    result = samlib.generate(cycle_model(), [6, 6, 1, 2], max_new_tokens=9, eos_token_id=6)
    assert result.tokens == [3, 4, 5, 6]


@EVERY_METHOD
def test_eos_as_the_very_first_token(method):
    options = {"max_new_tokens": 9, "eos_token_id": 4, **assets(method)}
    result = samlib.generate(cycle_model(), CYCLE_PROMPT, method=method, **options)
    assert (result.tokens, result.steps, result.finish_reason) == ([4], [], "eos")


@EVERY_METHOD
def test_eos_at_the_last_token_of_the_cap(method):
    options = {"max_new_tokens": 3, "eos_token_id": 6, **assets(method)}
    result = samlib.generate(cycle_model(), CYCLE_PROMPT, method=method, **options)
    assert (result.tokens, result.finish_reason) == ([4, 5, 6], "eos")


# --- stop strings -----------------------------------------------------------------------------------------------------

STOPS = ["g", "fg", "efg", "a", "ha", "hab", ["c", "g"], ["zz", "fg"], ["zz"], "de", "cdef", ["fgh", "g"]]


@EVERY_METHOD
@pytest.mark.parametrize("stop", STOPS, ids=str)
def test_stop_strings_end_as_greedy_does(method, stop):
    """Stop strings of one token, of several, over the start of a block, and over the end of the prompt ("de")."""
    model, tokenizer = cycle_model(), letters()
    options = {"stop_strings": stop, "tokenizer": tokenizer}
    expected = greedy(model, CYCLE_PROMPT, 20, **options)
    options |= {"static": INDEX, "max_new_tokens": 20, **means_of(method)}
    result = samlib.generate(model, CYCLE_PROMPT, method=method, **options)
    assert result.tokens == expected
    assert result.finish_reason == ("length" if len(expected) == 20 else "stop")


@pytest.mark.parametrize("stop", ["g", "fg"])
@pytest.mark.parametrize("method", ["pld", "sam"])
def test_a_stop_string_inside_a_block_of_five(method, stop):
    options = {"draft_size": 5, "stop_strings": [stop], "tokenizer": letters()}
    result = samlib.generate(cycle_model(), CYCLE_PROMPT, method=method, max_new_tokens=16, **options)
    assert (result.tokens, result.finish_reason) == ([4, 5, 6], "stop")


@pytest.mark.parametrize("size", [1, 2, 5, 6, 7, 15])
@pytest.mark.parametrize("stop", ["e", "fgha", "ghabcdefgha"])
def test_stop_strings_longer_than_a_block(size, stop):
    options = {"stop_strings": stop, "tokenizer": letters()}
    expected = greedy(cycle_model(), CYCLE_PROMPT, 30, **options)
    result = samlib.generate(cycle_model(), CYCLE_PROMPT, drafter=whole_block(size), max_new_tokens=30, **options)
    assert (result.tokens, result.finish_reason) == (expected, "stop")


def test_the_earliest_of_eos_and_stop_string_wins():
    options = {"max_new_tokens": 20, "tokenizer": letters(), "drafter": whole_block(9)}
    first_eos = samlib.generate(cycle_model(), CYCLE_PROMPT, eos_token_id=5, stop_strings="g", **options)
    first_stop = samlib.generate(cycle_model(), CYCLE_PROMPT, eos_token_id=7, stop_strings="g", **options)
    assert (first_eos.tokens, first_eos.finish_reason) == ([4, 5], "eos")
    assert (first_stop.tokens, first_stop.finish_reason) == ([4, 5, 6], "stop")


def test_a_stop_string_in_the_prompt_stops_nothing():
    options = {"stop_strings": ["cd"], "tokenizer": letters()}
    expected = greedy(cycle_model(), CYCLE_PROMPT, 20, **options)
    assert samlib.generate(cycle_model(), CYCLE_PROMPT, max_new_tokens=20, **options).tokens == expected


@pytest.mark.parametrize("none", [None, []])
def test_no_stop_strings(none):
    result = samlib.generate(cycle_model(), CYCLE_PROMPT, stop_strings=none, max_new_tokens=20)
    assert result.tokens == cycle(4, 20)


@settings(max_examples=12)
@given(
    seed=st.integers(0, 5),
    stops=st.lists(st.text("abcghxyz", min_size=1, max_size=4), min_size=1, max_size=3),
    method=st.sampled_from(METHODS),
)
def test_stop_strings_inside_longer_tokens(seed, stops, method):
    """Tokens of several letters: a stop string may begin and end in their middle."""
    model, prompt = random_model(initializer_range=0.1), random_prompt(seed, 10, vocabulary=40)
    tokenizer = letters("ab", "abc", "gh", "xyz", "hx", "za", "cc", "bg", "yyy", "ax", "hz", "gg")
    options = {"stop_strings": stops, "tokenizer": tokenizer}
    expected = greedy(model, prompt, 24, **options)
    options |= assets(method, model, [prompt])
    assert samlib.generate(model, prompt, method=method, max_new_tokens=24, **options).tokens == expected


def test_the_fixture_spells_as_it_should():
    tokenizer = letters("gh")
    assert isinstance(tokenizer, transformers.PreTrainedTokenizerBase)
    assert tokenizer.decode([0, 7, 26, 1]) == "ahghb"
