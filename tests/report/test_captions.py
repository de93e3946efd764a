"""Captions name what a figure rests on: the run that measured it, not the machine that draws it."""

import json

import pytest

from samlib import paths
from samlib.bench.cost_table import cost_rows
from samlib.bench.machine import cpu_name, device_words
from samlib.bench.profiles import load_profile
from samlib.report import automaton_scale_caption, caption, complexity_caption, cost_caption, table1_caption
from tests.bench.scale_records import scale_records
from tests.report.synthetic import complexity_frame, cost_curve, table1_frame

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


def test_table_and_costs_give_their_n(manifests):
    assert "n = 30 questions in all" in table1_caption(table1_frame(), "cpu", RECORDS)
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
