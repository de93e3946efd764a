"""Where a request ends for want of room, and what is refused before any work."""

import copy

import numpy as np
import pytest
import torch
import transformers

import samlib
from samlib import Draft, StaticAutomaton

from .models import (
    CYCLE_PROMPT,
    HEADS,
    METHODS,
    VOCABULARY,
    Scripted,
    assets,
    counted_forwards,
    cycle,
    cycle_model,
    generation_defaults,
    greedy,
    means_of,
    random_model,
    random_prompt,
)

EVERY_METHOD = pytest.mark.parametrize("method", METHODS)
SIZE_OPTIONS = {method: ("draft_size",) for method in ("pld", "rest", "sam", "sam[t]", "suffix_decoding", "sam_auto")}
SIZE_OPTIONS |= {method: ("tree_size",) for method in ("token_recycling", "eagle", "eagle2")}
SIZE_OPTIONS |= {method: ("draft_size", "tree_size") for method in ("sam[e]", "sam[e2]")}


# --- max_new_tokens -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cap", range(10))
@pytest.mark.parametrize("size", [1, 3, 16])
@pytest.mark.parametrize("method", [*SIZE_OPTIONS])
def test_the_cap_is_exact_for_any_draft_size(method, size, cap):
    model, index = cycle_model(), StaticAutomaton.build([cycle(0, 40), [*cycle(0, 5), 9, 9, 9]])
    options = {name: size for name in SIZE_OPTIONS[method]} | {"static": index, "max_new_tokens": cap}
    options |= means_of(method)
    with counted_forwards(model) as widths:
        result = samlib.generate(model, CYCLE_PROMPT, method=method, **options)
    assert result.tokens == cycle(4, cap)
    assert result.num_target_forwards == len(widths) <= cap
    assert result.finish_reason == "length"
    assert all(width <= size + 1 for width in widths[1:])


@EVERY_METHOD
def test_no_new_tokens_means_no_work(method):
    model = cycle_model()
    with counted_forwards(model) as widths:
        result = samlib.generate(model, CYCLE_PROMPT, method=method, max_new_tokens=0, **assets(method))
    assert (result.tokens, result.steps, result.num_target_forwards, widths) == ([], [], 0, [])
    assert list(samlib.stream(model, CYCLE_PROMPT, method=method, max_new_tokens=0, **assets(method))) == []


@pytest.mark.parametrize("cap", range(1, 14))
def test_a_draft_is_never_deeper_than_the_room(cap):
    """Even a drafter that ignores its room is clipped to it, chain or tree."""
    deep = Draft.chain(cycle(5, 40), "scripted")
    bushy = Draft(np.repeat(deep.tokens, 2), np.repeat(np.arange(-2, 78, 2), 2).clip(-1).astype(np.int32), "scripted")
    for draft in (deep, bushy):
        model = cycle_model()
        with counted_forwards(model) as widths:
            result = samlib.generate(model, CYCLE_PROMPT, drafter=Scripted(lambda *_, d=draft: d), max_new_tokens=cap)
        assert result.tokens == cycle(4, cap)
        assert sum(widths[1:]) <= 2 * cap
    # accepted whole, so that the cap falls into the first step
    assert len(widths) == min(cap, 2)


# --- the model's context --------------------------------------------------------------------------------------------


@EVERY_METHOD
@pytest.mark.parametrize("prompt_size", [1, 11, 30, 61, 62, 63])
def test_the_context_is_filled_to_its_last_position(method, prompt_size):
    model, prompt = cycle_model(max_positions=64), cycle(0, prompt_size)
    options = {"static": StaticAutomaton.build([cycle(0, 40)]), **means_of(method)}
    with counted_forwards(model) as widths:
        result = samlib.generate(model, prompt, method=method, max_new_tokens=500, **options)
    assert result.tokens == cycle(prompt_size, 64 - prompt_size)
    assert result.finish_reason == "context"
    assert len(widths) == result.num_target_forwards


@EVERY_METHOD
def test_the_context_of_a_random_model(method):
    model, prompt = random_model("llama", "eager", max_positions=40, initializer_range=0.1), random_prompt(2, 12)
    result = samlib.generate(model, prompt, method=method, max_new_tokens=100, **assets(method, model, [prompt]))
    assert (result.tokens, result.finish_reason) == (greedy(model, prompt, 28), "context")


@pytest.mark.parametrize("family", ["gpt2", "gpt_neox", "gemma"])
def test_the_context_of_other_families(family):
    """GPT-2's positions are learnt, and named `n_positions`: there is none beyond the last."""
    model, prompt = random_model(family, max_positions=40), random_prompt(2, 12)
    for method in METHODS:
        result = samlib.generate(model, prompt, method=method, max_new_tokens=100, **assets(method, model, [prompt]))
        assert (result.tokens, result.finish_reason) == (greedy(model, prompt, 28), "context")


@EVERY_METHOD
def test_a_cap_below_the_context_is_a_matter_of_length(method):
    options = {"max_new_tokens": 3, **assets(method)}
    result = samlib.generate(cycle_model(max_positions=64), cycle(0, 60), method=method, **options)
    assert (len(result.tokens), result.finish_reason) == (3, "length")


@pytest.mark.parametrize("size", [64, 65, 200])
def test_a_prompt_that_leaves_no_room_is_refused(size):
    model = cycle_model(max_positions=64)
    with counted_forwards(model) as widths, pytest.raises(ValueError, match="64"):
        samlib.generate(model, cycle(0, size), max_new_tokens=5)
    assert widths == []


# --- forms of a prompt ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(list, id="list"),
        pytest.param(tuple, id="tuple"),
        pytest.param(lambda ids: [ids], id="one-row-list"),
        pytest.param(np.array, id="array"),
        pytest.param(lambda ids: np.array([ids], dtype=np.int32), id="one-row-array"),
        pytest.param(torch.tensor, id="tensor"),
        pytest.param(lambda ids: torch.tensor([ids]), id="one-row-tensor"),
        pytest.param(lambda ids: torch.tensor([ids], dtype=torch.int32), id="int32-tensor"),
    ],
)
def test_accepted_forms_of_a_prompt(form):
    given = form(CYCLE_PROMPT)
    before = copy.deepcopy(given)
    assert samlib.generate(cycle_model(), given, max_new_tokens=5).tokens == cycle(4, 5)
    assert np.array_equal(given, before), "the caller's prompt was changed"


@pytest.mark.parametrize(
    "mask", [None, [1] * 11, torch.ones(1, 11), torch.ones(11, dtype=torch.bool), np.ones((1, 11))]
)
def test_a_full_attention_mask_changes_nothing(mask):
    assert samlib.generate(cycle_model(), CYCLE_PROMPT, attention_mask=mask, max_new_tokens=5).tokens == cycle(4, 5)


# --- refusals -------------------------------------------------------------------------------------------------------

REFUSED = {
    "empty list": ([], {}, ValueError),
    "empty tensor": (torch.empty(1, 0, dtype=torch.long), {}, ValueError),
    "two rows": (torch.tensor([[1, 2], [3, 4]]), {}, ValueError),
    "two rows as lists": ([[1, 2], [3, 4]], {}, ValueError),
    "three dimensions": (torch.ones(1, 1, 3, dtype=torch.long), {}, ValueError),
    "left padding": (torch.tensor([[0, 1, 2]]), {"attention_mask": torch.tensor([[0, 1, 1]])}, ValueError),
    "right padding": ([1, 2, 0], {"attention_mask": [1, 1, 0]}, ValueError),
    "mask of another length": ([1, 2, 3], {"attention_mask": torch.ones(1, 4)}, ValueError),
    "negative cap": ([1, 2], {"max_new_tokens": -1}, ValueError),
    "cap that is no integer": ([1, 2], {"max_new_tokens": 2.5}, TypeError),
    "negative id": ([1, -2], {}, ValueError),
    "id beyond the vocabulary": ([1, 32], {}, ValueError),
    "text": ("hello", {}, TypeError),
    "floats": ([1.0, 2.0], {}, TypeError),
    "float tensor": (torch.tensor([[1.0, 2.0]]), {}, TypeError),
    "stop strings without tokenizer": ([1, 2], {"stop_strings": ["a"]}, ValueError),
    "unknown method": ([1, 2], {"method": "magic"}, ValueError),
    "no store for rest": ([1, 2], {"method": "rest"}, samlib.MissingAssetError),
    **{f"no head for {method}": ([1, 2], {"method": method}, samlib.MissingAssetError) for method in HEADS},
    "misspelt option": ([1, 2], {"draft_sise": 3}, TypeError),
    "option of another method": ([1, 2], {"method": "pld", "l_bias": 3}, TypeError),
    "EOS that is no integer": ([1, 2], {"eos_token_id": "x"}, TypeError),
    "EOS list of floats": ([1, 2], {"eos_token_id": [1.5]}, TypeError),
    "negative EOS": ([1, 2], {"eos_token_id": -3}, ValueError),
}


@pytest.mark.parametrize("call", [samlib.generate, samlib.stream])
@pytest.mark.parametrize("name", REFUSED)
def test_bad_requests_are_refused_before_any_work(name, call):
    """`stream` refuses at the call, not at the first step."""
    model = cycle_model()
    prompt, options, error = REFUSED[name]
    with counted_forwards(model) as widths, pytest.raises(error) as caught:
        call(model, prompt, **options)
    assert widths == []
    assert str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("eos", [None, 9, [9, 10]])
def test_leading_pad_ids_are_padding_if_the_pad_is_no_eos(eos):
    model = cycle_model()
    with generation_defaults(model, pad_token_id=3, eos_token_id=eos):
        with pytest.raises(ValueError, match="pad"):
            samlib.generate(model, [3, 3, 4, 5], max_new_tokens=4)
        assert samlib.generate(model, [4, 3, 4], max_new_tokens=2).tokens == [5, 6]
    with generation_defaults(model, pad_token_id=3, eos_token_id=[3, 9]):
        assert samlib.generate(model, [3, 3, 4, 5], max_new_tokens=2).tokens == [6, 7]


def test_a_drafter_and_options_for_one_do_not_go_together():
    with pytest.raises(TypeError, match="draft_size"):
        samlib.generate(cycle_model(), [1, 2], drafter=samlib.make_drafter("sam"), draft_size=4)


def with_config(**values):
    """A copy of the cycle model that claims something else of itself."""
    model = copy.deepcopy(cycle_model())
    for name, value in values.items():
        setattr(model.config, name, value)
    return model


def sliding_window_model():
    config = transformers.MistralConfig(
        vocab_size=32, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=32, sliding_window=8,
    )  # fmt: skip
    return transformers.MistralForCausalLM(config).eval()


def hybrid_window_model():
    """Sliding and full attention layers in turn."""
    config = transformers.Qwen2Config(
        vocab_size=32, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=32, use_sliding_window=True, sliding_window=8, max_window_layers=1,
    )  # fmt: skip
    return transformers.Qwen2ForCausalLM(config).eval()


def encoder_decoder_model():
    config = transformers.T5Config(vocab_size=32, d_model=32, d_kv=8, d_ff=32, num_layers=1, num_heads=4)
    return transformers.T5ForConditionalGeneration(config).eval()


def recurrent_model():
    config = transformers.MambaConfig(vocab_size=32, hidden_size=32, num_hidden_layers=1, state_size=4)
    return transformers.MambaForCausalLM(config).eval()


def local_attention_model():
    """Windows that are within the attention, unknown to the cache."""
    config = transformers.GPTNeoConfig(
        vocab_size=32, hidden_size=32, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]],
        window_size=4,
    )  # fmt: skip
    return transformers.GPTNeoForCausalLM(config).eval()


def alibi_model():
    config = transformers.BloomConfig(vocab_size=32, hidden_size=32, n_layer=1, n_head=4)
    return transformers.BloomForCausalLM(config).eval()


def phi3_model(**config):
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2}
    return transformers.Phi3ForCausalLM(
        transformers.Phi3Config(vocab_size=32, intermediate_size=32, pad_token_id=None, **sizes, **config)
    ).eval()


def longrope_model():
    """Its rotary frequencies change all at once when a sequence grows beyond 64 tokens."""
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 64}
    rope |= {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    return phi3_model(original_max_position_embeddings=64, rope_parameters=rope)


UNSUPPORTED = {
    "windows that the cache does not know": (local_attention_model, "local"),
    "sliding window of Phi-3": (lambda: phi3_model(sliding_window=8), "sliding|SlidingWindow"),
    "ALiBi": (alibi_model, "position_ids"),
    "rope that changes at a length": (longrope_model, "longrope.*fixed"),
    "rope that changes with the length": (
        lambda: with_config(rope_parameters={"rope_type": "dynamic", "factor": 2.0}),
        "dynamic.*fixed",
    ),
    "sliding window": (sliding_window_model, "sliding|SlidingWindow"),
    "sliding window in some layers": (hybrid_window_model, "sliding|SlidingWindow"),
    "flash attention": (lambda: with_config(_attn_implementation="flash_attention_2"), "flash_attention_2.*sdpa"),
    "flex attention": (lambda: with_config(_attn_implementation="flex_attention"), "flex_attention.*sdpa"),
    "encoder-decoder": (encoder_decoder_model, "encoder-decoder"),
    "recurrent": (recurrent_model, "Mamba"),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_models_are_refused_before_the_first_token(name):
    make_model, message = UNSUPPORTED[name]
    with pytest.raises(ValueError, match=message) as caught:
        samlib.generate(make_model(), [1, 2, 3], max_new_tokens=4)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("setting", [{"repetition_penalty": 1.3}, {"no_repeat_ngram_size": 2}, {"num_beams": 4}])
def test_settings_that_change_greedy_decoding_are_refused(setting):
    """`generate` would apply them, so ignoring them would not be lossless."""
    with generation_defaults(cycle_model(), **setting) as model, pytest.raises(ValueError, match=next(iter(setting))):
        samlib.generate(model, [1, 2, 3], max_new_tokens=4)


def test_ids_at_the_edge_of_the_vocabulary():
    assert samlib.generate(cycle_model(), [31], max_new_tokens=3).tokens == [31] * 3
    model = random_model()
    prompt = [0, VOCABULARY - 1] * 4
    assert samlib.generate(model, prompt, max_new_tokens=9).tokens == greedy(model, prompt, 9)
