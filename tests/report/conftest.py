"""Every test of the report writes into a folder of its own."""

import pytest

from samlib import paths


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    """`figures/` and `runs/` under the test's temporary folder."""
    monkeypatch.setattr(paths, "FIGURES", tmp_path / "figures")
    monkeypatch.setattr(paths, "RUNS", tmp_path / "runs")
    return tmp_path
