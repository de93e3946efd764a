"""Conclusions say what was measured, and another measurement makes them say something else."""

from samlib.bench.automaton_table import automaton_rows
from samlib.bench.cost_table import cost_rows
from samlib.report import automaton_scale_findings, bullets, complexity_findings, cost_findings
from tests.bench.scale_records import scale_records
from tests.report.synthetic import complexity_frame, cost_curve


def test_a_flat_automaton_supports_the_claim():
    findings = complexity_findings(complexity_frame())
    assert findings[-1].startswith("This run supports the claim")
    assert any("n-gram scan goes from 50.0 µs at 1,000 tokens to 400.0 µs at 8,000 (8.0 times)" in f for f in findings)


def test_bullets_are_a_line_each():
    assert bullets(["One.", "Two."]) == "- One.\n- Two."


def test_a_growing_automaton_does_not():
    frame = complexity_frame()
    automaton = frame["structure"] == "automaton"
    frame.loc[automaton, "median_us"] = frame.loc[automaton, "length"] ** 0.5
    assert complexity_findings(frame)[-1].startswith("This run does not clearly support")


def test_the_automata_at_scale_are_told_beside_their_limits_peers_and_targets():
    build, draft, retriever, arctic, failed, targets = automaton_scale_findings(automaton_rows(scale_records()))
    assert "16,000,000 tokens is built at 2.6 million tokens a second (the machine allows about 18.6)" in build
    assert "takes 20 bytes a token, where the text alone takes 2; opening it takes 2 ms" in build
    assert "2.5 µs" in draft and "allows about 0.502" in draft
    assert retriever.startswith("Against DraftRetriever, both with 16,000,000 tokens, the ratios")
    assert retriever.endswith("build 1.6 (1.10 to 2.00), memory 1.5, draft 110 (100.00 to 120.00).")
    assert arctic.endswith("build 1.6 (1.10 to 2.00), memory not measured, draft not measured.")
    assert failed == "Not measured: ArcticInference: killed by SIGABRT: bad query."
    assert "are reached; missed: peak memory (95 B/token), step at 100000 against 1000 (1.6 times)." in targets


def test_without_a_missed_target_none_is_named():
    rows = automaton_rows([record for record in scale_records() if "peak" not in record["measurement"]])
    rows = rows[rows["measurement"] != "step at 100000 against 1000"]
    assert automaton_scale_findings(rows)[-1].endswith("none is missed.")


def test_the_cost_of_a_forward_is_told_by_context_and_beside_its_limits():
    main, other, memory, operations = cost_findings(cost_rows(cost_curve()))
    assert main == (
        "After 300 tokens, one token takes 50.0 ms; measured in that, verifying at once costs: 8 tokens 1.20, "
        "16 tokens 1.80, 61 tokens 4.00 (through plain layers: 55.0 ms, and then 1.82, 2.18, 5.09)."
    )
    assert other.startswith("After 900 tokens, one token takes 58.0 ms;")
    assert "500 MB of weights, and the cache, at 25.0 GB/s takes 20.5 ms; one token takes 2.4 times that." in memory
    assert "the operations of 8 tokens" in operations and "61 tokens take 1.2 times their limit." in operations


def test_without_kernels_and_limits_only_the_costs_are_told():
    rows = cost_rows(cost_curve())
    rows = rows[rows["way"] == "plain"].assign(memory_seconds=float("nan"))
    assert [finding.partition(";")[0] for finding in cost_findings(rows)] == [
        "After 300 tokens, one token takes 55.0 ms",
        "After 900 tokens, one token takes 65.0 ms",
    ]
