"""The device check in small: all its parts, its files, its exit statuses, and what it says when time is short."""

import dataclasses
import json
import subprocess
import sys

import pytest
import torch

import samlib
from samlib import paths
from samlib.bench import device_check
from samlib.bench.device_check import (
    HEAD_METHODS,
    NO_HIDDEN,
    PARTS,
    SMALL,
    SOME_METHODS,
    Check,
    counted_waits,
    main,
)
from samlib.bench.device_check_table import device_check_markdown


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """(exit status, JSON content, Markdown, folder) of one small run."""
    folder = tmp_path_factory.mktemp("device_check") / "new" / "folder"
    status = main(["--small", "--out", str(folder)])
    content = json.loads((folder / "device_check.json").read_text())
    return status, content, (folder / "device_check.md").read_text(), folder


def test_a_small_run_is_well_and_leaves_two_whole_files(finished):
    status, content, page, folder = finished
    assert status == 0 and content["failures"] == {}
    assert content["notes"] == [f"speed: eagle, eagle2, sam[e], sam[e2] {NO_HIDDEN}"]
    assert content["notes"][0] in page
    assert sorted(file.name for file in folder.iterdir()) == ["device_check.json", "device_check.md"]
    assert device_check_markdown(content) == page
    assert "Has not run" not in page and "Nothing was measured" not in page


def test_it_says_what_it_ran_on(finished):
    _, content, page, folder = finished
    assert content["device"] in page.splitlines()[0]
    assert {"commit", "dirty", "versions", "wall_seconds", "machine"} <= content.keys()
    assert content["versions"]["torch"] in page and content["wall_seconds"] > 0
    assert list(content["part_seconds"]) == list(PARTS)
    assert str(folder) not in json.dumps(content) + page


def test_every_method_is_measured_plain_and_captured(finished):
    rows = finished[1]["results"]["speed"]["rows"]
    ways = {(row["method"], row["way"]) for row in rows}
    plain, captured = ({(method, way) for method in samlib.METHODS} for way in ("plain", "captured"))
    assert ways == {("hf_generate", "reference")} | plain | {row for row in captured if row[0] not in HEAD_METHODS}
    assert {row["n"] for row in rows} == {6}
    assert [row["speedup"] for row in rows if (row["method"], row["way"]) == ("autoregressive", "plain")] == [1.0]
    assert all(row["comparisons"][0]["dtype"] == "bfloat16" for row in rows)


def test_waits_are_counted_for_every_way_of_drafting(finished):
    """Hidden states are there with plain forwards only."""
    rows = [(row["way"], row["method"]) for row in finished[1]["results"]["synchronisations"]]
    assert {method for way, method in rows if way == "plain"} == {*SOME_METHODS, *HEAD_METHODS}
    assert {method for way, method in rows if way == "captured"} == set(SOME_METHODS)
    assert len(rows) == len(set(rows)) and all(f"| {way} | {method} |" in finished[2] for way, method in rows)


def test_methods_without_their_head_are_left_out_and_named(tmp_path, monkeypatch):
    monkeypatch.setattr(device_check, "head_options", lambda profile, model, method: {})
    monkeypatch.setattr(device_check, "PARTS", {name: PARTS[name] for name in ("synchronisations", "speed")})
    check = Check(SMALL, tmp_path)
    assert check.run() and not check.failures
    assert [note.split(" left out")[0] for note in check.notes] == [
        f"{part}: {method}" for part in ("synchronisations", "speed") for method in HEAD_METHODS
    ]
    assert all("needs an EAGLE head" in note for note in check.notes)


def test_the_cost_is_measured_at_each_context_plain_and_captured(finished):
    _, content, page, _ = finished
    assert {c: set(ways) for c, ways in content["results"]["cost"].items()} == {
        str(context): {"plain", "captured"} for context in SMALL.contexts
    }
    assert all(list(map(int, c)) == list(SMALL.widths) for w in content["results"]["cost"].values() for c in w.values())
    assert page.count("| T(8) |") == len(SMALL.contexts)


def test_captured_and_plain_agree(finished):
    found = finished[1]["results"]["equality"]
    assert found["identical"] == "9/9"
    assert list(map(int, found["largest_difference"])) == list(SMALL.widths)
    assert max(found["largest_difference"].values()) < 1e-3


def test_captured_forwards_that_are_wrong_fail_the_check(tmp_path, monkeypatch):
    """Hide the last cached token from all rows: the logits move, and answers differ."""
    from samlib.decoding.captured import StaticForward

    mask = StaticForward._mask
    monkeypatch.setattr(StaticForward, "_mask", lambda self, start, sees: mask(self, start - 1, sees))
    monkeypatch.setattr(device_check, "PARTS", {"equality": PARTS["equality"]})
    check = Check(SMALL, tmp_path)
    assert not check.run() and not check.failures
    assert max(check.results["equality"]["largest_difference"].values()) > 0.1
    assert "different" in check.results["equality"]["identical"]


def test_without_a_cuda_device_one_line_and_status_two(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main([]) == 2
    assert capsys.readouterr().err == (
        "no CUDA device here: run this on a machine with one, or with --small on the CPU\n"
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here: the whole check would run")
def test_the_command_has_the_same_status():
    done = subprocess.run([sys.executable, "-m", "samlib.bench.device_check"], cwd=paths.ROOT, capture_output=True)
    assert done.returncode == 2 and done.stdout == b"" and done.stderr.count(b"\n") == 1


def test_without_time_every_part_is_left_out_and_says_so(tmp_path):
    assert main(["--small", "--out", str(tmp_path), "--minutes", "0"]) == 0
    page = (tmp_path / "device_check.md").read_text()
    assert page.count("left out, the time was used up") == len(PARTS) == page.count("Has not run.")


def short_of_time(monkeypatch, tmp_path, part, seconds):
    """A check of one part, whose clock shows each of `seconds` in turn, then 0."""
    remaining = iter(seconds)
    monkeypatch.setattr(Check, "left", lambda self: next(remaining, 0.0))
    monkeypatch.setattr(device_check, "PARTS", {part: PARTS[part]})
    check = Check(SMALL, tmp_path)
    check.run()
    return check


def test_when_time_runs_short_fewer_questions_are_measured(tmp_path, monkeypatch):
    check = short_of_time(monkeypatch, tmp_path, "speed", [100.0, 100.0, 100.0])
    assert check.results["speed"]["questions"] == 2
    assert check.notes[1:] == ["speed: 2 of 6 questions measured, the time did not suffice for more"]
    assert check.notes[1] in (tmp_path / "device_check.md").read_text()


def test_when_time_runs_short_later_cells_of_the_cost_are_left_out(tmp_path, monkeypatch):
    check = short_of_time(monkeypatch, tmp_path, "cost", [100.0, 1e-6])
    assert check.results["cost"] == {}
    assert len(check.notes) == 4 and "captured forwards at context 40 left out" in check.notes[-1]


def test_a_model_that_does_not_fit_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(device_check, "_free_bytes", lambda device: 100_000)
    monkeypatch.setattr(device_check, "PARTS", {"cost": PARTS["cost"]})
    check = Check(SMALL, tmp_path)
    assert check.run() and check.results["cost"] == {}
    assert "0.0 GB are free" in check.notes[0]
    assert "Nothing was measured." in (tmp_path / "device_check.md").read_text()


def test_the_large_model_has_the_size_of_vicuna_7b():
    assert device_check._bytes_of(device_check.FULL) == 2 * 6_738_415_616


def test_a_part_that_fails_spares_the_others_and_fails_the_check(tmp_path, monkeypatch):
    def broken(check):
        raise RuntimeError("out of\nmemory")

    monkeypatch.setattr(device_check, "PARTS", {"cost": broken, "synchronisations": PARTS["synchronisations"]})
    assert main(["--small", "--out", str(tmp_path)]) == 1
    page = (tmp_path / "device_check.md").read_text()
    assert "**Failed:** RuntimeError: out of memory" in page
    assert "| captured | sam |" in page


def test_a_wrong_answer_fails_the_check(tmp_path, monkeypatch):
    monkeypatch.setattr(device_check, "PARTS", {"speed": lambda check: {"rows": [], "questions": 0, "wrong": True}})
    assert main(["--small", "--out", str(tmp_path)]) == 1


def test_waits_are_counted_and_torch_is_left_as_it_was(monkeypatch):
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *args: None)
    before = torch.cuda.synchronize
    with counted_waits("cpu") as waits:
        torch.cuda.synchronize()
        torch.cuda.synchronize()
    assert waits == {"read": None, "synchronize": 2}
    assert torch.cuda.synchronize is before


def test_small_differs_from_full_in_size_only():
    same = {"shape"}
    full, small = dataclasses.asdict(device_check.FULL), dataclasses.asdict(SMALL)
    assert all(full[name] != small[name] for name in full.keys() - same)
    assert full["shape"].keys() == small["shape"].keys()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device: waits for one are counted there")
def test_reading_a_value_off_a_gpu_is_a_wait():
    value = torch.ones(3, device="cuda")
    with counted_waits("cuda") as waits:
        value.sum().item()
    assert waits["read"] == 1
