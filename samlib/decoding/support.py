"""Which models and settings decode losslessly here; everything else is refused before the first token."""

import inspect

from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

ATTENTION = ("sdpa", "eager")
# Settings of a generation config that change what greedy decoding returns, and their neutral values.
_NEUTRAL = {
    "num_beams": (None, 1),
    "repetition_penalty": (None, 1.0),
    "encoder_repetition_penalty": (None, 1.0),
    "no_repeat_ngram_size": (None, 0),
    "min_length": (None, 0),
    "min_new_tokens": (None, 0),
    "bad_words_ids": (None,),
    "sequence_bias": (None,),
    "suppress_tokens": (None, []),
    "begin_suppress_tokens": (None, []),
    "forced_bos_token_id": (None,),
    "forced_eos_token_id": (None,),
    "exponential_decay_length_penalty": (None,),
    "guidance_scale": (None, 1.0),
}


def check_supported(model):
    """Raise ValueError, naming the remedy, unless `model` is a full-attention decoder that samlib can verify with.

    Full attention in every layer with a DynamicCache, attention `sdpa` or `eager`, positions given by `position_ids`,
    and a generation config that leaves greedy decoding alone. Returns the number of layers with keys and values.
    """
    name = type(model).__name__
    if getattr(model.config, "is_encoder_decoder", False):
        raise ValueError(f"{name} is an encoder-decoder model: samlib decodes decoder-only models")
    attention = getattr(model.config, "_attn_implementation", None)
    if attention not in ATTENTION:
        raise ValueError(
            f"{name} uses attention {attention!r}, which has no tree mask: "
            f"load it with attn_implementation='sdpa' or 'eager'"
        )
    num_layers = _check_layers(model, name)
    _check_forward(model, name)
    _check_positions(model, name)
    _check_generation_config(model, name)
    return num_layers


def _check_layers(model, name):
    """Sliding-window, recurrent and hybrid layers lose what a rejected draft overwrote."""
    layers = DynamicCache(config=model.config).layers
    other = sorted({type(layer).__name__ for layer in layers if type(layer) is not DynamicLayer})
    # GPT-Neo's windows are within its attention, and its cache does not know of them
    other += sorted(set(getattr(model.config, "attention_layers", ())) - {"global"})
    if other:
        raise ValueError(f"{name} has layers without full attention ({', '.join(other)}): not supported yet")
    return len(layers)


def _check_forward(model, name):
    parameters = inspect.signature(model.forward).parameters
    if "position_ids" not in parameters or getattr(model.config, "alibi", False):
        raise ValueError(f"{name} takes no position_ids, so that a draft tree cannot be placed: not supported")
    if not {"cache", "past_key_values"} & set(parameters):
        raise ValueError(f"{name} takes no KV cache: not supported")


def _check_positions(model, name):
    """Rotary frequencies that change with the length so far would be those of a draft's end for the whole draft."""
    parameters = getattr(model.config.get_text_config(), "rope_parameters", None) or {}
    kinds = [parameters, *(value for value in parameters.values() if isinstance(value, dict))]
    changing = sorted({kind.get("rope_type") for kind in kinds} & {"dynamic", "longrope"})
    if changing:
        raise ValueError(
            f"{name} has rotary frequencies that change with the length ({changing[0]}), so that a draft would change "
            f"the output: not supported; use a variant of the model with fixed ones"
        )


def _check_generation_config(model, name):
    for setting, neutral in _NEUTRAL.items():
        value = getattr(model.generation_config, setting, None)
        if value not in neutral:
            raise ValueError(
                f"{name}'s generation_config sets {setting}={value!r}, which samlib does not apply: "
                f"set model.generation_config.{setting} = {neutral[-1]!r} to decode without it"
            )
