"""Captions name what a figure rests on: the run that measured it, not the machine that draws it."""

import json

import pytest

from samlib import paths
from samlib.bench.cost_table import cost_rows
from samlib.bench.machine import cpu_name, device_words
from samlib.bench.profiles import load_profile
from samlib.report import (
    LAYOUTS,
    TABLE1,
    TABLE2,
    automaton_scale_caption,
    caption,
    complexity_caption,
    cost_caption,
    phases_caption,
    sources_caption,
    table_caption,
)
from tests.bench.scale_records import scale_records
from tests.report.synthetic import complexity_frame, cost_curve, not_run, sources_frame, table_frame

RECORDS = [
    {"dataset": "Spec-Bench", "manifest": "manifest_1.json"},
    {"dataset": "Spec-Bench", "manifest": "manifest_2.json"},
    {"dataset": "Spec-Bench", "manifest": "manifest_2.json"},
]


@pytest.fixture
def manifests():
    folder = paths.RUNS / "cpu"
    folder.mkdir(parents=True)
    for number, device in ((1, "CPU A, 2 threads"), (2, "CPU B, 2 threads"), (3, "CPU C, 2 threads")):
        (folder / f"manifest_{number}.json").write_text(json.dumps({"device": device}))


def test_it_names_profile_model_data_hardware_and_n(manifests):
    text = caption("Speeds.", "cpu", RECORDS[:1], n="12 questions")
    facts = (
        "Profile cpu; smollm2-135m-instruct in float32, sdpa attention; Spec-Bench; CPU A, 2 threads; n = 12 questions."
    )
    assert text == f"Speeds. {facts}"


def test_a_run_resumed_on_another_machine_names_both_and_no_third(manifests):
    text = caption("Speeds.", "cpu", RECORDS, n="12 questions")
    assert "; CPU A, 2 threads and CPU B, 2 threads; " in text


def test_without_a_manifest_it_names_this_machine():
    assert device_words(load_profile("cpu")) in caption("Speeds.", "cpu", RECORDS, n="12 questions")


def test_several_data_sets_are_listed():
    records = [{"dataset": name, "manifest": "none.json"} for name in ("HumanEval", "MBPP", "HumanEval", "HAGRID")]
    assert "; HumanEval, MBPP and HAGRID; " in caption("Speeds.", "cpu", records, n="12 questions")


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_a_tables_caption_says_what_it_shows_and_gives_its_n(layout, manifests):
    text = table_caption(not_run(table_frame(layout), "sam"), layout, "cpu", RECORDS)
    assert text.startswith(f"{layout.about} Profile cpu; ") and "bootstrap 95 % intervals" in text
    questions = 5 * (len(layout.columns) - 1)
    n = f"n = {questions} questions in all (5 a {layout.unit}), the same for every method that was run."
    assert text.endswith(n)


def test_a_table_names_the_n_of_each_column_where_they_differ():
    frame = table_frame(TABLE2)
    frame.loc[frame["task"] == "mbpp", "n"] = 3
    text = table_caption(frame, TABLE2, "cpu", RECORDS)
    assert "n = 15 questions in all (HumanEval 5, MBPP 3, HAGRID 5), the same" in text
    assert "n = 0 questions in all (0 a task)" in table_caption(table_frame().query("n < 0"), TABLE1, "cpu", RECORDS)


def test_sources_and_phases_say_what_they_are_shares_of():
    steps = sources_caption(sources_frame(), TABLE1, "cpu", RECORDS)
    assert steps.startswith("Table 1: share of verification steps") and steps.endswith("n = 28,000 steps.")
    time = phases_caption(table_frame(), TABLE1, "cpu", RECORDS)
    assert time.startswith("Table 1: share of each method's total time") and "n = 30 questions in all" in time


def test_costs_give_their_n():
    costs = complexity_caption(complexity_frame(), "smoke")
    assert costs.endswith(f"Profile smoke; {cpu_name()}, one thread; n = 60 lookups a point.")


def test_the_automata_at_scale_name_corpus_machine_and_repeats():
    text = automaton_scale_caption(scale_records(), "cpu")
    assert "Profile cpu; 16,000,000 tokens of the embedded corpus and this environment's Python files; CPU A" in text
    assert text.endswith("n = 3 repeats.")


def test_the_cost_of_a_forward_names_the_machine_that_measured_it():
    text = cost_caption(cost_rows(cost_curve()), "cpu")
    model = "smollm2-135m-instruct in float32, sdpa attention"
    assert text.endswith(f"Profile cpu; {model}; CPU A, 2 threads; n = 15 interleaved forwards a point.")
