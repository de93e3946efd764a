"""run_all.sh itself, in a small clone with a stand-in for pip: what it installs, when, and what it says if not."""

import os
import shutil
import subprocess
import sys
import sysconfig

import pytest

from samlib import paths

TOOLS = ("bash", "cat", "grep", "df", "awk", "tail", "dirname", "mkdir", "rm", "cut", "sed", "env", "head", "sleep")
COPIED = ("run_all.sh", "pyproject.toml", "setup.py", "samlib/cli", "samlib/bench/profiles")
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")

# Notes what pip is asked for, and fails when the file `broken` holds a reason. `-m samlib` is not run.
STAND_IN = """#!/usr/bin/env bash
here="$(dirname "$0")"
case "$*" in
    *"-m pip install"*)
        all="$*"
        echo "${all#*--retries 2 }" >> "$here/asked"
        if [[ -f "$here/broken" ]]; then cat "$here/broken"; exit 1; fi ;;
    *"-m samlib"*) echo "ran: $*" ;;
    *) exec "PYTHON" "$@" ;;
esac
"""


class Clone:
    """A copy of what run_all.sh needs, a PATH of its own, and an active environment with the stand-in for pip."""

    def __init__(self, root):
        self.root = root / "a clone"
        self.bin = root / "bin"
        self.environment = root / "an environment"
        for name in COPIED:
            self._copy(name)
        (self.root / "samlib" / "one.pyx").write_text("x = 1\n")
        (self.root / "samlib" / f"one{SUFFIX}").touch()
        (self.environment / "bin").mkdir(parents=True)
        self.script(self.environment / "bin" / "python", STAND_IN.replace("PYTHON", sys.executable))
        self.bin.mkdir()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.script(self.bin / "gcc", "#!/usr/bin/env bash\n")
        (self.bin / "python3").symlink_to(os.path.realpath(sys.executable))

    def _copy(self, name):
        source, target = paths.ROOT / name, self.root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)

    @staticmethod
    def script(path, text):
        """Writes an executable file."""
        path.unlink(missing_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def call(self, *words, active=True, **variables):
        """Calls run_all.sh from another folder; returns (status, stdout, stderr, what pip was asked for)."""
        asked = self.environment / "bin" / "asked"
        asked.unlink(missing_ok=True)
        environment = {"PATH": str(self.bin), "HOME": str(self.root)} | variables
        if active:
            environment["VIRTUAL_ENV"] = str(self.environment)
        done = subprocess.run(
            [self.root / "run_all.sh", *words],
            cwd=self.bin,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        requests = asked.read_text().splitlines() if asked.exists() else []
        return done.returncode, done.stdout, done.stderr, requests

    def break_pip(self, reason):
        """Lets every further pip call fail with this text in its log."""
        (self.environment / "bin" / "broken").write_text(reason)

    def mend_pip(self):
        """Undoes break_pip."""
        (self.environment / "bin" / "broken").unlink()


@pytest.fixture
def clone(tmp_path):
    """A Clone."""
    return Clone(tmp_path)


def test_first_build_tools_then_torch_then_the_rest_then_the_package(clone):
    status, shown, _, asked = clone.call("--profile", "smoke")
    assert status == 0
    assert "ran: -P -m samlib run --profile smoke" in shown
    assert [line.split()[0].partition("==")[0] for line in asked[:3]] == ["cython", "torch", "transformers"]
    assert asked[3] == f"--no-deps --no-build-isolation --editable {clone.root}"
    assert len(asked) == 4


def test_a_second_call_installs_nothing(clone):
    clone.call()
    status, shown, _, asked = clone.call()
    assert (status, asked) == (0, [])
    assert "ran:" in shown


def test_another_index_for_torch_alone(clone):
    *_, asked = clone.call(TORCH_INDEX="an index")
    assert [line for line in asked if "--index-url" in line] == ["--index-url an index torch==2.13.0"]


@pytest.mark.parametrize(("status", "line"), [(0, "all tests passed"), (1, "run_all: failed: tests under sanitizers")])
def test_the_sanitized_tests_are_run_by_the_same_python(clone, status, line):
    script = clone.root / "tests" / "sanitize.sh"
    script.parent.mkdir()
    clone.script(script, f'#!/usr/bin/env bash\necho "sanitized by $PYTHON"\nexit {status}\n')
    found, shown, errors, _ = clone.call("--test-sanitized")
    assert found == status
    assert shown == f"sanitized by {clone.environment}/bin/python\n"
    assert errors.splitlines()[-1] == line


@pytest.mark.parametrize("change", ["edited", "extension gone", "debug"])
def test_the_package_alone_is_built_again(clone, change):
    clone.call()
    if change == "edited":
        (clone.root / "samlib" / "one.pyx").write_text("x = 2\n")
    elif change == "extension gone":
        (clone.root / "samlib" / f"one{SUFFIX}").unlink()
    *_, asked = clone.call(**({"SAMLIB_DEBUG_BUILD": "1"} if change == "debug" else {}))
    assert [line.split()[0] for line in asked] == ["--no-deps"]


def test_other_requirements_are_installed(clone):
    clone.call()
    with open(clone.root / "pyproject.toml", "a") as file:
        file.write("# another\n")
    *_, asked = clone.call()
    assert len(asked) == 4


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("WARNING: NewConnectionError\nERROR: No matching distribution", "cannot be reached: check the network"),
        ("OSError: [Errno 28] No space left on device", "no space left on the disk"),
        ("noise\n  samlib/one.pyx:3:7: Expected ')'\nerror: x", "samlib/one.pyx:3:7: Expected ')'"),
    ],
)
def test_a_failed_step_is_one_line_and_is_not_taken_for_done(clone, log, reason):
    clone.break_pip(log)
    status, shown, errors, asked = clone.call()
    assert (status, shown, len(asked)) == (1, "", 1)
    last = errors.splitlines()[-1]
    assert last.startswith("run_all: installing build tools failed: ")
    assert reason in last and str(clone.root / "build" / "logs") in last
    clone.mend_pip()
    assert len(clone.call()[3]) == 4


def test_a_failed_build_is_tried_again(clone):
    clone.call()
    (clone.root / "samlib" / "one.pyx").write_text("x =\n")
    clone.break_pip("samlib/one.pyx:1:3: Expected an expression\n")
    assert "building samlib failed: samlib/one.pyx:1:3" in clone.call()[2]
    status, _, _, asked = clone.call()
    assert (status, len(asked)) == (1, 1)


@pytest.mark.parametrize(
    ("missing", "line"),
    [
        ("gcc", "run_all: no C compiler (gcc or clang): install one, e.g. apt-get install gcc"),
        ("python3", "run_all: no Python 3.11 or newer found"),
    ],
)
def test_what_the_machine_lacks_is_said_before_anything_is_installed(clone, missing, line):
    (clone.bin / missing).unlink()
    status, _, errors, asked = clone.call(active=missing != "python3")
    assert (status, asked) == (1, [])
    assert errors.splitlines()[-1].startswith(line)


def test_a_full_disk_is_said_before_anything_is_installed(clone):
    clone.script(clone.bin / "df", "#!/usr/bin/env bash\necho head\necho disk 9 9 102400 9%\n")
    status, _, errors, asked = clone.call()
    assert (status, asked) == (1, [])
    assert "has 100 MB free, 4 GB are needed" in errors


def test_a_dry_run_without_an_environment_installs_nothing(clone):
    status, _, errors, _ = clone.call("--dry-run", active=False)
    assert status == 0
    assert "not there yet" in errors
    assert not (clone.root / ".venv").exists()


def test_an_environment_that_is_too_old_is_named(clone):
    clone.script(clone.environment / "bin" / "python", "#!/usr/bin/env bash\nexit 1\n")
    status, _, errors, _ = clone.call()
    assert status == 1
    assert "is not Python 3.11 or newer: deactivate that environment" in errors


def test_conda_s_base_is_left_alone(clone):
    (clone.bin / "gcc").unlink()
    _, _, errors, _ = clone.call(active=False, CONDA_PREFIX=str(clone.environment), CONDA_DEFAULT_ENV="base")
    assert "conda's base environment is left alone" in errors
