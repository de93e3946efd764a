"""What the tables say: computed from the frame, and never more than the intervals allow."""

import numpy as np
import pandas as pd
import pytest

from samlib.report import LAYOUTS, TABLE1, TABLE2, TABLE3, save_table, table_findings
from tests.report.synthetic import not_run, table_frame

BOUNDS = ["speedup_low", "speedup", "speedup_high"]
NO_INTERVAL = {"speedup_low": np.nan, "speedup_high": np.nan}


def changed(frame, method, values, task="overall", block="paper"):
    """The frame with other interval bounds and speed-up in one cell."""
    frame = frame.copy()
    chosen = (frame["method"] == method) & (frame["task"] == task) & (frame["block"] == block)
    assert chosen.sum() == 1
    frame.loc[chosen, BOUNDS] = values
    return frame


def told(frame, layout, start):
    """The one finding that starts so."""
    (finding,) = [finding for finding in table_findings(frame, layout) if finding.startswith(start)]
    return finding


def test_the_highest_speedup_is_named_with_what_its_interval_allows():
    where = "Paper settings, Overall: the highest"
    frame = changed(table_frame(), "sam[t]", (2.5, 2.8, 3.1))
    text = told(frame, TABLE1, where)
    assert text.endswith(
        " speed-up is SAM[T]'s, 2.80 [2.50–3.10], faster than autoregressive decoding; "
        "the next is Token Recycling's, 2.18 [1.96–2.40] (its whole interval lies below)."
    )
    text = told(changed(table_frame(), "sam[t]", (2.3, 2.8, 3.3)), TABLE1, where)
    assert text.endswith("(the intervals overlap: the order is not certain).")
    text = told(changed(table_frame(), "sam[t]", (0.9, 2.8, 3.3)), TABLE1, where)
    assert "not certainly faster than autoregressive decoding (the interval includes 1)" in text


def test_without_intervals_nothing_is_certain():
    findings = table_findings(table_frame().assign(**NO_INTERVAL), TABLE1)
    assert "not certainly faster than autoregressive decoding (too few questions for an interval)" in findings[0]
    assert findings[0].endswith("(too few questions for intervals).")
    assert "intervals overlap or are missing" in findings[1]
    assert "warm beside cold: too few questions to tell." in findings[3]
    assert (
        "too few questions for intervals: whether a method is slower than autoregressive decoding is open."
        in findings[4]
    )


def test_a_run_in_which_nothing_is_faster_says_so():
    frame = table_frame()
    drafting = frame["method"] != "autoregressive"
    frame.loc[drafting, BOUNDS] *= 0.3
    text = told(frame, TABLE1, "Paper settings, Overall: the highest")
    assert "Token Recycling's, 0.65 [0.59–0.72], slower than autoregressive decoding;" in text


def test_the_reference_is_named_where_it_is_ahead():
    frame = changed(table_frame(), "hf_prompt_lookup", (2.9, 3.0, 3.1), block="reference")
    assert told(frame, TABLE1, "Paper settings, Overall: the highest").startswith(
        "Paper settings, Overall: the highest speed-up is Hugging Face prompt lookup's, 3.00"
    )


def test_the_order_is_compared_with_the_papers():
    where = "Paper settings, Overall: ordered"
    frame = table_frame()
    speeds = {"pld": 1.2, "token_recycling": 1.5, "sam": 1.6, "eagle": 1.9, "sam[t]": 2.0}
    for method, speedup in (speeds | {"sam[e]": 2.3, "eagle2": 2.4, "sam[e2]": 2.5}).items():
        frame = changed(frame, method, (speedup - 0.01, speedup, speedup + 0.01))
    text = told(frame, TABLE1, where)
    assert "SAM[E] 2.30, SAM[T] 2.00, EAGLE 1.90, SAM 1.60, Token Recycling 1.50, PLD 1.20; in the paper" in text
    assert "; in the paper SAM[E2] 2.58, EAGLE-2 2.38, SAM[E] 2.35, " in text
    assert text.endswith("the same order, all intervals apart.")  # where the paper has two equal, either may be ahead
    assert told(changed(frame, "pld", (1.1, 1.2, 1.7)), TABLE1, where).endswith("though not all intervals are apart.")
    text = told(changed(frame, "pld", (1.4, 1.55, 1.7)), TABLE1, where)
    assert text.endswith("another order, but only between methods whose intervals overlap or are missing.")
    text = told(changed(frame, "pld", (1.7, 1.8, 1.9)), TABLE1, where)
    assert text.endswith("with intervals apart for PLD before SAM and PLD before Token Recycling.")


def test_speedups_over_another_baseline_are_not_ranked():
    text = told(table_frame(), TABLE1, "Paper settings, Overall: ordered")
    assert "REST" not in text and "Lookahead" not in text


def test_what_is_slower_is_named_with_its_columns():
    start = "Paper settings: slower than"
    assert not any(finding.startswith(start) for finding in table_findings(table_frame(), TABLE1))
    frame = table_frame()
    for task in ("qa", "rag"):
        frame = changed(frame, "sam", (0.5, 0.6, 0.99), task)
    frame = changed(frame, "pld", (0.5, 0.6, 1.01), "qa")
    assert told(frame, TABLE1, start).endswith("with the whole interval below 1: SAM (QA, RAG).")


def test_lines_that_were_not_run_are_named_once_or_with_their_block():
    start = "Not run"
    assert told(not_run(table_frame(), "lookahead", "rest"), TABLE1, start) == f"{start}: REST, Lookahead."
    frame = not_run(table_frame(), "token_recycling cold")
    assert told(frame, TABLE1, start) == f"{start}: Token Recycling, cold (Paper settings)."
    assert not any(start in finding for finding in table_findings(table_frame(), TABLE1))


def test_cold_is_compared_with_warm():
    text = told(table_frame(), TABLE1, "Token Recycling, warm")
    assert "MAT 2.60, speed-up 2.18 [1.96–2.40]; cold: MAT 3.00, speed-up 1.18 [1.06–1.30]; " in text
    assert text.endswith("warm beside cold: faster.")
    text = told(changed(table_frame(), "token_recycling cold", (1.5, 1.9, 2.3)), TABLE1, "Token Recycling, warm")
    assert text.endswith("warm beside cold: within the noise (the intervals overlap).")
    cold = not_run(table_frame(), "token_recycling cold")
    assert not any(finding.startswith("Token Recycling, warm") for finding in table_findings(cold, TABLE1))


def test_each_data_set_has_its_fastest_method():
    frame = changed(table_frame(TABLE2), "sam", (3.0, 3.3, 3.6), "hagrid")
    assert "is SAM's, 3.30" in told(frame, TABLE2, "Paper settings, HAGRID: the highest")
    assert "is Token Recycling's, 2.00" in told(frame, TABLE2, "Paper settings, HumanEval: the highest")
    assert "is Token Recycling's, 2.13" in told(frame, TABLE2, "Sized to this device, MBPP: the highest")
    ordered = [finding for finding in table_findings(frame, TABLE2) if "ordered by speed-up" in finding]
    assert len(ordered) == 2 * 2  # the paper has neither MBPP nor an overall column


def test_each_removed_module_is_told_beside_the_papers():
    frame = table_frame(TABLE3)
    text = told(frame, TABLE3, "SAM without dynamic")
    assert "MAT 4.20 → 5.00, speed-up 1.93 [1.74–2.12] → 1.18 [1.06–1.30]: slower; in the paper MAT " in text
    assert text.endswith("in the paper MAT 2.50 → 2.50, speed-up 1.84 → 1.33.")
    assert told(frame, TABLE3, "SAM[T] without static").endswith(": within the noise (the intervals overlap).")
    slower = changed(frame, "sam[t] without auxiliary", (0.9, 1.0, 1.1))
    assert told(slower, TABLE3, "SAM[T] without auxiliary").endswith(": slower.")
    assert len([f for f in table_findings(frame, TABLE3) if " → " in f]) == 7
    missing = not_run(frame, "sam without static")
    assert len([f for f in table_findings(missing, TABLE3) if " → " in f]) == 6


def test_an_output_that_is_not_identical_is_never_passed_over():
    frame = table_frame()
    same = "Every answer of every method that was run is identical to greedy decoding."
    assert table_findings(frame, TABLE1)[-1] == same == table_findings(not_run(frame, "sam"), TABLE1)[-1]
    frame.loc[(frame["method"] == "pld") & (frame["task"] == "overall"), "identical"] = "29/30 + 1 near-tie"
    assert "PLD (paper) 29/30 + 1 near-tie, PLD (device) 29/30 + 1 near-tie" in table_findings(frame, TABLE1)[-1]


def test_findings_survive_an_empty_block_and_a_missing_paper():
    frame = table_frame()
    frame = frame[frame["block"] != "device"].assign(paper_speedup=float("nan"), paper_mat=float("nan"))
    findings = table_findings(frame, TABLE1)
    assert "Sized to this device: nothing was measured." in findings
    assert "Paper settings: SuffixDecoding emits the most tokens a step, 5.80." in findings


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_the_csv_says_the_same_as_the_frame_and_an_empty_one_says_that_it_is(layout):
    frame = not_run(table_frame(layout), "sam")
    _, csv = save_table(frame, layout, "smoke", "")
    assert table_findings(pd.read_csv(csv), layout) == table_findings(frame, layout)
    nothing = [f"{label}: nothing was measured." for label in layout.blocks.values()]
    assert table_findings(frame[:0], layout) == [*nothing, "No answer was measured."]
