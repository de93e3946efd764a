"""Every public option has the effect that it promises: two extreme values, where they must differ."""

import inspect

import pytest

import samlib
from samlib import StaticAutomaton

from .models import CYCLE_PROMPT, HEADS, METHODS, assets, cycle, cycle_model, means_of, random_model, random_prompt

INDEX = StaticAutomaton.build([cycle(0, 40)])
SAM = ["sam", "sam[t]", "sam[e]", "sam[e2]"]
AUXILIARIES = ("token_recycling", "eagle", "eagle2")


def run(method, *, static=None, prompt=CYCLE_PROMPT, cap=41, **options):
    options = means_of(method) | {"static": static, "max_new_tokens": cap} | options
    result = samlib.generate(cycle_model(max_positions=128), prompt, method=method, **options)
    assert result.tokens == cycle(prompt[-1] + 1, cap)
    return result


def steps_by_source(result):
    sources = [step.source for step in result.steps]
    return {source: sources.count(source) for source in set(sources)}


def test_the_method():
    forwards = {method: run(method, **assets(method)).num_target_forwards for method in METHODS}
    assert forwards["autoregressive"] == 41
    assert all(count < 41 for method, count in forwards.items() if method != "autoregressive")


@pytest.mark.parametrize("method", ["pld", "rest", *SAM, "suffix_decoding", "sam_auto"])
def test_draft_size(method):
    small, large = (run(method, draft_size=size, **assets(method)) for size in (1, 16))
    assert all(len(step.tokens) <= 2 for step in small.steps if step.source not in AUXILIARIES)
    assert max(step.drafted for step in large.steps) > 5
    assert large.num_target_forwards < small.num_target_forwards


def test_max_ngram():
    """After [.., 9, 3] a 1-gram matches and a longer one does not; the longest that matches is reported."""
    prompt = [*cycle(0, 20), 9, 3]
    matches = {n: run("pld", prompt=prompt, max_ngram=n, cap=30).steps for n in (1, 3)}
    assert {step.match_length for step in matches[1] if step.drafted} == {1}
    assert max(step.match_length for step in matches[3] if step.drafted) == 3


@pytest.mark.parametrize("method", SAM)
def test_l_threshold(method):
    low, high = run(method, static=INDEX, l_threshold=1), run(method, static=INDEX, l_threshold=1000)
    assert {"dynamic", "static"} & set(steps_by_source(low))
    assert not {"dynamic", "static"} & set(steps_by_source(high))
    assert run("sam", static=INDEX, l_threshold=1000).num_target_forwards == 41


@pytest.mark.parametrize("method", SAM)
def test_l_bias(method):
    static_first = run(method, static=INDEX, l_bias=-1000, l_threshold=1)
    dynamic_first = run(method, static=INDEX, l_bias=1000, l_threshold=1)
    assert static_first.steps[0].source == "static"
    assert "static" not in steps_by_source(dynamic_first)


@pytest.mark.parametrize("method", SAM)
def test_static_index(method):
    prompt = [1, 2, 3, 4, 5, 6, 7, 0, 1, 2]  # read once only, so that the dynamic match is the shorter one
    options = {"prompt": prompt, "l_bias": 0, "l_threshold": 1}
    assert "static" in steps_by_source(run(method, static=INDEX, **options))
    assert "static" not in steps_by_source(run(method, **options))


def never_retrieval(method):
    """Options under which the auxiliary drafter alone drafts."""
    return {"l_threshold": 1000} if method in SAM else {}


@pytest.mark.parametrize("method", ["token_recycling", "sam[t]", *HEADS])
def test_tree_size(method):
    options = never_retrieval(method)
    small, large = run(method, tree_size=1, **options), run(method, tree_size=25, **options)
    assert max(step.drafted for step in small.steps) == 1
    assert max(step.drafted for step in large.steps) > 8
    assert large.num_target_forwards < small.num_target_forwards


@pytest.mark.parametrize("method", ["token_recycling", "sam[t]"])
def test_k(method):
    options = never_retrieval(method)
    narrow, wide = run(method, k=1, **options), run(method, k=8, **options)
    assert max(step.drafted for step in narrow.steps) <= 5 < max(step.drafted for step in wide.steps)


@pytest.mark.parametrize("method", ["eagle2", "sam[e2]"])
def test_depth(method):
    flat, deep = (run(method, depth=depth, **never_retrieval(method)) for depth in (1, 7))
    assert max(step.accepted for step in flat.steps) == 1 and max(step.accepted for step in deep.steps) == 7


@pytest.mark.parametrize("method", ["eagle2", "sam[e2]"])
def test_top_k(method):
    narrow, wide = (run(method, top_k=top_k, **never_retrieval(method)) for top_k in (1, 10))
    assert max(step.drafted for step in narrow.steps) == 6 and max(step.drafted for step in wide.steps) == 59


@pytest.mark.parametrize("method", HEADS)
def test_vocabulary(method):
    """Without the cycle's own tokens nothing that is drafted is right."""
    of_cycle, of_others = (
        run(method, vocabulary=ids, **never_retrieval(method)) for ids in (range(8), list(range(8, 32)))
    )
    assert max(step.accepted for step in of_cycle.steps) == (6 if "2" in method else 5)
    assert not any(step.accepted for step in of_others.steps) and of_others.num_target_forwards == 41


@pytest.mark.parametrize("method", HEADS)
def test_head(method):
    """A random head and one that knows what the model answers."""
    model, prompt = random_model(initializer_range=0.1), random_prompt(1, 12)
    ignorant, taught = (
        samlib.generate(model, prompt, method=method, max_new_tokens=30, **means_of(method, model, prompts))
        for prompts in ((), [prompt])
    )
    assert taught.tokens == ignorant.tokens
    assert sum(step.accepted for step in taught.steps if step.source in AUXILIARIES) > 10
    assert taught.num_target_forwards < ignorant.num_target_forwards


@pytest.mark.parametrize(
    ("method", "option", "small", "large"),
    [
        ("rest", "max_ngram", 2, 16),
        ("rest", "min_ngram", 1, 14),
        ("rest", "continuation", 1, 10),
        ("lookahead", "window", 1, 7),
        ("lookahead", "ngram", 2, 5),
        ("suffix_decoding", "max_spec_factor", 0.25, 4.0),
        ("suffix_decoding", "min_token_prob", 0.0, 1.0),
        ("suffix_decoding", "max_match_length", 1, 16),
    ],
)
def test_the_other_options_change_what_is_drafted(method, option, small, large):
    """What exactly each does, the drafters' own tests say; here, that it arrives."""
    index = StaticAutomaton.build([cycle(0, 40), [*cycle(0, 3), 9, 9, 9, 9]])
    of_small, of_large = (run(method, static=index, **{option: value}).steps for value in (small, large))
    assert [(step.drafted, step.match_length) for step in of_small] != [
        (step.drafted, step.match_length) for step in of_large
    ]


@pytest.mark.parametrize("method", METHODS)
def test_a_misspelt_option_is_an_error(method):
    for misspelt in ("draftsize", "l_treshold", "thershold"):
        with pytest.raises(TypeError, match=misspelt):
            run(method, **{misspelt: 3})


def test_a_ready_drafter_is_used():
    drafter = samlib.make_drafter("pld", draft_size=2)
    result = samlib.generate(cycle_model(), CYCLE_PROMPT, drafter=drafter, max_new_tokens=20)
    assert max(step.drafted for step in result.steps) == 2
    assert set(steps_by_source(result)) <= {"pld", "none"}


def test_the_default_method_is_sam_auto():
    found = samlib.generate(cycle_model(max_positions=128), CYCLE_PROMPT, max_new_tokens=41, **means_of("sam_auto"))
    assert found.steps == run("sam_auto").steps


def test_generate_and_stream_show_the_same_arguments():
    """As a notebook shows them on a question mark: every name and its default, none behind a `**`."""
    shown = inspect.signature(samlib.generate)
    assert shown == inspect.signature(samlib.stream)
    assert list(shown.parameters)[:2] == ["model", "input_ids"]
    assert shown.parameters["method"].default == "sam_auto"
    assert shown.parameters["max_new_tokens"].default == 128
    assert list(shown.parameters)[-1] == "drafter_options"
