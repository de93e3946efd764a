"""What the tables consist of: their lines, and that an ablated line does without what it is named after."""

import pytest

from samlib import StaticAutomaton
from samlib.bench import load_model
from samlib.bench.answers import Contender, hf_answer
from samlib.bench.heads import head_options
from samlib.bench.profiles import PAPER_SETTINGS, load_profile
from samlib.bench.prompts import prompt_ids
from samlib.bench.tables import ABLATED, RUNS, TABLES, Line, ablations, run_lines

CPU, FULL = load_profile("cpu"), load_profile("cpu-full")
SIZED = {method: PAPER_SETTINGS[method] for method in CPU.device_sized}


def names(run, block, profile=CPU):
    return [line.name for line in run_lines(run, profile, SIZED) if line.block == block]


def test_the_oracle_and_the_baseline_come_first():
    for run in RUNS:
        assert [line.name for line in run_lines(run, CPU, SIZED)][:2] == ["hf_generate", "autoregressive"]


def test_both_blocks_hold_every_method_and_table1_the_cold_line_and_table3s():
    assert names("table1", "paper") == ["autoregressive", *CPU.paper, "token_recycling cold"]
    assert names("table1", "device") == list(CPU.device_sized)
    assert names("table2", "paper") == ["autoregressive", *CPU.paper]
    assert names("table1", "ablation") == [line.name for method in ("sam", "sam[t]") for line in ablations(method)]
    assert names("table2", "ablation") == []


def test_sam_e2_is_taken_apart_only_in_the_reference_run_and_its_retrieval_alone_is_not_measured_again():
    variants = ["sam[e2] without static", "sam[e2] without dynamic"]
    assert names("table1", "ablation", FULL) == [*names("table1", "ablation"), *variants]
    settings = PAPER_SETTINGS["sam[e2]"]
    static, dynamic = ablations("sam[e2]")
    assert static.options == settings
    assert dynamic.options == settings | {"l_bias": -100_000, "l_threshold": 100_010}


def test_table3_holds_what_was_taken_apart_whole_and_in_parts():
    lines = [(line.block, line.name) for line in run_lines("table1", CPU, SIZED)]
    placed = TABLES["table3"].blocks_of(lines)
    whole = [line for line in placed if line[0] != "ablation"]
    assert whole == [("reference", "hf_generate"), ("paper", "autoregressive"), ("paper", "sam"), ("paper", "sam[t]")]
    assert set(placed.values()) == {"paper", "reference"} and len(placed) == 4 + 5
    full = TABLES["table3"].blocks_of((line.block, line.name) for line in run_lines("table1", FULL, SIZED))
    variants = {("ablation", f"sam[e2] without {module}") for module in ("static", "dynamic")}
    assert full.keys() - placed.keys() == {("paper", "sam[e2]")} | variants
    assert not any(block == "ablation" for block, _ in TABLES["table1"].blocks_of(lines))


def test_every_table_is_served_by_a_run_and_the_time_is_divided_among_them():
    assert {table.run for table in TABLES.values()} == set(RUNS)
    assert all(table in RUNS[TABLES[table].run].tables for table in TABLES)
    assert sum(run.share for run in RUNS.values()) == pytest.approx(1.0)


@pytest.fixture(scope="module")
def drafted_from():
    """A line's draft sources over one answer. The corpus holds prompt and answer, and the prompt repeats itself."""
    model, tokenizer = load_model("smoke")
    ids = prompt_ids(tokenizer, [{"role": "user", "content": "one two three one two three one two three"}])
    index = StaticAutomaton.build([[*ids, *hf_answer(model, ids, 30).ids]])

    def sources(line):
        contender = Contender(line, model=model, static=index, assets=head_options("smoke", model, line.method))
        return {source for _ in range(2) for source in contender.answer(ids, 30).turn["sources"]}

    return sources


@pytest.mark.parametrize("method", ["sam", "sam[t]", "sam[e2]"])
def test_ablated_lines_do_without_what_they_are_named_after(drafted_from, method):
    modules = {"without static": "static", "without dynamic": "dynamic", "without auxiliary": "token_recycling"}
    lines = ablations(method)
    assert [line.variant for line in lines] == list(modules)[: len(lines)]
    for line in lines:
        left_out = modules[line.variant]
        favouring = line.options | ({"l_bias": -5} if left_out != "dynamic" else {})
        assert left_out not in drafted_from(line._replace(options=favouring))
        assert drafted_from(line)


def test_without_the_dynamic_automaton_the_static_one_drafts_from_the_same_match_length_on(drafted_from):
    """Static drafts need a match of threshold + bias, with and without the dynamic automaton."""
    for line in (line for method in ABLATED for line in ablations(method)):
        if line.variant == "without dynamic":
            settings = PAPER_SETTINGS[line.method]
            needed = line.options["l_threshold"] + line.options["l_bias"]
            assert needed == settings["l_threshold"] + settings["l_bias"]
            assert "static" in drafted_from(line)


def test_without_the_auxiliary_retrieval_always_drafts_at_most_15_tokens():
    (line,) = (line for line in ablations("sam[t]") if line.variant == "without auxiliary")
    assert line == Line(
        "ablation", "sam[t]", PAPER_SETTINGS["sam[t]"] | {"draft_size": 15, "l_threshold": 0}, line.variant
    )
