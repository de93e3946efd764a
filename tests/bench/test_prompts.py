"""Chat prompts, documents of the index, repetition."""

import numpy as np
import pytest

from samlib.bench.prompts import answer_text, document_ids, prompt_ids, repeated_ngram_share
from samlib.bench.tiny import tiny_tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


def test_a_prompt_ends_where_the_assistant_begins(tokenizer):
    ids = prompt_ids(tokenizer, [{"role": "user", "content": "Hi"}])
    assert tokenizer.decode(ids) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert all(isinstance(token, int) for token in ids)


def test_a_second_turn_holds_the_first(tokenizer):
    chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}]
    longer = prompt_ids(tokenizer, [*chat, {"role": "user", "content": "Bye"}])
    assert longer[: len(prompt_ids(tokenizer, chat[:1]))] == prompt_ids(tokenizer, chat[:1])


def test_an_answers_text_has_no_special_tokens(tokenizer):
    ids = tokenizer("Yes<|im_end|>", add_special_tokens=False)["input_ids"]
    assert answer_text(tokenizer, ids) == "Yes"


def test_a_document_is_prompt_then_answer(tokenizer):
    ids = document_ids(tokenizer, "2+2?", "4")
    assert ids.dtype == np.int32
    assert tokenizer.decode(ids) == "2+2?4"


@pytest.mark.parametrize(
    ("answers", "share"),
    [
        ([], 0.0),
        ([[1] * 7], 0.0),  # too short for an 8-gram
        ([list(range(50))], 0.0),
        ([[1] * 20], 12 / 13),  # 13 8-grams, all but the first said before
        ([list(range(10)) * 2], 3 / 13),
        ([list(range(10)), list(range(10))], 0.0),  # turns are apart
    ],
)
def test_repeated_ngram_share(answers, share):
    assert repeated_ngram_share(answers) == pytest.approx(share)
