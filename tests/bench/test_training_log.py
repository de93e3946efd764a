"""Reading a shipped training: what is on file, as it is, and one clear line about what is not."""

import json
import subprocess
import sys

import numpy as np
import pytest

from samlib import MissingAssetError, SetupError, paths
from samlib.bench.training_log import about_shipped, is_shipped, shipped_training
from tests.bench.training_records import (
    MANIFEST,
    STEPS,
    step_records,
    trial_records,
    vocabulary_records,
    write_training,
)


@pytest.fixture
def heads(tmp_path, monkeypatch):
    """The folder that heads are shipped in."""
    monkeypatch.setattr(paths, "EAGLE_HEADS", tmp_path)
    return tmp_path


def test_all_lines_are_read_each_into_its_frame(heads):
    shipped = shipped_training(write_training(heads / "any"))
    assert shipped.manifest == MANIFEST and shipped.folder == heads / "any"
    for frame, records in (
        (shipped.steps, step_records()),
        (shipped.trials, trial_records()),
        (shipped.vocabularies, vocabulary_records()),
    ):
        assert len(frame) == len(records)
        for name in set(frame.columns) & set(records[0]):
            wanted = [np.nan if record[name] is None else record[name] for record in records]
            np.testing.assert_array_equal(frame[name], wanted)
    shares = shipped.trials[["p1", "p2", "p3", "p4"]].to_numpy().tolist()
    assert shares == [record["by_depth"] for record in trial_records()]


def test_the_head_of_a_profile_is_the_one_named_after_its_model(heads):
    assert not is_shipped("cpu")
    write_training(heads / "smollm2-135m-instruct")
    assert is_shipped("cpu") and not is_shipped("smoke")
    assert shipped_training("cpu").manifest["steps"] == STEPS
    assert "smollm2-135m-instruct was trained for 3,000 steps" in about_shipped("cpu")


def test_where_none_is_shipped_one_line_says_so(heads):
    assert about_shipped("smoke").startswith("no EAGLE head is shipped for the model tiny-random: ")
    with pytest.raises(MissingAssetError, match=r"no EAGLE head at .*tiny-random: train one"):
        shipped_training("smoke")


@pytest.mark.parametrize("name", ["training.json", "log.jsonl"])
def test_a_head_without_manifest_or_log_is_named(heads, name):
    (write_training(heads / "any") / name).unlink()
    with pytest.raises(MissingAssetError, match=f"any has no {name}: restore it"):
        shipped_training(heads / "any")


def test_a_comparison_of_vocabularies_may_be_missing(heads):
    shipped = shipped_training(write_training(heads / "any", vocabularies=[]))
    assert len(shipped.vocabularies) == 0 and len(shipped.trials) == len(trial_records())


@pytest.mark.parametrize(
    "kept, message",
    [({"steps": []}, "0 steps and 7 trials"), ({"trials": []}, "300 steps and 0 trials")],
)
def test_a_log_that_lacks_a_part_is_refused(heads, kept, message):
    write_training(heads / "any", **kept)
    with pytest.raises(SetupError, match=message):
        shipped_training(heads / "any")


def test_a_damaged_line_is_named_with_its_number(heads):
    log = write_training(heads / "any") / "log.jsonl"
    lines = log.read_text().splitlines()
    for damaged in (lines[2][:-3], "7", "[[1]]"):
        log.write_text("\n".join([*lines[:2], damaged, *lines[3:]]) + "\n")
        with pytest.raises(SetupError, match=r"log\.jsonl:3 is not a record of a training"):
            shipped_training(heads / "any")


def test_a_record_without_one_of_its_numbers_is_refused(heads):
    records = trial_records()
    del records[3]["high"]
    write_training(heads / "any", trials=records)
    with pytest.raises(SetupError, match="records without high"):
        shipped_training(heads / "any")
    records = trial_records()
    records[3]["by_depth"].pop()
    write_training(heads / "any", trials=records)
    with pytest.raises(SetupError, match="records without p4"):
        shipped_training(heads / "any")


@pytest.mark.parametrize("text", ["{", "[]", json.dumps({"documents": 3})])
def test_a_damaged_manifest_is_refused(heads, text):
    (write_training(heads / "any") / "training.json").write_text(text)
    with pytest.raises(SetupError, match=r"training\.json is not the manifest"):
        shipped_training(heads / "any")


def test_reading_needs_no_torch():
    code = "import sys, samlib.bench.training_log as log; log.is_shipped('cpu'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=paths.ROOT, timeout=120).returncode == 0
