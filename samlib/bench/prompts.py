"""From questions to token ids, and from texts to documents."""

import numpy as np


def prompt_ids(tokenizer, messages):
    """The ids of a chat ([{"role", "content"}, …]) up to where the assistant begins to speak, as list[int]."""
    encoded = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)
    return list(encoded["input_ids"])


def answer_text(tokenizer, ids):
    """The text of generated ids, special tokens left out."""
    return tokenizer.decode(ids, skip_special_tokens=True)


def document_ids(tokenizer, prompt, answer):
    """One document of the static index: prompt, then answer, as int32 ids.

    The two are tokenised apart because an answer begins at a fresh token in a chat, too.
    """
    ids = [*_plain(tokenizer, prompt), *_plain(tokenizer, answer)]
    return np.asarray(ids, dtype=np.int32)


def repeated_ngram_share(answers, n=8):
    """The share of an answer's n-grams that the same answer has already said, pooled over turns (0.0 with none)."""
    total = repeated = 0
    for ids in answers:
        grams = [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]
        total += len(grams)
        repeated += len(grams) - len(set(grams))
    return repeated / total if total else 0.0


def _plain(tokenizer, text):
    return tokenizer(text, add_special_tokens=False)["input_ids"]
