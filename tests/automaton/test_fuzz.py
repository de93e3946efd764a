"""The fuzz itself: its oracles against the naive ones, what it finds and how it says so, and a run of it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, target
from hypothesis import strategies as st

from samlib import DynamicAutomaton, StaticAutomaton

from . import fuzz
from .cases import Case, random_case
from .naive import NaiveDynamic, NaiveStatic, prefix_counts
from .strategies import corpora_and_queries, texts
from .vectorised import VectorisedDynamic, VectorisedStatic

FOLDER = Path(__file__).resolve().parents[2]  # of the package `tests`


def run(*words):
    """The command line of the fuzz, in a process of its own: its output, after it has found nothing."""
    command = [sys.executable, "-m", "tests.automaton.fuzz", *words]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout


# --- the fast oracles are the naive ones ----------------------------------------------------------------------------


def best_counts(remainders, n):
    return sorted(prefix_counts(rest[:n] for rest in remainders).values(), reverse=True)[:n]


@given(text=texts(), n=st.integers(0, 20))
def test_the_fast_dynamic_oracle_is_the_naive_one(text, n):
    fast, naive = VectorisedDynamic(), NaiveDynamic()
    for token in text:
        fast.extend([token])
        naive.extend([token])
        assert fast.match_length == naive.match_length
    for choice in ("first", "latest"):
        assert fast.draft(n, choice) == naive.draft(n, choice)
    assert fast.continuations().best_counts(n) == best_counts(naive.remainders(), n)


@given(case=corpora_and_queries(), n=st.integers(0, 20))
def test_the_fast_static_oracle_is_the_naive_one(case, n):
    documents, query = case
    fast, naive = VectorisedStatic(documents), NaiveStatic(documents)
    for size in range(len(query) + 1):
        assert fast.match_length == naive.match_length(query[:size])
        fast.advance(query[size : size + 1])
    for choice in ("first", "latest"):
        assert fast.draft(n, choice) == naive.draft(query, n, choice)
    assert fast.continuations().best_counts(n) == best_counts(naive.remainders(query), n)


@given(case=corpora_and_queries(), path=st.lists(st.sampled_from([0, 1, 2, 7]), max_size=4))
def test_counts_along_a_path(case, path):
    documents, query = case
    oracle, naive = VectorisedStatic(documents), NaiveStatic(documents)
    oracle.advance(query)
    counts = prefix_counts(naive.remainders(query))
    assert oracle.continuations().count(path) == (counts[tuple(path)] if path else len(naive.remainders(query)))
    along, _ = oracle.continuations().frequent_counts(path)
    for depth, (taken, best) in enumerate(along):
        siblings = [n for other, n in counts.items() if len(other) == depth + 1 and list(other[:depth]) == path[:depth]]
        assert (taken, best) == (counts[tuple(path[: depth + 1])], max(siblings))


# --- hypothesis looks for the worst ---------------------------------------------------------------------------------


@given(text=texts(max_size=120), n=st.integers(1, 20))
def test_answers_where_the_automaton_is_largest(text, n):
    """Steered towards many states a token, which is where clones are made of clones."""
    automaton = DynamicAutomaton(occurrences=True)
    automaton.extend(text)
    target(automaton.num_states / max(len(text), 1), label="states a token")
    target(float(automaton.match_length), label="match length")
    assert fuzz.check(Case(None, text, tuple(range(0, len(text), 10)), n=n))


# --- what it finds, and how it says so ------------------------------------------------------------------------------


class DraftsTheLatest(DynamicAutomaton):
    """Wrong: its first draft is the latest one, where it can tell them apart."""

    def draft(self, n, *, choice="first"):
        try:
            return super().draft(n, choice="latest" if choice == "first" else choice)
        except ValueError:
            return super().draft(n, choice=choice)


class DiesOnTheTree(DynamicAutomaton):
    """Wrong: takes the process down when a draft tree follows a match of three tokens."""

    def draft_tree(self, n):
        if self.match_length >= 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().draft_tree(n)


@pytest.mark.parametrize(
    ("wrong", "seen", "tokens"),
    [(DraftsTheLatest, "choice='first'", 6), (DiesOnTheTree, "the process died: Killed", 6)],
)
def test_a_wrong_automaton_is_found_and_made_small(monkeypatch, capsys, wrong, seen, tokens):
    monkeypatch.setattr(fuzz, "DynamicAutomaton", wrong)
    assert fuzz.main(["--cases", "200", "--seed", "3"]) == 1
    shown = capsys.readouterr().out
    assert "from samlib import DynamicAutomaton" in shown and seen in shown
    assert int(shown.partition("made smaller (")[2].split()[0]) <= tokens
    assert "again: python -m tests.automaton.fuzz --seed 3 --case" in shown


def test_an_endless_loop_is_found(monkeypatch):
    monkeypatch.setattr(fuzz, "CASE_SECONDS", 1)
    monkeypatch.setattr(fuzz, "check", lambda case: signal.pause())
    assert fuzz.failure_of(Case(None, [1])) == "no answer within 1 s"


def test_a_failure_is_made_as_small_as_can_be():
    """Greedy omission finds the two tokens that matter, in both fields, and gives them small ids."""

    def fails(case):
        return any(len(set(document)) >= 2 for document in case.documents) and len(case.text) >= 1

    case = Case([[9, 9, 9], [5, 6, 7] * 10, []], [70, 80, 90], cuts=(1, 2), before=(4,), stored="mapped")
    small = fuzz.shrink(case, fails)
    assert (small.documents, len(small.text), small.cuts, small.before, small.stored) == ([[0, 1]], 1, (), (), "")


def test_the_reproduction_runs_with_samlib_alone():
    case = Case([[1, 2, 3], [1, 2, 4]], [1, 2], cuts=(1,), before=(4,))
    names = {}
    exec(fuzz.reproduction(case, "what failed"), names)
    assert names["cursor"].draft(1).tolist() == [3]
    assert isinstance(names["index"], StaticAutomaton)


def test_a_case_is_the_same_for_the_same_seed():
    assert random_case(4, 17) == random_case(4, 17) != random_case(5, 17)


def test_the_cases_are_of_all_kinds():
    cases = [random_case(0, number) for number in range(400)]
    static = [case for case in cases if case.documents is not None]
    documents = [document for case in static for document in case.documents]
    assert 100 < len(static) < 300
    assert [] in documents and any(len(document) == 1 for document in documents)
    assert any(len(set(map(tuple, case.documents))) < len(case.documents) for case in static)
    assert max(len(case.documents) for case in static) > 50
    assert max(case.tokens for case in cases) > 1000
    assert {case.stored for case in static} == {"", "mapped", "read"}
    assert max(max(case.text, default=0) for case in cases) > 2**30


# --- a run of it ----------------------------------------------------------------------------------------------------


def test_a_short_run_finds_nothing():
    assert "cases 300" in run("--cases", "300", "--seed", "1")


@pytest.mark.slow
def test_a_longer_run_finds_nothing():
    assert "answers" in run("--minutes", "1", "--seed", "2")
