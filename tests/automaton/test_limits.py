"""Corpora that are too large, for 32-bit ids or for the memory: refused in time, in one line that says what to do.

The real limits are a billion tokens and this machine's memory, so the tests lower them.
"""

import numpy as np
import pytest

from samlib import StaticAutomaton
from samlib.automaton import static

LIMIT = 1000


@pytest.fixture()
def low_limit(monkeypatch):
    """No index of more than LIMIT tokens."""
    monkeypatch.setattr(static, "MAX_TOKENS", LIMIT)


@pytest.fixture()
def memory(monkeypatch):
    """A function that sets how many bytes are said to be free; None stands for a system that does not tell."""

    def set_to(free):
        monkeypatch.setattr(static, "available_memory", lambda: free)

    return set_to


def documents(count, size):
    """That many documents of random ids."""
    rng = np.random.default_rng(0)
    return [rng.integers(0, 50, size).astype(np.int32) for _ in range(count)]


def message_of(caught):
    """The one line of an error, without separators between thousands."""
    text = str(caught.value)
    assert "\n" not in text
    return text.replace(",", "").replace("_", "")


def check_works(index, tokens):
    """The index is whole: it holds all tokens and answers."""
    cursor = index.cursor()
    cursor.advance([1, 2])
    cursor.draft(5)
    assert len(index) == tokens


# --- 32-bit ids -----------------------------------------------------------------------------------------------------


def test_the_limit_is_that_of_positions_of_31_bits():
    assert 10**8 < static.MAX_TOKENS < 2**31


@pytest.mark.parametrize("shape", [(1, LIMIT), (10, LIMIT // 10), (LIMIT, 1)])
@pytest.mark.usefixtures("low_limit")
def test_a_corpus_of_just_the_limit_is_built(shape):
    check_works(StaticAutomaton.build(documents(*shape)), LIMIT)
    check_works(StaticAutomaton.build(iter(documents(*shape))), LIMIT)


@pytest.mark.parametrize("form", [list, iter], ids=["list", "iterator"])
@pytest.mark.parametrize("shape", [(1, LIMIT + 1), (11, LIMIT // 10), (LIMIT + 1, 1)])
@pytest.mark.usefixtures("low_limit")
def test_a_token_more_is_refused(form, shape):
    with pytest.raises(ValueError, match="split") as caught:
        StaticAutomaton.build(form(documents(*shape)))
    message_of(caught)


@pytest.mark.usefixtures("low_limit")
def test_empty_documents_count_for_nothing():
    check_works(StaticAutomaton.build([*documents(1, LIMIT), [], []]), LIMIT)


@pytest.mark.usefixtures("low_limit")
def test_an_endless_corpus_is_refused():
    """A generator tells no size: the limit is met while it runs."""
    taken = []

    def endless():
        while True:
            taken.append(1)
            yield [1, 2, 3, 4]

    with pytest.raises(ValueError, match="split"):
        StaticAutomaton.build(endless())
    assert len(taken) <= LIMIT


# --- memory ---------------------------------------------------------------------------------------------------------


def test_a_corpus_that_cannot_fit_is_refused_before_it_is_built(memory):
    """The message tells the size of the whole corpus, which is known only to who counted before building."""
    memory(1_000_000)
    with pytest.raises(MemoryError, match="memory") as caught:
        StaticAutomaton.build(documents(100, 2000))
    assert "200000" in message_of(caught)


def test_a_generator_that_cannot_fit_is_stopped_while_it_grows(memory):
    memory(1_000_000)
    taken = []

    def many():
        for document in documents(200, 10_000):
            taken.append(len(document))
            yield document

    with pytest.raises(MemoryError, match="memory") as caught:
        StaticAutomaton.build(many())
    assert len(taken) < 200
    assert any(character.isdigit() for character in message_of(caught))


@pytest.mark.parametrize("free", [None, 10**12])
@pytest.mark.parametrize("form", [list, iter], ids=["list", "iterator"])
def test_enough_memory_or_no_answer_lets_it_be_built(memory, free, form):
    memory(free)
    check_works(StaticAutomaton.build(form(documents(20, 100))), 2000)


@pytest.mark.parametrize("corpus", [[], [[]], [[1]], [[1, 2, 3]] * 5])
def test_a_small_corpus_is_built_whatever_is_free(memory, corpus):
    """A system that reports next to nothing, as some do in containers, must not stop what takes no memory."""
    memory(10**6)
    assert StaticAutomaton.build(corpus).num_documents == len(corpus)


def test_what_is_free_is_measured():
    free = static.available_memory()
    assert free is None or free > 2**20


def test_after_a_refusal_the_next_build_works(memory):
    memory(1_000_000)
    with pytest.raises(MemoryError):
        StaticAutomaton.build(documents(100, 2000))
    memory(None)
    check_works(StaticAutomaton.build(documents(100, 2000)), 200_000)
