"""tests/sanitize.sh: what it says, in one line, where something that it needs is missing."""

import os
import shutil
import subprocess
import sys

import pytest

from samlib import paths

SCRIPT = paths.ROOT / "tests" / "sanitize.sh"
TOOLS = ("bash", "dirname", "grep", "head")
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="a copy of the tests without the repository around it")


@pytest.fixture()
def clone(tmp_path):
    """A folder with the script in its place, and a PATH without a compiler."""
    (tmp_path / "a clone" / "tests").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    shutil.copy(SCRIPT, tmp_path / "a clone" / "tests")
    for tool in TOOLS:
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool))
    return tmp_path


def call(clone, **variables):
    """Calls the script in the clone: (status, stderr)."""
    script = clone / "a clone" / "tests" / "sanitize.sh"
    environment = {"PATH": str(clone / "bin"), "PYTHON": sys.executable} | variables
    done = subprocess.run([script], env=environment, cwd=clone, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def compiler(clone, text):
    path = clone / "bin" / "gcc"
    path.write_text(f"#!/usr/bin/env bash\n{text}\n")
    path.chmod(0o755)


def test_no_environment_yet(clone):
    status, errors = call(clone, PYTHON=str(clone / ".venv" / "bin" / "python"))
    assert status == 1
    assert errors.count("\n") == 1 and "run ./run_all.sh --test once" in errors


def test_no_compiler(clone):
    assert call(clone) == (1, "sanitize: no gcc: install gcc, e.g. apt-get install gcc\n")


def test_another_compiler(clone):
    compiler(clone, "echo clang version 14")
    assert call(clone) == (1, "sanitize: gcc is not gcc: run with CC=gcc\n")


def test_no_library(clone):
    compiler(clone, 'case "$1" in --version) echo gcc 12 ;; *) echo "${1#-print-file-name=}" ;; esac')
    status, errors = call(clone)
    assert status == 1
    assert errors.count("\n") == 1 and errors.startswith("sanitize: gcc has no libasan: install it")


def test_a_failed_build_names_its_log(clone):
    (clone / "a clone" / "setup.py").write_text("raise SystemExit('no such flag')")
    compiler(clone, 'case "$1" in --version) echo gcc 12 ;; *) echo "/lib/${1#-print-file-name=}" ;; esac')
    for tool in ("rm", "mkdir", "tail"):
        (clone / "bin" / tool).symlink_to(shutil.which(tool))
    status, errors = call(clone)
    assert status == 1
    assert errors == f"sanitize: the build failed: no such flag (log: {clone}/a clone/build/sanitized/build.log)\n"


def test_the_script_can_be_executed():
    assert os.access(SCRIPT, os.X_OK)
