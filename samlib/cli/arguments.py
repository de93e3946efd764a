"""The flags of run_all.sh and of `python -m samlib run`, checked before anything is installed or loaded.

Standard library only, and never imports the rest of samlib: run_all.sh asks (through before_install.py) at a time when
nothing is built yet.
"""

import argparse
import difflib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[2]
DATASETS = ("spec_bench", "human_eval", "mbpp", "hagrid")  # the folders of a --data folder
TEST_FLAGS = ("--test", "--test-slow", "--test-sanitized")

DESCRIPTION = """\
Reproduces the SAM-Decoding paper's tables and figures on this machine: prepares an environment (.venv, or the active
virtual or conda environment), builds samlib, obtains the model and the data, runs the numbered notebooks, and writes
figures/PROFILE/ and runs/PROFILE/. A second call resumes; what is finished is not done again."""

EPILOG = """\
environment variables:
  TORCH_INDEX          another wheel index for torch, handed to pip as --index-url. Without it pip's own index is used,
                       where torch for Linux is the CUDA build of several GB. A laptop without a GPU is served better
                       by the CPU wheel index that pytorch.org's install page names.
  SAMLIB_DATA          the same as --data
  SAMLIB_DEBUG_BUILD   1 builds samlib with bounds checks and debug symbols

exit status: 0 all done; 1 something failed, the last line says what; 2 a flag or its value is wrong"""


class UsageError(ValueError):
    """A flag or its value is wrong; the message is one line that says what to type instead."""


@dataclass(frozen=True)
class Options:
    """What the user asked for. `only` is empty for all notebooks; `minutes` None for the profile's own budget."""

    profile: str = "cpu"
    only: tuple[str, ...] = ()
    minutes: float | None = None
    dry_run: bool = False
    fresh: bool = False
    data: Path | None = None
    executor: str = "local"
    parameters: dict[str, str] = field(default_factory=dict)
    test: bool = False
    test_slow: bool = False
    test_sanitized: bool = False


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def nearest(name: str, known) -> str:
    """'; did you mean X?' for the closest of the known names, or nothing where none is close."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""


def profile_names() -> list[str]:
    """The profiles there are, by their files."""
    return sorted(path.stem for path in (ROOT / "samlib" / "bench" / "profiles").glob("*.yaml"))


def notebook_numbers() -> list[str]:
    """The two-digit numbers of the notebooks there are."""
    return sorted(path.name[:2] for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))


def parser(prog: str = "run_all.sh") -> argparse.ArgumentParser:
    """The command line; its help text is what `./run_all.sh --help` prints."""
    out = _Parser(
        prog=prog,
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_run_flags(out)
    tests = out.add_argument_group("tests (instead of a run)")
    tests.add_argument("--test", action="store_true", help="unit tests, the notebooks with profile smoke, lint")
    tests.add_argument("--test-slow", action="store_true", help="the tests that take minutes")
    sanitized = "the compiled code's tests under the address and undefined-behaviour sanitizers (needs gcc and libasan)"
    tests.add_argument("--test-sanitized", action="store_true", help=sanitized)
    return out


def _add_run_flags(out: argparse.ArgumentParser) -> None:
    known = ", ".join(profile_names())
    out.add_argument("--profile", default="cpu", metavar="NAME", help=f"what to run: {known} (default: cpu)")
    out.add_argument("--minutes", metavar="N", help="time budget of the measurements; decides how many questions")
    out.add_argument("--only", default="", metavar="NN,NN", help="only these notebooks, by number, e.g. 00,02")
    out.add_argument("--dry-run", action="store_true", help="say what would be run and downloaded, then stop")
    out.add_argument("--fresh", action="store_true", help="forget this profile's records and executed notebooks first")
    out.add_argument("--data", metavar="DIR", help="use the real data sets in DIR; data/README.md names their files")
    out.add_argument("--executor", default="local", metavar="NAME", help="where notebooks run: local")
    out.add_argument(
        "-p",
        "--parameter",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a notebook's parameter; may be repeated",
    )


def parse(argv: list[str], prog: str = "run_all.sh") -> Options:
    """The options in `argv`, every value checked as far as files and names allow; UsageError otherwise."""
    made = parser(prog)
    flags = [flag for action in made._actions for flag in action.option_strings]
    found, unknown = made.parse_known_args(argv)
    if unknown:
        flag = unknown[0].partition("=")[0]
        what = "flag" if flag.startswith("-") else "argument"
        raise UsageError(f"unknown {what} {flag}{nearest(flag, flags)} (--help lists all flags)")
    _check_alone(argv)
    return Options(
        profile=_profile(found.profile),
        only=_numbers(found.only),
        minutes=_minutes(found.minutes),
        dry_run=found.dry_run,
        fresh=found.fresh,
        data=_data(found.data),
        executor=_executor(found.executor),
        parameters=_parameters(found.parameter),
        test=found.test,
        test_slow=found.test_slow,
        test_sanitized=found.test_sanitized,
    )


def _check_alone(argv: list[str]) -> None:
    others = [word for word in argv if word not in TEST_FLAGS]
    if len(others) < len(argv) and others:
        raise UsageError(f"{', '.join(TEST_FLAGS)} take no other flags; leave out {others[0]}")


def _profile(name: str) -> str:
    known = profile_names()
    if name not in known:
        raise UsageError(f"unknown profile {name}{nearest(name, known)} (known: {', '.join(known)})")
    return name


def _numbers(text: str) -> tuple[str, ...]:
    known = notebook_numbers()
    numbers = tuple(part.strip().zfill(2) for part in text.split(",") if part.strip())
    for number in numbers:
        if number not in known:
            raise UsageError(f"--only: no notebook {number} (there are {', '.join(known)})")
    return numbers


def _minutes(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        minutes = float(text)
    except ValueError:
        minutes = float("nan")
    if not 0 < minutes < float("inf"):
        raise UsageError(f"--minutes takes a number above 0, not {text!r}")
    return minutes


def _data(flag: str | None) -> Path | None:
    text = flag if flag is not None else os.environ.get("SAMLIB_DATA")
    if not text and flag is None:
        return None
    origin = "SAMLIB_DATA" if flag is None else "--data"
    folder = Path(text).expanduser().resolve()
    if not text or not folder.is_dir():
        raise UsageError(f"{origin}: no such folder: {text or repr(text)}")
    if not any(any((folder / name).rglob("*.jsonl*")) for name in DATASETS):
        raise UsageError(f"{origin}: {text} has no .jsonl file in {', '.join(DATASETS)}; see data/README.md")
    return folder


def _executor(name: str) -> str:
    if name == "ray":
        raise UsageError("--executor ray is not available yet in this version; use --executor local")
    if name != "local":
        raise UsageError(f"unknown executor {name}; use --executor local")
    return name


def _parameters(pairs: list[str]) -> dict[str, str]:
    for pair in pairs:
        if not pair.partition("=")[0].isidentifier() or "=" not in pair:
            raise UsageError(f"-p takes NAME=VALUE, not {pair!r}")
    return dict(pair.split("=", 1) for pair in pairs)
