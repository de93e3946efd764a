"""A request, checked: everything that can be refused is refused here, before any work."""

from dataclasses import dataclass

import numpy as np

from samlib.automaton.ids import as_ids

MODEL_EOS = object()


@dataclass(frozen=True)
class Request:
    """A checked request: the prompt (int32 array), when to stop, and how many new tokens there can be."""

    prompt: np.ndarray
    eos_ids: frozenset
    max_new_tokens: int
    context_room: int | None
    stop_strings: object
    tokenizer: object

    @property
    def limit(self):
        """Number of new tokens at most."""
        return self.max_new_tokens if self.context_room is None else min(self.max_new_tokens, self.context_room)

    @property
    def limit_reason(self):
        """The finish reason when the limit is reached."""
        return "length" if self.limit == self.max_new_tokens else "context"


def check_request(model, input_ids, *, attention_mask, max_new_tokens, eos_token_id, stop_strings, tokenizer):
    """Return the Request; ValueError or TypeError, with the remedy, for anything that cannot be honoured."""
    prompt = _one_row(input_ids)
    eos_ids = _eos_ids(model, eos_token_id)
    _refuse_padding(model, prompt, attention_mask, eos_ids)
    vocab_size = model.get_input_embeddings().weight.shape[0]
    if int(prompt.max()) >= vocab_size:
        raise ValueError(f"prompt id {int(prompt.max())} is not below the model's vocabulary size {vocab_size}")
    if isinstance(max_new_tokens, bool) or not hasattr(max_new_tokens, "__index__"):
        raise TypeError(f"max_new_tokens must be an integer, not {max_new_tokens!r}")
    if max_new_tokens < 0:
        raise ValueError(f"max_new_tokens must not be negative: {max_new_tokens}")
    if stop_strings and tokenizer is None:
        raise ValueError("stop_strings needs tokenizer=, the model's tokenizer, to find them in the tokens")
    room = _context_room(model, len(prompt))
    return Request(prompt, eos_ids, int(max_new_tokens), room, stop_strings, tokenizer)


def _one_row(input_ids):
    """The prompt as an int32 array of shape (n,), n >= 1."""
    if hasattr(input_ids, "detach"):
        input_ids = input_ids.detach().cpu().numpy()
    shape = np.shape(input_ids)
    if len(shape) == 2:
        if shape[0] != 1:
            raise ValueError(f"input_ids has {shape[0]} rows: samlib decodes one request at a time")
        input_ids = input_ids[0]
    prompt = as_ids(input_ids)
    if len(prompt) == 0:
        raise ValueError("the prompt is empty: give at least one token (for example the BOS id)")
    return prompt


def _eos_ids(model, eos_token_id):
    if eos_token_id is MODEL_EOS:
        eos_token_id = model.generation_config.eos_token_id
    if eos_token_id is None:
        return frozenset()
    return frozenset(as_ids(eos_token_id).tolist())


def _refuse_padding(model, prompt, attention_mask, eos_ids):
    if attention_mask is not None:
        mask = np.asarray(attention_mask.cpu() if hasattr(attention_mask, "cpu") else attention_mask)
        if mask.size != len(prompt):
            raise ValueError(f"attention_mask has {mask.size} entries for {len(prompt)} prompt tokens")
        if not mask.all():
            raise ValueError("attention_mask has zeros: give the prompt without padding")
    pad = model.generation_config.pad_token_id
    pad = getattr(model.config, "pad_token_id", None) if pad is None else pad
    own_eos = _eos_ids(model, MODEL_EOS)
    if pad is not None and int(prompt[0]) == pad and pad not in eos_ids | own_eos and attention_mask is None:
        raise ValueError(f"the prompt begins with the pad id {pad}: give it without padding")


def _context_room(model, prompt_length):
    """New tokens that fit behind the prompt into the model's positions; None where the model sets no limit."""
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if positions is None:
        return None
    if prompt_length >= positions:
        raise ValueError(
            f"the prompt has {prompt_length} tokens and the model {positions} positions: shorten the prompt"
        )
    return positions - prompt_length
