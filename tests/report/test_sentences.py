"""Conclusions say what was measured, and another measurement makes them say something else."""

from samlib.report import bullets, complexity_findings, table1_findings
from tests.report.synthetic import complexity_frame, table1_frame


def test_a_flat_automaton_supports_the_claim():
    findings = complexity_findings(complexity_frame())
    assert findings[-1].startswith("This run supports the claim")
    assert any("n-gram scan goes from 50.0 µs at 1,000 tokens to 400.0 µs at 8,000 (8.0 times)" in f for f in findings)


def test_a_growing_automaton_does_not():
    frame = complexity_frame()
    automaton = frame["structure"] == "automaton"
    frame.loc[automaton, "median_us"] = frame.loc[automaton, "length"] ** 0.5
    assert complexity_findings(frame)[-1].startswith("This run does not clearly support")


def test_the_order_is_compared_with_the_papers():
    frame = table1_frame()
    assert "the same order" in table1_findings(frame)[0]
    frame.loc[frame["method"] == "pld", "speedup"] = 9.0
    assert "PLD 9.00, SAM[T]" in table1_findings(frame)[0]
    assert "another order" in table1_findings(frame)[0]


def test_what_is_slower_is_named():
    frame = table1_frame()
    assert not any("Slower" in finding for finding in table1_findings(frame))
    slow = (frame["method"] == "sam") & (frame["task"] == "qa") & (frame["block"] == "paper")
    frame.loc[slow, ["speedup_low", "speedup", "speedup_high"]] = 0.5, 0.6, 0.7
    assert any(f.endswith("with the whole interval below 1: SAM (QA).") for f in table1_findings(frame))


def test_an_output_that_is_not_identical_is_never_passed_over():
    frame = table1_frame()
    assert table1_findings(frame)[-1] == "Every answer of every method is identical to greedy decoding."
    frame.loc[(frame["method"] == "pld") & (frame["task"] == "overall"), "identical"] = "29/30 + 1 near-tie"
    assert "PLD (paper) 29/30 + 1 near-tie, PLD (device) 29/30 + 1 near-tie" in table1_findings(frame)[-1]


def test_findings_survive_an_empty_block_and_a_missing_paper():
    frame = table1_frame()
    frame = frame[frame["block"] != "device"].assign(paper_speedup=float("nan"), paper_mat=float("nan"))
    findings = table1_findings(frame)
    assert "Sized to this device: nothing was measured." in findings
    assert bullets(findings).count("\n") == len(findings) - 1
