"""The runner on the smoke profile and a handful of questions: interleaving, resuming, failing, settings set aside."""

import dataclasses
import json
import shutil

import pytest

from samlib import paths
from samlib.bench import runner
from samlib.bench.answers import Contender
from samlib.bench.data import TASKS
from samlib.bench.losslessness import LosslessnessError
from samlib.bench.metrics import check_run, table1_rows
from samlib.bench.profiles import load_profile
from samlib.bench.records import RecordStore
from samlib.bench.runner import run_table1

PROFILE = dataclasses.replace(
    load_profile("smoke"), max_new_tokens=5, max_rounds=2, cost_widths=(1, 8), cost_repeats=1, cost_contexts=(20,)
)
ONE_ROUND = dataclasses.replace(PROFILE, min_rounds=1, max_rounds=1)
METHODS = 11  # the oracle, the baseline, four in each block, prompt lookup


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


def run(profile=PROFILE, **options):
    path = run_table1(profile, progress=False, **options)
    return path, RecordStore(path).load()


class Interrupt(Exception):
    """Stands for a kill between two records."""


def test_a_whole_run_is_lossless_and_fills_the_table(finished):
    _, records = finished
    assert len(records) == 12 * METHODS
    assert not any(record["error"] for record in records)
    check_run(records)
    frame = table1_rows(records)
    overall = frame[frame["task"] == "overall"]
    assert set(overall["n"]) == {12} and set(overall["identical"]) == {"12/12"}
    assert overall["speedup_low"].notna().all()
    assert sorted(frame[frame["block"] == "paper"]["method"].unique()) == sorted(["autoregressive", *PROFILE.paper])


def test_methods_follow_each_other_on_a_question_and_questions_go_round_the_tasks(finished):
    _, records = finished
    ids = [record["question_id"] for record in records]
    blocks = [ids[i : i + METHODS] for i in range(0, len(ids), METHODS)]
    assert all(len(set(block)) == 1 for block in blocks)
    assert [records[i]["task"] for i in range(0, len(ids), METHODS)] == [*TASKS, *TASKS]
    orders = [[(r["block"], r["method"]) for r in records[i : i + METHODS]] for i in range(0, len(ids), METHODS)]
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
        if len(appended) == 2 * METHODS + 3:
            raise Interrupt
        appended.append(record)
        append(self, record)

    with monkeypatch.context() as patch, pytest.raises(Interrupt):
        patch.setattr(RecordStore, "append", stop_after_some)
        run()
    path = paths.RUNS / "smoke" / "records" / "table1.jsonl"
    path.write_bytes(path.read_bytes()[:-30])  # the last line was torn as well
    _, records = run()
    assert len(records) == 12 * METHODS
    whole = {record["key"]: record for record in records}
    assert all(whole[record["key"]] == record for record in appended[: 2 * METHODS])
    redone = appended[2 * METHODS]  # its question was not finished: all its methods ran again, back to back
    assert whole[redone["key"]]["turns"][0]["timings"] != redone["turns"][0]["timings"]


def test_more_minutes_measure_more_rounds():
    profile = dataclasses.replace(PROFILE, min_rounds=1)
    assert len(run(profile, minutes=0.001)[1]) == 6 * METHODS
    assert len(run(profile, minutes=60)[1]) == 12 * METHODS


def test_a_budget_too_small_is_said_and_the_least_is_measured(capsys):
    _, records = run(minutes=0.001)
    assert len(records) == 12 * METHODS
    assert "the least that is measured, 2 questions of each task, takes" in capsys.readouterr().err


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
        if self.method == method and self.questions_seen == 1 and max_new_tokens == PROFILE.max_new_tokens:
            raise RuntimeError(question_text)
        return answer(self, prompt_ids, max_new_tokens)

    monkeypatch.setattr(Contender, "answer", failing)


@pytest.mark.parametrize("method", ["sam[t]", "hf_generate"])
def test_a_failing_question_is_recorded_left_out_of_all_rows_and_fails_the_check(monkeypatch, method):
    fail_on(monkeypatch, method, "out of\nmemory")
    _, records = run(ONE_ROUND)
    assert len(records) == 6 * METHODS
    frame = table1_rows(records)
    assert set(frame[frame["task"] == "overall"]["n"]) == {5}
    assert all("RuntimeError: out of memory" in line for line in frame.attrs["failed"])
    with pytest.raises(LosslessnessError, match="out of memory"):
        check_run(records)


def test_a_method_that_gives_other_ids_is_shown_and_fails_the_check(monkeypatch):
    answer = Contender.answer

    def wrong(self, prompt_ids, max_new_tokens):
        found = answer(self, prompt_ids, max_new_tokens)
        if self.method == "pld" and self.block == "device":
            return dataclasses.replace(found, ids=[*found.ids[:-1], (found.ids[-1] + 1) % 259])
        return found

    monkeypatch.setattr(Contender, "answer", wrong)
    _, records = run(ONE_ROUND)
    frame = table1_rows(records)
    row = frame[(frame["block"] == "device") & (frame["method"] == "pld") & (frame["task"] == "overall")]
    assert row["identical"].item() == "0/6 + 6 different"
    with pytest.raises(LosslessnessError, match=r"pld \(device\), token 4"):
        check_run(records)


def test_the_manifest_says_what_was_run(finished):
    _, records = finished
    names = {record["manifest"] for record in records}
    assert len(names) == 1
    text = (paths.RUNS / "smoke" / names.pop()).read_text()
    manifest = json.loads(text)
    assert manifest["rounds"] == 2 and manifest["wall_seconds"] > 0
    assert manifest["profile"]["max_new_tokens"] == 5
    assert manifest["device_options"].keys() == set(PROFILE.device_sized)
    assert str(paths.RUNS.parent) not in text and "finished" not in text
