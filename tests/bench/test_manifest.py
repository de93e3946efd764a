"""The manifest: complete, portable, atomic."""

import dataclasses
import datetime
import json

from samlib.bench.hello import first_contact
from samlib.bench.manifest import manifest_name, write_manifest
from samlib.bench.profiles import load_profile


def test_the_name_is_the_utc_time():
    now = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    assert manifest_name(now) == "manifest_20260102T030405Z.json"


def test_it_holds_what_is_needed_to_repeat_the_run(tmp_path):
    path = tmp_path / "runs" / "manifest.json"
    content = write_manifest(path, load_profile("smoke"), wall_seconds=1.5, table="1")
    assert json.loads(path.read_text()) == content
    assert {"commit", "dirty", "versions", "machine", "profile", "model", "datasets", "inputs"} <= set(content)
    assert content["wall_seconds"] == 1.5 and content["table"] == "1"
    assert content["versions"]["torch"] and content["machine"]["cpu"] and content["machine"]["threads"] >= 1
    assert all(len(digest) == 64 for digest in content["inputs"]["spec_bench"].values())
    assert "qa.jsonl" in content["inputs"]["spec_bench"]
    assert [p.name for p in path.parent.iterdir()] == ["manifest.json"]


def test_outside_a_git_checkout_the_commit_is_unknown_and_nothing_fails(tmp_path, monkeypatch):
    monkeypatch.setattr("samlib.paths.ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    content = write_manifest(tmp_path / "manifest.json", load_profile("smoke"))
    assert content["commit"] is None and content["dirty"] is None


def test_first_contact_names_model_device_threads_cost_and_time(tmp_path, monkeypatch):
    monkeypatch.setattr("samlib.paths.RUNS", tmp_path)
    text = first_contact("smoke", minutes=7)
    for part in ("tiny-random", "thread", "T(8)/T(1) = ", "32 lines on each of 12 questions", "about 7 minutes"):
        assert part in text


def test_a_run_without_data_sets_is_not_announced(tmp_path, monkeypatch):
    monkeypatch.setattr("samlib.paths.RUNS", tmp_path)
    text = first_contact(dataclasses.replace(load_profile("smoke"), datasets=("spec_bench",)))
    assert "Tables 1 and 3" in text and "Table 2" not in text
