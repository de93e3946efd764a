"""A long random test of both automata against brute force: `python -m tests.automaton.fuzz --minutes 10 --seed 1`.

Every answer of both automata is compared after each piece of a text; see cases.py for what is drawn. Cases run in child
processes, a batch each, so that a crash or an endless loop is a finding like another. What fails is made smaller while
it still fails, and printed as a few lines of Python. Exit status 1 then, else 0.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from samlib import DynamicAutomaton, StaticAutomaton

from .cases import random_case
from .naive import NaiveDynamic, NaiveStatic, prefix_counts, tree_paths
from .vectorised import VectorisedDynamic, VectorisedStatic

BATCH = 100  # cases a child process
CASE_SECONDS = 60  # a case that takes longer counts as an endless loop
SHRINK_SECONDS = 60
SMALL = 40  # tokens up to which the numpy oracle is itself compared with the naive one
CHOICES = ("first", "latest", "frequent")


class Mismatch(AssertionError):
    """An answer that is not the oracle's."""


# --- one case -------------------------------------------------------------------------------------------------------


def check(case):
    """Compare every answer; returns how many. Raises Mismatch for the first that differs."""
    return _check_dynamic(case) if case.documents is None else _check_static(case)


def _check_dynamic(case):
    automata = [DynamicAutomaton(), DynamicAutomaton(occurrences=True)]
    for automaton in automata:
        automaton.extend(list(case.before))
        automaton.reset()
    oracle, naive, compared = VectorisedDynamic(), NaiveDynamic(), 0
    for piece in case.pieces:
        oracle.extend(piece)
        naive.extend(piece)
        if len(naive.text) <= SMALL:
            _same_oracles(
                oracle, naive.match_length, lambda choice: naive.draft(case.n, choice), naive.remainders(), case.n
            )
        for counted, automaton in enumerate(automata):
            automaton.extend(_piece(piece))
            _compare("len(automaton)", len(oracle.text), len(automaton))
            compared += _compare_answers("automaton", automaton, oracle, case.n, counted=bool(counted))
    for automaton in automata:
        automaton._check_invariants()
        _compare("automaton.num_states <= bound", True, automaton.num_states <= max(2 * len(case.text), 1))
    return compared


def _check_static(case):
    index = _through_a_file(StaticAutomaton.build([_form(document) for document in case.documents]), case.stored)
    _compare("len(index)", sum(map(len, case.documents)), len(index))
    _compare("index.num_documents", len(case.documents), index.num_documents)
    # The index has had no such check in every version.
    index._check_invariants()
    cursor, oracle = index.cursor(), VectorisedStatic(case.documents)
    cursor.advance(list(case.before))
    cursor.reset()
    naive = NaiveStatic(case.documents) if case.tokens <= SMALL else None
    compared, told = _compare_answers("cursor", cursor, oracle, case.n), []
    for piece in case.pieces:
        cursor.advance(_piece(piece))
        oracle.advance(piece)
        told += piece
        if naive:
            remainders = naive.remainders(told)
            draft = lambda choice: naive.draft(told, case.n, choice)  # noqa: E731, B023 - called before told changes
            _same_oracles(oracle, naive.match_length(told), draft, remainders, case.n)
        compared += _compare_answers("cursor", cursor, oracle, case.n)
    return compared


def _through_a_file(index, stored):
    if not stored:
        return index
    with tempfile.TemporaryDirectory(dir=_memory_folder()) as folder:
        path = Path(folder) / "case.sam"
        index.save(path)
        return StaticAutomaton.load(path, mmap=stored == "mapped", verify=True)  # a mapping outlives its file's name


def _memory_folder():
    """A folder in memory where there is one: thousands of files are written and flushed."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


FORMS = (list, tuple, lambda tokens: np.array(tokens, dtype=np.int32), lambda tokens: np.array(tokens, dtype=np.int64))


def _form(tokens):
    """The tokens in one of the forms that callers use, by their number; one alone is a list."""
    return FORMS[len(tokens) % len(FORMS) if len(tokens) > 1 else 0](tokens)


def _piece(tokens):
    """As `_form`, but one token alone is an int, as a decode loop hands it over."""
    return tokens[0] if len(tokens) == 1 else _form(tokens)


def _compare(question, expected, got):
    if expected != got:
        raise Mismatch(f"{question}: expected {expected}, got {got}")


def _compare_answers(name, automaton, oracle, n, *, counted=True):
    """All that can be asked at one point; returns how many questions that is."""
    _compare(f"{name}.match_length", oracle.match_length, automaton.match_length)
    for choice in CHOICES[: 2 if counted else 1]:
        question = f"{name}.draft({n}, choice={choice!r}).tolist()"
        _compare(question, oracle.draft(n, choice), automaton.draft(n, choice=choice).tolist())
    if not counted:
        return 2
    continuations = oracle.continuations()
    _compare_frequent(name, automaton, continuations, n)
    _compare_tree(name, automaton.draft_tree(n), oracle.match_length, continuations, n)
    return 5


def _compare_frequent(name, automaton, continuations, n):
    """Ties may be broken either way, so that the counts along the draft are what must be right."""
    draft = automaton.draft(n, choice="frequent").tolist()
    question = f"{name}.draft({n}, choice='frequent').tolist() == {draft}"
    counts, more = continuations.frequent_counts(draft)
    _compare(f"{question}, counts along it", [best for _, best in counts], [count for count, _ in counts])
    _compare(f"{question}, it ends early", False, len(draft) < n and bool(more))
    _compare(f"{question}, it is too long", False, len(draft) > n)
    if name == "cursor":
        _compare(f"{question}, tokens past the document", 0, len(draft) - len(counts))


def _compare_tree(name, tree, match_length, continuations, n):
    question = f"{name}.draft_tree({n})"
    paths = tree_paths(tree.tokens, tree.parents)
    _compare(f"{question}, two equal siblings in {paths}", len(paths), len(set(paths)))
    counts = [continuations.count(path) for path in paths]
    _compare(f"{question}, counts of {paths}", continuations.best_counts(n), counts)
    _compare(f"{question}.match_length", match_length, tree.match_length)


def _same_oracles(oracle, match_length, draft, remainders, n):
    """The fast oracle agrees with the naive one; where it does not, neither is worth asking."""
    _compare("the oracles' match lengths", match_length, oracle.match_length)
    for choice in CHOICES[:2]:
        _compare(f"the oracles' {choice} drafts", draft(choice), oracle.draft(n, choice))
    counts = prefix_counts(rest[:n] for rest in remainders)
    _compare("the oracles' counts", sorted(counts.values(), reverse=True)[:n], oracle.continuations().best_counts(n))


# --- in child processes ---------------------------------------------------------------------------------------------


def in_child(work):
    """Call `work(report)` in a child process, where `report(text)` sends a line: (lines, what ended it or "")."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _work_and_leave(work, writing)
    os.close(writing)
    with open(reading, encoding="utf-8") as lines:
        reported = lines.read().splitlines()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == -signal.SIGALRM:
        return reported, f"no answer within {CASE_SECONDS} s"
    return reported, f"the process died: {signal.strsignal(-status)}" if status < 0 else _ending(status, reported)


def _ending(status, reported):
    return "" if status == 0 else (reported[-1] if reported and status == 1 else f"the process ended with {status}")


def _work_and_leave(work, writing):
    """In the child: never returns. Status 1 and a last line for whatever is raised."""
    status = 0
    try:
        work(lambda text: os.write(writing, f"{text}\n".encode()))
    except BaseException as error:  # whatever it is, it belongs to the case
        os.write(writing, (f"{type(error).__name__}: {error}".replace("\n", " ") + "\n").encode())
        status = 1
    finally:
        os._exit(status)


def failure_of(case):
    """What goes wrong with a case, in one line, or "" if nothing does; run in a child process."""

    def work(_):
        signal.alarm(CASE_SECONDS)
        check(case)

    return in_child(work)[1]


def run_batch(seed, first, count, until):
    """Check cases first, first + 1, ...: (statistics as a Counter, number of the case that failed or None)."""

    def work(report):
        for number in range(first, first + count):
            if time.monotonic() > until:
                break
            case = random_case(seed, number)
            report(f"{number} {'dynamic' if case.documents is None else 'static'} {case.tokens} {bool(case.stored):d}")
            signal.alarm(CASE_SECONDS)
            report(f"answers {check(case)}")

    lines, ending = in_child(work)
    done, failed = Counter(), None
    for line in lines:
        failed = _count(done, line, failed)
    return done, failed if ending else None


def _count(done, line, number):
    """Add what a line of a batch reports; returns the number of the case that it is about."""
    words = line.split()
    if words[0] == "answers":
        done["answers"] += int(words[1])
    if not words[0].isdigit():
        return number
    done.update({"cases": 1, words[1]: 1, "tokens": int(words[2]), "through a file": int(words[3])})
    done["longest"] = max(done["longest"], int(words[2]))
    return int(words[0])


# --- making a failure smaller ---------------------------------------------------------------------------------------


def shrink(case, fails, seconds=SHRINK_SECONDS):
    """The smallest case found, greedily, for which `fails(case)` is still true."""
    until = time.monotonic() + seconds
    progress = True
    while progress:
        progress = False
        for smaller in simpler(case):
            if time.monotonic() > until:
                return case
            if fails(smaller):
                case, progress = smaller, True
                break
    return case


def simpler(case):
    """Cases with something left out, the largest omissions first, then with lower ids."""
    for change in ({"before": ()}, {"stored": ""}, {"cuts": ()}):
        if getattr(case, next(iter(change))):
            yield replace(case, **change)
    for documents in _shorter(case.documents or []):
        yield replace(case, documents=documents)
    for text in _shorter(case.text):
        yield replace(case, text=text, cuts=tuple(cut for cut in case.cuts if cut <= len(text)))
    for number, document in enumerate(case.documents or []):
        for less in _shorter(document):
            yield replace(case, documents=[*case.documents[:number], less, *case.documents[number + 1 :]])
    for field in ("before", "cuts"):
        for less in _shorter(list(getattr(case, field))):
            yield replace(case, **{field: tuple(less)})
    if case.n > 1:
        yield replace(case, n=1)
        yield replace(case, n=case.n // 2)
    yield from _relabelled(case)


def _shorter(sequence):
    """The sequence without a half, a quarter, … a single item of it."""
    size = len(sequence)
    step = size
    while step:
        for start in range(0, size, step):
            yield sequence[:start] + sequence[start + step :]
        step //= 2


def _relabelled(case):
    """The case with its ids numbered from 0 in the order in which they appear, unless it is so already."""
    names = {}
    for token in [*(token for document in case.documents or () for token in document), *case.text, *case.before]:
        names.setdefault(token, len(names))
    if any(token != name for token, name in names.items()):
        documents = case.documents and [[names[token] for token in document] for document in case.documents]
        text, before = [names[token] for token in case.text], tuple(names[token] for token in case.before)
        yield replace(case, documents=documents, text=text, before=before)


def reproduction(case, failure):
    """Lines of Python that need samlib alone, and what they should show."""
    pieces = [piece for piece in case.pieces if piece]
    if case.documents is None:
        occurrences = "occurrences=True" if "latest" in failure or "frequent" in failure or "tree" in failure else ""
        lines = ["from samlib import DynamicAutomaton", f"automaton = DynamicAutomaton({occurrences})"]
        told = "automaton.extend"
    else:
        lines = ["from samlib import StaticAutomaton", f"documents = {case.documents}"]
        lines += ["index = StaticAutomaton.build(documents)"]
        if case.stored:
            lines += [
                f'index.save("case.sam"); index = StaticAutomaton.load("case.sam", mmap={case.stored == "mapped"})'
            ]
        lines += ["cursor = index.cursor()"]
        told = "cursor.advance"
    if case.before:
        lines += [f"{told}({list(case.before)})", f"{told.partition('.')[0]}.reset()"]
    lines += [f"for piece in {pieces}:", f"    {told}(piece)"]
    return "\n".join([*lines, f"# {failure}"])


# --- the command ----------------------------------------------------------------------------------------------------


def fuzz(seed, *, minutes=None, cases=None):
    """Run until the time is over, the cases are done, or one fails: (statistics, number of the failed case or None)."""
    until = time.monotonic() + 60 * (minutes if minutes is not None else 10**6)
    total, number, failed = Counter(), 0, None
    while failed is None and time.monotonic() < until and (cases is None or number < cases):
        count = BATCH if cases is None else min(BATCH, cases - number)
        done, failed = run_batch(seed, number, count, until)
        longest = max(total["longest"], done["longest"])
        total.update(done)
        total["longest"] = longest
        number += count
    return total, failed


def explain(seed, number):
    """Print what fails in a case, as found and made smaller."""
    case = random_case(seed, number)
    failure = failure_of(case)
    if not failure:
        print(f"case {number} of seed {seed}: nothing fails")
        return 0
    print(f"FAILED: case {number} of seed {seed} ({case.tokens} tokens): {failure[:500]}", flush=True)
    small = shrink(case, lambda smaller: bool(failure_of(smaller)))
    print(f"made smaller ({small.tokens} tokens):\n\n{reproduction(small, failure_of(small))}\n")
    print(f"again: python -m tests.automaton.fuzz --seed {seed} --case {number}")
    return 1


def main(words=None):
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.automaton.fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, help="how long (default: 1, or until --cases are done)")
    parser.add_argument("--cases", type=int, help="how many cases at most")
    parser.add_argument("--seed", type=int, default=0, help="which cases (default: 0)")
    parser.add_argument("--case", type=int, help="only this case of the seed, made smaller if it fails")
    given = parser.parse_args(words)
    if given.case is not None:
        return explain(given.seed, given.case)
    minutes = 1 if given.minutes is None and given.cases is None else given.minutes
    start = time.monotonic()
    total, failed = fuzz(given.seed, minutes=minutes, cases=given.cases)
    print(f"seed {given.seed}, {time.monotonic() - start:.0f} s: " + ", ".join(f"{k} {v:,}" for k, v in total.items()))
    return 0 if failed is None else explain(given.seed, failed)


if __name__ == "__main__":
    sys.exit(main())
