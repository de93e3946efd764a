"""The runner on the smoke profile and a handful of questions: interleaving, resuming, failing, settings set aside."""

import dataclasses
import json
import shutil

import pytest

from samlib import paths
from samlib.bench import cost, heads, load_model, load_static, manifest, runner
from samlib.bench.answers import Contender
from samlib.bench.data import TASKS
from samlib.bench.losslessness import LosslessnessError
from samlib.bench.metrics import check_run, table_rows
from samlib.bench.profiles import load_profile
from samlib.bench.records import RecordStore
from samlib.bench.runner import measure_table, run_settings
from samlib.bench.tables import RUNS

PROFILE = dataclasses.replace(
    load_profile("smoke"),
    max_new_tokens=5,
    max_rounds=2,
    cost_widths=(1, 8),
    cost_repeats=1,
    cost_contexts=(20,),
    paper=("pld", "rest", "token_recycling", "eagle", "sam", "sam[t]"),
    device_sized=("pld", "sam[t]", "sam[e2]"),
)
ONE_ROUND = dataclasses.replace(PROFILE, min_rounds={"table1": 1, "table2": 1}, max_rounds=1)
LINES = 18  # the oracle, the baseline, six and three in the blocks, prompt lookup, one cold, five of Table 3
HEADLESS = dataclasses.replace(PROFILE, model="no-head", min_rounds={"table1": 1}, max_rounds=1)


@pytest.fixture(autouse=True)
def small_data(tmp_path, monkeypatch):
    """Two short questions a task, a corpus of one document, and all that is written in a folder of the test's own."""
    monkeypatch.setattr(paths, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    write_data(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def finished_runs(tmp_path_factory):
    """The runs folder after one whole run, for the tests that only look at it."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths, "RUNS", folder / "runs")
        patch.setattr(paths, "CACHE", folder / "cache")
        write_data(folder, patch)
        run()
    return folder / "runs"


@pytest.fixture
def finished(finished_runs):
    """(path, records) of a whole run that is this test's own."""
    shutil.copytree(finished_runs, paths.RUNS)
    path = paths.RUNS / "smoke" / "records" / "table1.jsonl"
    return path, RecordStore(path).load()


def write_data(folder, patch):
    """Questions and a corpus under `folder`, made the ones in use."""
    write_questions(folder / "data", "Say {} words about {}.")
    patch.setenv("SAMLIB_DATA", str(folder / "data"))
    (folder / "corpus" / "answers").mkdir(parents=True)
    row = {"kind": "code", "prompt": "Say words about trees.", "answer": "Trees are tall and qa is short."}
    (folder / "corpus" / "answers" / "a.jsonl").write_text(json.dumps(row) + "\n")
    patch.setattr(paths, "CORPUS", folder / "corpus")


def write_questions(folder, text):
    rows = []
    for t, task in enumerate(TASKS):
        for i in range(2):
            turns = [text.format(i, task)] + ["And more?"] * (task == "multi_turn")
            rows.append({"question_id": 10 * t + i, "category": task, "turns": turns})
    (folder / "spec_bench").mkdir(parents=True, exist_ok=True)
    (folder / "spec_bench" / "question.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def run(profile=PROFILE, table="table1", **options):
    result = measure_table(table, profile, progress=False, **options)
    return result.path, result.load()


class Interrupt(Exception):
    """Stands for a kill between two records."""


def test_a_whole_run_is_lossless_and_fills_the_table(finished):
    _, records = finished
    assert len(records) == 12 * LINES
    assert not any(record["error"] for record in records)
    check_run(records)
    frame = table_rows("table1", records)
    overall = frame[frame["task"] == "overall"]
    assert set(overall["n"]) == {12} and set(overall["identical"]) == {"12/12"}
    assert overall["speedup_low"].notna().all()
    paper = ["autoregressive", *PROFILE.paper, "token_recycling cold"]
    assert sorted(frame[frame["block"] == "paper"]["method"].unique()) == sorted(paper)


def test_methods_follow_each_other_on_a_question_and_questions_go_round_the_tasks(finished):
    _, records = finished
    ids = [record["question_id"] for record in records]
    blocks = [ids[i : i + LINES] for i in range(0, len(ids), LINES)]
    assert all(len(set(block)) == 1 for block in blocks)
    assert [records[i]["task"] for i in range(0, len(ids), LINES)] == [*TASKS, *TASKS]
    orders = [[(r["block"], r["method"]) for r in records[i : i + LINES]] for i in range(0, len(ids), LINES)]
    assert all(order[0] == ("reference", "hf_generate") for order in orders)
    assert len({order[1] for order in orders}) > 5  # the others rotate


def test_all_methods_get_the_same_prompts_and_the_second_turn_holds_the_first_answer(finished):
    _, records = finished
    for question in {record["question_id"] for record in records}:
        own = [record for record in records if record["question_id"] == question]
        assert len({tuple(turn["prompt_tokens"] for turn in record["turns"]) for record in own}) == 1
    first, second = next(r for r in records if r["task"] == "multi_turn")["turns"]
    assert second["prompt_tokens"] > first["prompt_tokens"] + len("And more?")


def test_a_second_call_returns_without_loading_the_model(finished, monkeypatch):
    monkeypatch.setattr(runner, "load_model", lambda profile: pytest.fail("loaded"))
    assert run() == finished


def test_an_interrupted_run_resumes_where_it_stopped_and_counts_nothing_twice(monkeypatch):
    appended = []
    append = RecordStore.append

    def stop_after_some(self, record):
        if len(appended) == 2 * LINES + 3:
            raise Interrupt
        appended.append(record)
        append(self, record)

    with monkeypatch.context() as patch, pytest.raises(Interrupt):
        patch.setattr(RecordStore, "append", stop_after_some)
        run()
    path = paths.RUNS / "smoke" / "records" / "table1.jsonl"
    path.write_bytes(path.read_bytes()[:-30])  # the last line was torn as well
    _, records = run()
    assert len(records) == 12 * LINES
    whole = {record["key"]: record for record in records}
    assert all(whole[record["key"]] == record for record in appended[: 2 * LINES])
    redone = appended[2 * LINES]  # its question was not finished: all its methods ran again, back to back
    assert whole[redone["key"]]["turns"][0]["timings"] != redone["turns"][0]["timings"]


def test_more_minutes_measure_more_rounds():
    profile = dataclasses.replace(PROFILE, min_rounds={"table1": 1})
    assert len(run(profile, minutes=0.001)[1]) == 6 * LINES
    assert len(run(profile, minutes=60)[1]) == 12 * LINES


def test_a_budget_too_small_is_said_and_what_is_essential_is_measured(capsys):
    """One round of all lines, then of the oracle, the baseline and SAM's own lines."""
    result = measure_table("table1", PROFILE, progress=False, minutes=0.001)
    records = result.load()
    assert len(records) == 6 * LINES + 6 * 5
    assert set(result.not_run) >= {("paper", "pld"), ("device", "pld"), ("ablation", "sam without static")}
    said = capsys.readouterr().err
    assert "the least that is measured, 2 questions of each task, takes" in said
    assert "not run: pld (paper), needs about" in said
    frame = table_rows("table1", records, result.not_run)
    overall = frame[(frame["task"] == "overall") & (frame["block"] == "paper")].set_index("method")
    assert overall.loc["sam[t]", "identical"] == "12/12" and overall.loc["pld", "identical"] == "not run"


def test_what_was_left_out_is_measured_when_there_is_more_time():
    run(minutes=0.001)
    result = measure_table("table1", PROFILE, progress=False, minutes=60)
    assert (len(result.load()), result.not_run) == (12 * LINES, {})


def test_lines_that_need_a_head_are_measured_with_one_and_no_path_is_recorded(finished):
    _, records = finished
    steps = {}
    for record in records:
        for turn in record["turns"]:
            for source, counts in turn["sources"].items():
                steps[record["method"], source] = steps.get((record["method"], source), 0) + counts["steps"]
    assert steps["eagle", "eagle"] > 0 and steps["sam[e2]", "eagle2"] > 0
    assert {r["options"].get("vocabulary") for r in records if r["method"] == "sam[e2]"} == {259}  # the tiny model's
    folder = paths.RUNS.parent
    for file in paths.RUNS.rglob("*.json*"):
        assert str(folder) not in file.read_text() and "finished" not in file.read_text(), file


def test_another_head_is_another_run(monkeypatch):
    settings = run_settings(RUNS["table1"], PROFILE)
    monkeypatch.setattr(heads, "RANDOM_RULE", "another")
    others = run_settings(RUNS["table1"], PROFILE)
    assert {name for name in settings if settings[name] != others[name]} == {"head"}
    without = dataclasses.replace(PROFILE, paper=("pld",), device_sized=())
    assert "head" not in run_settings(RUNS["table1"], without)


def test_without_a_head_its_lines_are_not_run_which_is_said_once_and_the_others_are(monkeypatch, capsys):
    monkeypatch.setattr(runner, "load_model", lambda profile: load_model("smoke"))
    monkeypatch.setattr(runner, "load_static", lambda *a, **k: load_static("smoke", **k))
    for module in (runner, manifest, cost, heads):
        monkeypatch.setattr(module, "model_identity", lambda profile: "no-head")
    result = measure_table("table1", HEADLESS, progress=False)
    records = result.load()
    assert len(records) == 6 * (LINES - 2) and not any(record["error"] for record in records)
    why = "there is no EAGLE head for no-head in data/eagle"
    assert result.not_run == {("paper", "eagle"): why, ("device", "sam[e2]"): why}
    assert capsys.readouterr().err.count(why) == 1
    frame = table_rows("table1", records, result.not_run)
    overall = frame[frame["task"] == "overall"].set_index(["block", "method"])["identical"]
    assert overall["paper", "eagle"] == overall["device", "sam[e2]"] == "not run" and overall["paper", "sam"] == "6/6"
    assert measure_table("table1", HEADLESS, progress=False).not_run == result.not_run


def test_deleting_the_records_measures_anew(finished):
    path, records = finished
    path.unlink()
    assert run()[1][0]["turns"][0]["timings"] != records[0]["turns"][0]["timings"]


def test_other_data_set_the_records_aside_and_get_them_back(finished, tmp_path, monkeypatch):
    _, first = finished
    write_questions(tmp_path / "other", "Tell {} things on {}.")
    monkeypatch.setenv("SAMLIB_DATA", str(tmp_path / "other"))
    assert run(ONE_ROUND)[1] != first
    monkeypatch.setenv("SAMLIB_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(runner, "load_model", lambda profile: pytest.fail("loaded"))
    assert run() == finished


def fail_on(monkeypatch, method, question_text):
    answer = Contender.answer

    def failing(self, prompt_ids, max_new_tokens):
        if self.line.name == method and self.questions_seen == 1 and max_new_tokens == PROFILE.max_new_tokens:
            raise RuntimeError(question_text)
        return answer(self, prompt_ids, max_new_tokens)

    monkeypatch.setattr(Contender, "answer", failing)


@pytest.mark.parametrize("method", ["sam[t]", "hf_generate"])
def test_a_failing_question_is_recorded_left_out_of_all_rows_and_fails_the_check(monkeypatch, method):
    fail_on(monkeypatch, method, "out of\nmemory")
    _, records = run(ONE_ROUND)
    assert len(records) == 6 * LINES
    frame = table_rows("table1", records)
    assert set(frame[frame["task"] == "overall"]["n"]) == {5}
    assert all("RuntimeError: out of memory" in line for line in frame.attrs["failed"])
    with pytest.raises(LosslessnessError, match="out of memory"):
        check_run(records)


def test_a_method_that_gives_other_ids_is_shown_and_fails_the_check(monkeypatch):
    answer = Contender.answer

    def wrong(self, prompt_ids, max_new_tokens):
        found = answer(self, prompt_ids, max_new_tokens)
        if self.line.method == "pld" and self.line.block == "device":
            return dataclasses.replace(found, ids=[*found.ids[:-1], (found.ids[-1] + 1) % 259])
        return found

    monkeypatch.setattr(Contender, "answer", wrong)
    _, records = run(ONE_ROUND)
    frame = table_rows("table1", records)
    row = frame[(frame["block"] == "device") & (frame["method"] == "pld") & (frame["task"] == "overall")]
    assert row["identical"].item() == "0/6 + 6 different"
    with pytest.raises(LosslessnessError, match=r"pld \(device\), token 4"):
        check_run(records)


def test_table3_is_measured_with_table1(finished, monkeypatch):
    monkeypatch.setattr(runner, "load_model", lambda profile: pytest.fail("loaded"))
    path, records = run(table="table3")
    assert (path, records) == finished
    frame = table_rows("table3", records)
    rows = frame[frame["task"] == "overall"].set_index("method")
    assert set(rows["identical"]) == {"12/12"}
    ablated = [f"sam[t] without {module}" for module in ("static", "dynamic", "auxiliary")]
    assert set(rows.index) >= {*ablated, "sam without static", "sam without dynamic", "sam", "sam[t]"}


def test_a_cold_line_has_seen_nothing_before_its_question(finished):
    """Its first step never has a draft: the matrix is empty until something was verified."""
    _, records = finished
    lines = {name: [r for r in records if r["method"] == name] for name in ("token_recycling cold", "token_recycling")}
    none = {
        name: [r["turns"][0]["sources"].get("none", {"steps": 0})["steps"] for r in own] for name, own in lines.items()
    }
    assert min(none["token_recycling cold"]) >= 1
    assert min(none["token_recycling"][1:]) == 0


def test_a_prompt_is_prefilled_once_for_all_of_samlibs_lines(finished):
    _, records = finished
    for question in {record["question_id"] for record in records}:
        own = [r for r in records if r["question_id"] == question and r["block"] != "reference"]
        for turns in zip(*(record["turns"] for record in own), strict=True):
            made = [turn for turn in turns if turn["prefill_saved"] == 0]
            assert len(made) == 1
            assert all(turn["timings"]["prefill"] >= turn["prefill_saved"] > 0 for turn in turns if turn not in made)
            assert all(turn["timings"]["total"] > turn["timings"]["prefill"] for turn in turns)


def test_table2_has_a_corpus_and_drafters_for_each_data_set(monkeypatch):
    built = []
    load_static = runner.load_static
    monkeypatch.setattr(runner, "load_static", lambda *a, **k: built.append(k["dataset"]) or load_static(*a, **k))
    (paths.CORPUS / "answers" / "a.jsonl").rename(paths.CORPUS / "answers" / "code_0.jsonl")
    _, records = run(table="table2", minutes=0.001)
    assert built == ["mbpp", "hagrid"]
    assert [record["task"] for record in records[:22]] == ["mbpp"] * 11 + ["hagrid"] * 11
    assert {record["dataset"] for record in records} == {
        "embedded MBPP-like problems",
        "embedded HAGRID-like questions",
    }
    assert records[11]["questions_seen"] == 0  # the other data set's questions are not counted


def test_the_manifest_says_what_was_run(finished):
    _, records = finished
    names = {record["manifest"] for record in records}
    assert len(names) == 1
    text = (paths.RUNS / "smoke" / names.pop()).read_text()
    manifest = json.loads(text)
    assert manifest["rounds"] == 2 and manifest["wall_seconds"] > 0
    assert manifest["profile"]["max_new_tokens"] == 5
    assert manifest["device_options"].keys() == set(PROFILE.device_sized)
    assert manifest["head"] == heads.head_identity(PROFILE)
    assert str(paths.RUNS.parent) not in text and "finished" not in text
