"""The manifest of a run: what exactly produced the records beside it."""

import datetime
import json
import platform
import subprocess
from importlib import metadata

from samlib import paths
from samlib.bench.data import data_source, question_files
from samlib.bench.machine import machine
from samlib.bench.model import model_identity, sha256_of
from samlib.bench.records import write_whole
from samlib.bench.static import corpus_files

PACKAGES = ("samlib", "torch", "transformers", "tokenizers", "safetensors", "numpy", "scipy", "Cython")


def manifest_name(now=None):
    """`manifest_<UTC time>.json`, the file name of a manifest."""
    now = now or datetime.datetime.now(datetime.UTC)
    return f"manifest_{now:%Y%m%dT%H%M%SZ}.json"


def write_manifest(path, profile, *, datasets=("spec_bench",), wall_seconds=None, **facts):
    """Write the manifest of a run to `path` (replacing an earlier one of the same run) and return its content.

    datasets: those whose questions and corpora the run reads.
    Call it when the run starts, so that a run that is killed has one, and again at its end with `wall_seconds`.
    `facts`: anything else that belongs to it, as JSON types.
    """
    content = {
        "written": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        **_commit(),
        "versions": _versions(),
        "machine": machine(),
        "profile": profile.parameters(),
        "model": model_identity(profile),
        "datasets": {name: data_source(profile, name) for name in datasets},
        "inputs": {name: _input_hashes(name) for name in datasets},
        "wall_seconds": wall_seconds,
        **facts,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
    return content


def _commit():
    """The commit and whether tracked files differ from it; both None outside a git checkout."""
    commit = _git("rev-parse", "HEAD")
    status = _git("status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "dirty": None if commit is None or status is None else bool(status)}


def _git(*arguments):
    try:
        result = subprocess.run(["git", "-C", str(paths.ROOT), *arguments], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() if result.returncode == 0 else None


def _versions():
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    return versions


def _input_hashes(dataset):
    """The checksums of the files that a run reads, by file name: no absolute path leaves the machine."""
    return {path.name: sha256_of(path) for path in (*question_files(dataset), *corpus_files(dataset))}
