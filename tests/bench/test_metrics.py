"""The tables' numbers from hand-made records, worked out by hand."""

import math

import pytest

from samlib.bench.data import TASKS
from samlib.bench.losslessness import LosslessnessError
from samlib.bench.metrics import (
    AUXILIARY_COLUMNS,
    COLUMNS,
    auxiliary_rows,
    check_run,
    paper_numbers,
    phase_rows,
    source_rows,
    speedup_interval,
    table_rows,
)
from tests.bench.helpers import pair, record, turn


def cell(records, method="sam", task="qa", block="paper", table="table1", not_run=None):
    frame = table_rows(table, records, not_run)
    rows = frame[(frame["block"] == block) & (frame["method"] == method) & (frame["task"] == task)]
    assert len(rows) == 1
    return rows.iloc[0]


TWO_QUESTIONS = [*pair(1, (100, 2.0), (100, 1.0)), *pair(2, (10, 1.0), (10, 1.0))]


def test_ratio_of_mean_rates_and_ratio_of_total_times_are_both_given():
    row = cell(TWO_QUESTIONS)
    assert row["speedup"] == pytest.approx((100 + 10) / (50 + 10))  # 1.83
    assert row["speedup_total_time"] == pytest.approx(3.0 / 2.0)  # 1.50


def test_a_failed_question_leaves_both_sides_and_is_named():
    failed = [record("autoregressive", 3, [turn(500, 1.0)]), record("sam", 3, [], error="RuntimeError: boom")]
    frame = table_rows("table1", TWO_QUESTIONS + failed)
    for method in ("autoregressive", "sam"):
        row = cell(TWO_QUESTIONS + failed, method)
        assert row["n"] == 2
    assert cell(TWO_QUESTIONS + failed)["speedup"] == pytest.approx(110 / 60)
    assert frame.attrs["failed"] == ["question 3 (sam, paper): RuntimeError: boom"]


def test_a_method_that_fails_everywhere_spares_the_others():
    broken = [record("pld", i, [], error="RuntimeError: boom") for i in (1, 2)]
    frame = table_rows("table1", TWO_QUESTIONS + broken)
    assert cell(TWO_QUESTIONS + broken)["n"] == 2
    assert "pld" not in set(frame["method"]) and len(frame.attrs["failed"]) == 2


def test_a_question_that_one_method_has_not_reached_counts_for_none():
    unfinished = [record("autoregressive", 3, [turn(500, 1.0)])]
    assert cell(TWO_QUESTIONS + unfinished, "autoregressive")["n"] == 2


def test_a_record_twice_counts_once():
    assert cell(TWO_QUESTIONS + TWO_QUESTIONS)["n"] == 2
    assert cell(TWO_QUESTIONS + TWO_QUESTIONS)["mat"] == cell(TWO_QUESTIONS)["mat"]


def test_turns_are_pooled_before_the_rate_is_taken():
    base = record("autoregressive", 1, [turn(10, 1.0), turn(30, 1.0)], task="multi_turn")
    fast = record("sam", 1, [turn(10, 0.5), turn(30, 0.3)], task="multi_turn")
    row = cell([base, fast], task="multi_turn")
    assert row["tokens_per_s"] == pytest.approx(40 / 0.8)
    assert row["speedup"] == pytest.approx((40 / 0.8) / (40 / 2.0))


def test_decode_speed_leaves_out_the_prefill_and_the_token_it_gives():
    base = record("autoregressive", 1, [turn(11, 3.0, prefill=1.0)])
    fast = record("sam", 1, [turn(11, 2.0, prefill=1.0)])
    assert cell([base, fast])["speedup_decode"] == pytest.approx(2.0)
    assert cell([base, fast])["speedup"] == pytest.approx(1.5)
    assert cell([base, fast])["prefill_share"] == pytest.approx(0.5)


def test_an_answer_of_one_token_has_no_decode_speed():
    records = pair(1, (1, 0.5), (1, 0.25))
    assert math.isnan(cell(records)["speedup_decode"])
    assert math.isnan(cell(records)["mat"])
    assert cell(records)["speedup"] == pytest.approx(2.0)


def test_mat_is_pooled_over_steps_not_averaged_over_questions():
    records = [
        *pair(1, (101, 1.0), (101, 1.0)),
        record("autoregressive", 2, [turn(11, 1.0)]),
        record("sam", 2, [turn(11, 1.0, steps=2)]),
    ]
    assert cell(records)["mat"] == pytest.approx((100 + 10) / (100 + 2))
    assert cell(records, "autoregressive")["mat"] == 1.0


def test_repetitive_answers_are_left_out_of_the_no_repeat_speedup_only():
    records = [*pair(1, (100, 2.0), (100, 1.0)), *pair(2, (100, 2.0), (100, 0.1), repeated=0.21)]
    row = cell(records)
    assert (row["n"], row["n_no_repeat"]) == (2, 1)
    assert row["speedup_no_repeat"] == pytest.approx(2.0)
    assert row["speedup"] > 2.0


def test_the_baseline_appears_in_both_blocks_with_speedup_one():
    for block in ("paper", "device"):
        assert cell(TWO_QUESTIONS, "autoregressive", block=block)["speedup"] == 1.0


def test_rows_come_in_the_order_of_tasks_and_columns_are_the_agreed_ones():
    records = [r for i, task in enumerate(TASKS) for r in pair(i, (10, 1.0), (10, 0.5), task=task)]
    frame = table_rows("table1", records)
    assert list(frame.columns) == COLUMNS
    assert list(frame[(frame["block"] == "paper") & (frame["method"] == "sam")]["task"]) == [*TASKS, "overall"]


@pytest.mark.parametrize(("questions", "given"), [(4, False), (5, True)])
def test_a_task_has_an_interval_from_five_questions(questions, given):
    records = [r for i in range(questions) for r in pair(i, (100, 2.0), (100, 1.0 + i / 10))]
    assert math.isnan(cell(records)["speedup_low"]) != given


@pytest.mark.parametrize(("questions", "given"), [(11, False), (12, True)])
def test_overall_has_an_interval_from_twelve_questions(questions, given):
    records = [r for i in range(questions) for r in pair(i, (100, 2.0), (100, 1.0 + i / 10))]
    row = cell(records, task="overall")
    assert math.isnan(row["speedup_low"]) != given
    if given:
        assert row["speedup_low"] < row["speedup"] < row["speedup_high"]


def test_the_interval_is_paired():
    """Rates that differ tenfold between questions but keep their ratio have no uncertainty in the ratio."""
    baseline = [10.0, 100.0, 20.0, 50.0, 5.0]
    low, high = speedup_interval([2 * rate for rate in baseline], baseline)
    assert low == pytest.approx(2.0)
    assert high == pytest.approx(2.0)


def test_the_interval_is_reproducible():
    method, baseline = [3.0, 5.0, 2.0, 8.0, 4.0], [2.0, 2.0, 2.0, 3.0, 2.0]
    assert speedup_interval(method, baseline) == speedup_interval(method, baseline)


def test_identical_counts_questions_and_names_the_rest():
    kinds = ["identical", "near_tie", "different"]
    records = []
    for i, kind in enumerate(kinds):
        records += [
            record("autoregressive", i, [turn(10, 1.0)]),
            record("sam", i, [turn(10, 1.0), turn(10, 1.0, kind=kind, gap=2e-4)]),
        ]
    assert cell(records)["identical"] == "1/3 + 1 near-tie + 1 different"
    assert cell(records, "autoregressive")["identical"] == "3/3"


def half(kind, gap, rounding=0.02, dtype="float16"):
    return turn(10, 1.0, kind=kind, gap=gap, rounding=rounding, dtype=dtype)


def test_half_precision_names_the_dtype_and_the_largest_gap():
    same = half("identical", None)
    answers = [[same], [half("rounding", 0.01)], [half("rounding", 0.02), half("rounding", 0.03125), same], [same]]
    records = [record("sam", i, turns) for i, turns in enumerate(answers)]
    shown = "2 different in float16 (largest gap 0.031)"
    assert cell(records)["identical"] == f"2/4 + {shown}"
    records.append(record("sam", 9, [half("different", 2.0), half("rounding", 0.01)]))
    assert cell(records)["identical"] == f"2/5 + {shown} + 1 different beyond rounding"


def test_half_precision_fails_a_run_only_beyond_rounding():
    rounded = [record("sam", i, [half("rounding", 0.01)]) for i in range(9, 30)]
    check_run([*TWO_QUESTIONS, *rounded])
    with pytest.raises(LosslessnessError, match=r"token 3, gap 2 where bfloat16 rounds by 0\.02"):
        check_run([*TWO_QUESTIONS, *rounded, record("sam", 31, [half("different", 2.0, dtype="bfloat16")])])


def test_every_difference_is_listed_with_position_and_gap():
    records = [*TWO_QUESTIONS, near_tie(9), record("sam", 10, [half("rounding", 0.01)])]
    assert table_rows("table1", records).attrs["differences"] == [
        "near-tie: question 9, sam (paper), token 3, gap 0.0005",
        "rounding: question 10, sam (paper), token 3, gap 0.01 where float16 rounds by 0.02",
    ]
    assert table_rows("table1", TWO_QUESTIONS).attrs["differences"] == []


def test_the_papers_numbers_stand_beside_ours():
    assert paper_numbers("table1", "sam[t]", "overall") == {"mat": 3.03, "tokens_per_s": 85.73, "speedup": 2.27}
    assert paper_numbers("table1", "sam", "math_reasoning")["speedup"] == 1.91
    assert all(math.isnan(value) for value in paper_numbers("table1", "autoregressive", "overall").values())


@pytest.mark.parametrize(
    ("table", "method", "task", "numbers"),
    [
        ("table2", "sam[t]", "human_eval", (2.94, 95.08, 2.45)),
        ("table2", "rest", "hagrid", (1.53, 24.91, 1.39)),
        ("table3", "sam[t]", "overall", (3.03, 85.73, 2.27)),
        ("table3", "sam without static", "overall", (1.85, 61.93, 1.64)),
        ("table3", "sam without dynamic", "overall", (1.63, 50.37, 1.33)),
    ],
)
def test_each_table_has_its_own_paper_numbers(table, method, task, numbers):
    found = paper_numbers(table, method, task)
    assert (found["mat"], found["tokens_per_s"], found["speedup"]) == numbers


@pytest.mark.parametrize(
    ("table", "method", "task"),
    [
        ("table2", "sam", "mbpp"),
        ("table2", "sam", "overall"),
        ("table3", "sam[t] without static", "overall"),
        ("table3", "sam without static", "qa"),
        ("table1", "token_recycling cold", "overall"),
    ],
)
def test_where_the_paper_gives_nothing_nothing_is_made_up(table, method, task):
    assert all(math.isnan(value) for value in paper_numbers(table, method, task).values())


ABLATED = [*TWO_QUESTIONS, *(record("sam without static", i, [turn(10, 1.0)], block="ablation") for i in (1, 2))]


def test_table3_takes_its_lines_from_table1s_run_and_table1_leaves_them_out():
    row = cell(ABLATED, "sam without static", "overall", table="table3")
    assert (row["n"], row["block"]) == (2, "paper")
    assert cell(ABLATED, "sam", "overall", table="table3")["speedup"] == cell(ABLATED, "sam", "overall")["speedup"]
    assert set(table_rows("table3", ABLATED)["block"]) == {"paper"}
    assert set(table_rows("table1", ABLATED)["method"]) == {"autoregressive", "sam"}


def test_table3_holds_no_other_method():
    others = [record(name, i, [turn(10, 1.0)]) for name in ("pld", "token_recycling cold") for i in (1, 2)]
    oracle = [record("hf_generate", i, [turn(10, 1.0)], block="reference") for i in (1, 2)]
    methods = set(table_rows("table3", ABLATED + others + oracle)["method"])
    assert methods == {"autoregressive", "sam", "sam without static", "hf_generate"}


def test_table2_speaks_of_its_data_sets():
    records = [*pair(1, (100, 2.0), (100, 1.0), task="mbpp"), *pair(2, (100, 2.0), (100, 0.5), task="hagrid")]
    assert cell(records, task="mbpp", table="table2")["speedup"] == pytest.approx(2.0)
    assert cell(records, task="hagrid", table="table2")["paper_speedup"] == 2.24
    assert cell(records, task="overall", table="table2")["n"] == 2


def test_a_line_not_run_is_shown_and_takes_no_question_from_the_others():
    """It was measured in the first round alone: without the word that it was not run, one question would be left."""
    started = [record("lookahead", 1, [turn(10, 9.0)])]
    assert cell(TWO_QUESTIONS + started, task="overall")["n"] == 1
    not_run = {("paper", "lookahead"): "needs about 3.0 minutes more"}
    row = cell(TWO_QUESTIONS + started, "lookahead", "overall", not_run=not_run)
    assert (row["n"], row["identical"], row["paper_mat"]) == (0, "not run", 1.63) and math.isnan(row["speedup"])
    assert cell(TWO_QUESTIONS + started, task="overall", not_run=not_run)["n"] == 2
    frame = table_rows("table1", TWO_QUESTIONS + started, not_run)
    assert frame.attrs["not_run"] == ["lookahead (paper): needs about 3.0 minutes more"]
    assert "lookahead" not in set(source_rows("table1", TWO_QUESTIONS + started, not_run)["method"])


def test_an_ablation_not_run_belongs_to_table3_alone():
    not_run = {("ablation", "sam without static"): "needs about 1.0 minutes more"}
    assert cell(ABLATED, "sam without static", table="table3", not_run=not_run)["identical"] == "not run"
    assert table_rows("table1", ABLATED, not_run).attrs["not_run"] == []


def drafted(question_id, **sources):
    """A record of sam[t] with the given (steps, emitted tokens) a source."""
    steps, emitted = (sum(pair[i] for pair in sources.values()) for i in (0, 1))
    made = turn(emitted + 1, 4.0, prefill=1.0, steps=steps)
    made["sources"] = {name: {"steps": pair[0], "emitted": pair[1]} for name, pair in sources.items()}
    made["timings"] |= {"draft": 0.25, "verify": 2.0, "update": 0.5}
    return record("sam[t]", question_id, [made])


def test_sources_are_pooled_over_questions_beside_the_papers():
    rows = source_rows("table1", [drafted(1, dynamic=(2, 12)), drafted(2, dynamic=(1, 3), token_recycling=(9, 18))])
    assert list(rows["source"]) == ["token_recycling", "dynamic"]
    assert list(rows["steps"]) == [9, 3] and list(rows["share"]) == [0.75, 0.25]
    assert list(rows["mat"]) == [2.0, 5.0]
    assert list(rows["paper_share"]) == [pytest.approx(0.8596), pytest.approx(0.1159)]
    assert list(rows["paper_mat"]) == [2.51, 6.57]


def test_phases_make_up_the_whole_time():
    rows = phase_rows("table1", [drafted(1, dynamic=(2, 12))]).set_index("phase")
    assert rows["share"].to_dict() == {
        "prefill": 0.25, "draft": 0.0625, "verify": 0.5, "update": 0.125, "other": 0.0625,
    }  # fmt: skip
    assert rows["paper_share"].round(3).dropna().to_dict() == {
        "prefill": 0.042, "draft": 0.006, "verify": 0.888, "update": 0.063,
    }  # fmt: skip


def test_device_sizes_stand_beside_the_papers_speed_but_not_its_mat():
    device = [record("sam", i, [turn(10, 1.0)], block="device") for i in (1, 2)]
    row = cell([*TWO_QUESTIONS, *device], block="device", task="overall")
    assert row["paper_speedup"] == 1.84
    assert math.isnan(row["paper_mat"])


def test_no_records_give_an_empty_frame():
    assert list(table_rows("table1", []).columns) == COLUMNS
    assert len(table_rows("table1", [])) == 0


def near_tie(question_id):
    return record("sam", question_id, [turn(10, 1.0, kind="near_tie", gap=5e-4)])


def test_check_run_accepts_identical_answers_and_one_near_tie():
    check_run(TWO_QUESTIONS)
    check_run([*TWO_QUESTIONS, near_tie(9)])


def test_check_run_refuses_a_second_near_tie_in_a_short_run_and_allows_it_in_a_long_one():
    with pytest.raises(LosslessnessError, match="2 near-ties in 240 tokens"):
        check_run([*TWO_QUESTIONS, near_tie(9), near_tie(10)])
    check_run([record("sam", 1, [turn(20_000, 1.0)]), near_tie(9), near_tie(10)])


def test_check_run_refuses_a_difference_and_a_failure():
    different = record("sam", 7, [turn(10, 1.0, kind="different", gap=0.5)])
    with pytest.raises(LosslessnessError, match=r"question 7, sam \(paper\), token 3, gap 0.5"):
        check_run([*TWO_QUESTIONS, different])
    with pytest.raises(LosslessnessError, match="question 8 .*: boom"):
        check_run([*TWO_QUESTIONS, record("sam", 8, [], error="boom")])


# ---- what SAM makes of an auxiliary drafter's accepted tokens ----


def by_source(method, question_id, task, **sources):
    """A record with the given (steps, emitted tokens) a source."""
    made = drafted(question_id, **sources)
    return made | {"method": method, "task": task, "key": f"{method}/{question_id}"}


def auxiliary_cell(records, method, source="all", task="mbpp"):
    frame = auxiliary_rows(records)
    rows = frame[(frame["task"] == task) & (frame["method"] == method) & (frame["source"] == source)]
    return rows.iloc[0] if len(rows) else None


CODE = [
    by_source("eagle2", 1, "mbpp", eagle2=(10, 30)),
    by_source("sam[e2]", 1, "mbpp", eagle2=(6, 12), dynamic=(2, 18)),
    by_source("eagle2", 2, "mbpp", eagle2=(10, 50)),
    by_source("sam[e2]", 2, "mbpp", eagle2=(8, 32), static=(3, 9), none=(9, 9)),
]


def test_mat_of_the_auxiliary_alone_and_inside_of_sam_by_source():
    assert auxiliary_cell(CODE, "eagle2")[["n", "steps", "mat", "ratio"]].tolist() == [2, 20, 4.0, 1.0]
    whole = auxiliary_cell(CODE, "sam[e2]")
    assert whole[["n", "steps"]].tolist() == [2, 28]
    assert whole["mat"] == pytest.approx(80 / 28) and whole["ratio"] == pytest.approx(80 / 28 / 4.0)
    inside = auxiliary_cell(CODE, "sam[e2]", "eagle2")
    assert inside[["n", "steps"]].tolist() == [2, 14] and inside["mat"] == pytest.approx(44 / 14)
    assert set(auxiliary_rows(CODE)["source"]) == {"all", "eagle2", "dynamic", "static", "none"}


def test_a_source_is_held_against_the_auxiliary_on_the_questions_in_which_it_drafted():
    dynamic = auxiliary_cell(CODE, "sam[e2]", "dynamic")
    assert dynamic[["n", "steps", "mat"]].tolist() == [1, 2, 9.0] and dynamic["ratio"] == pytest.approx(9.0 / 3.0)
    assert auxiliary_cell(CODE, "sam[e2]", "static")["ratio"] == pytest.approx(3.0 / 5.0)


def test_data_sets_are_apart_and_only_questions_that_both_answered_count():
    other = [by_source("eagle2", 7, "hagrid", eagle2=(5, 10)), by_source("sam[e2]", 7, "hagrid", dynamic=(1, 10))]
    alone = [by_source("eagle2", 8, "mbpp", eagle2=(1, 500))]
    device = [record | {"block": "device", "turns": []} for record in CODE]
    records = [*CODE, *other, *alone, *TWO_QUESTIONS, *device]
    assert auxiliary_cell(records, "eagle2")["mat"] == 4.0
    assert auxiliary_cell(records, "sam[e2]", "dynamic", "hagrid")["ratio"] == 5.0
    assert auxiliary_cell(records, "sam[e2]", "eagle2", "hagrid") is None
    assert auxiliary_rows([*alone]).empty and list(auxiliary_rows([]).columns) == AUXILIARY_COLUMNS


def test_intervals_from_five_questions_are_paired_and_hold_their_value():
    """MAT differs fivefold between questions, its ratio to the auxiliary's does not."""
    records = []
    for i in range(5):
        records += [by_source("eagle2", i, "mbpp", eagle2=(10, 20 + 20 * i))]
        records += [by_source("sam[e2]", i, "mbpp", eagle2=(10, 10 + 10 * i), dynamic=(1, 3))]
    inside = auxiliary_cell(records, "sam[e2]", "eagle2")
    assert inside["mat_low"] < inside["mat"] < inside["mat_high"]
    assert [inside[name] for name in ("ratio", "ratio_low", "ratio_high")] == pytest.approx([0.5] * 3)
    assert auxiliary_cell(records[:8], "sam[e2]")[["mat_low", "ratio_high"]].isna().all()


def test_an_answer_of_one_token_takes_no_step_and_counts_nowhere():
    single = [record(method, 3, [turn(1, 1.0)], task="mbpp") for method in ("eagle2", "sam[e2]")]
    assert auxiliary_cell([*CODE, *single], "eagle2")[["n", "mat"]].tolist() == [2, 4.0]
