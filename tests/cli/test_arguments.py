"""Flags: what is refused, in one line that names the remedy, before anything is installed or loaded."""

import subprocess

import pytest

from samlib import paths
from samlib.cli import arguments
from samlib.cli.arguments import Options, UsageError, parse


def test_no_flag_is_the_cpu_profile():
    assert parse([]) == Options(profile="cpu")


def test_all_flags_reach_the_options(tmp_path):
    (tmp_path / "spec_bench").mkdir()
    (tmp_path / "spec_bench" / "question.jsonl").touch()
    words = ["--profile", "smoke", "--minutes", "3", "--only", "2,00", "--dry-run", "--fresh", "--data", str(tmp_path)]
    options = parse([*words, "-p", "count=3", "--parameter", "text=a=b", "--executor", "local"])
    assert options == Options(
        profile="smoke",
        only=("02", "00"),
        minutes=3.0,
        dry_run=True,
        fresh=True,
        data=tmp_path.resolve(),
        parameters={"count": "3", "text": "a=b"},
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--profil", "cpu"], "unknown flag --profil; did you mean --profile?"),
        (["--dryrun"], "did you mean --dry-run?"),
        (["--mintues=3"], "did you mean --minutes?"),
        (["cpu"], "unknown argument cpu"),
        (["--profile", "cpi"], "unknown profile cpi; did you mean cpu? (known: cpu, cpu-full, smoke, spec-bench)"),
        (["--profile", "../x"], "unknown profile ../x"),
        (["--profile"], "--profile"),
        (["--only", "99"], "no notebook 99 (there are 00, 01"),
        (["--only", "xx"], "no notebook xx"),
        (["--minutes", "soon"], "--minutes takes a number above 0, not 'soon'"),
        (["--minutes", "0"], "--minutes takes a number above 0"),
        (["--minutes", "nan"], "--minutes takes a number above 0"),
        (["--minutes", "inf"], "--minutes takes a number above 0"),
        (["--data", "/no/such/folder"], "--data: no such folder: /no/such/folder"),
        (["--data", ""], "--data: no such folder"),
        (["--executor", "ray"], "not available yet in this version"),
        (["--executor", "moon"], "unknown executor moon"),
        (["-p", "count"], "-p takes NAME=VALUE, not 'count'"),
        (["-p", "a b=1"], "-p takes NAME=VALUE"),
        (["--test", "--profile", "smoke"], "take no other flags; leave out --profile"),
        (["--fresh", "--test-sanitized"], "take no other flags; leave out --fresh"),
    ],
)
def test_a_wrong_flag_is_one_line(words, message):
    with pytest.raises(UsageError) as error:
        parse(words)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_data_folder_without_questions_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"has no \.jsonl file in spec_bench, human_eval, mbpp, hagrid"):
        parse(["--data", str(tmp_path)])


def test_the_variable_is_checked_like_the_flag(monkeypatch):
    monkeypatch.setenv("SAMLIB_DATA", "/no/such/folder")
    with pytest.raises(UsageError, match="SAMLIB_DATA: no such folder"):
        parse([])


def test_profiles_and_notebooks_are_those_on_disk():
    assert {"cpu", "cpu-full", "smoke"} <= set(arguments.profile_names())
    assert arguments.notebook_numbers() == [path.name[:2] for path in sorted(paths.NOTEBOOKS.glob("*.ipynb"))]


@pytest.mark.parametrize(
    ("words", "status", "stream", "text"),
    [
        (["--profil", "cpu"], 2, "stderr", "run_all: unknown flag --profil; did you mean --profile?"),
        (["--help"], 0, "stdout", "TORCH_INDEX"),
    ],
)
def test_the_script_answers_from_another_folder_at_once(tmp_path, words, status, stream, text):
    done = subprocess.run(
        [paths.ROOT / "run_all.sh", *words], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == status
    assert text in getattr(done, stream)
    assert list(tmp_path.iterdir()) == []
    if status:
        assert done.stderr.count("\n") == 1


def test_help_names_every_flag():
    text = arguments.parser().format_help()
    flags = [flag for action in arguments.parser()._actions for flag in action.option_strings]
    assert all(flag in text for flag in flags)
