"""A function in a process of its own: what it found comes back, and why it ended, whatever it did."""

import pytest

from samlib.bench.child import run_child


def test_results_come_back_and_what_it_prints_does_not():
    assert run_child("tests.bench.children:count", upto=3) == ([{"number": 0}, {"number": 1}, {"number": 2}], None)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("fail", "ValueError: no such thing"),
        ("abort", "killed by SIGABRT: thread panicked"),
        ("sleep", "took more than"),
    ],
)
def test_a_child_that_ends_early_gives_what_it_had_and_the_reason_in_one_line(name, reason):
    timeout = 5 if name == "sleep" else 60
    results, found = run_child(f"tests.bench.children:{name}", timeout=timeout)
    assert results == [{"number": 0}]
    assert found.startswith(reason) and "\n" not in found


def test_a_function_that_is_not_there_is_a_reason_too():
    results, reason = run_child("tests.bench.children:nothing")
    assert results == [] and "nothing" in reason
