"""`python -m samlib run`, with throw-away notebooks: resume, errors in one line, exit status."""

import io

import pytest

from samlib import paths
from samlib.cli import plan
from samlib.cli.execute import Job, PlainLines
from samlib.cli.run import estimate, main
from tests.cli.conftest import WRITE_FIGURE

RUN = ["--profile", "smoke", "--only", "07"]


def last_line(text):
    return text.strip().splitlines()[-1]


def test_a_run_leaves_figures_a_notebook_and_a_summary(workspace, capsys):
    workspace.notebook("07_toy", WRITE_FIGURE)
    assert main([*RUN, "-p", "count=3"]) == 0
    shown = capsys.readouterr().out
    assert "hello smoke" in shown
    assert (workspace.figures / "toy.md").read_text() == "a table of smoke, 3"
    assert str(workspace.figures) in shown
    assert workspace.executed("07_toy")[-1].execution_count is not None


def test_a_second_call_runs_nothing(workspace, capsys):
    workspace.notebook("07_toy", WRITE_FIGURE)
    main(RUN)
    before = (workspace.runs / "07_toy.ipynb").stat().st_mtime_ns
    capsys.readouterr()
    assert main(RUN) == 0
    shown = capsys.readouterr().out
    assert "done before" in shown
    assert "hello" not in shown
    assert str(workspace.figures) in shown
    assert (workspace.runs / "07_toy.ipynb").stat().st_mtime_ns == before


@pytest.mark.parametrize("change", ["notebook", "parameter", "figure edited", "figure gone", "copy gone", "fresh"])
def test_whatever_changed_is_run_again(workspace, capsys, change):
    workspace.notebook("07_toy", WRITE_FIGURE)
    main(RUN)
    capsys.readouterr()
    words = list(RUN)
    if change == "notebook":
        workspace.notebook("07_toy", WRITE_FIGURE + "\n")
    elif change == "parameter":
        words += ["-p", "count=2"]
    elif change == "figure edited":
        (workspace.figures / "toy.md").write_text("by hand")
    elif change == "figure gone":
        (workspace.figures / "toy.md").unlink()
    elif change == "copy gone":
        (workspace.runs / "07_toy.ipynb").unlink()
    else:
        words += ["--fresh"]
    assert main(words) == 0
    assert "07_toy: running" in capsys.readouterr().out
    assert (workspace.figures / "toy.md").read_text().startswith("a table of smoke")


def test_fresh_forgets_records_but_only_those_of_the_selected_notebooks(workspace, monkeypatch):
    monkeypatch.setitem(plan.RECORDS, "07", ("toy.jsonl",))
    workspace.notebook(
        "07_toy", WRITE_FIGURE + f"\nopen({str(workspace.runs / 'records/toy.jsonl')!r}, 'a').write('x')"
    )
    (workspace.runs / "records").mkdir(parents=True)
    (workspace.runs / "records" / "other.jsonl").write_text("kept")
    main(RUN)
    main([*RUN, "--fresh"])
    assert (workspace.runs / "records" / "toy.jsonl").read_text() == "x"
    assert (workspace.runs / "records" / "other.jsonl").read_text() == "kept"


def test_fresh_forgets_the_cost_curve_that_lies_beside_the_records(tmp_path):
    job = Job(plan.Notebook(tmp_path / "07_toy.ipynb", records=plan.RECORDS["07"]), {}, tmp_path, tmp_path)
    files = [tmp_path / "cost.json", tmp_path / "records" / "cost.csv"]
    job.forget()  # nothing there yet: no error
    for path in files:
        path.parent.mkdir(exist_ok=True)
        path.write_text("old")
    job.forget()
    assert not any(path.exists() for path in files)


def test_a_failing_cell_fails_the_run_and_is_named(workspace, capsys):
    workspace.notebook("07_toy", "1 / 0")
    workspace.notebook("08_after", "pass")
    assert main(["--profile", "smoke"]) == 1
    streams = capsys.readouterr()
    line = last_line(streams.err)
    assert line.startswith("run_all: notebook 07_toy failed in cell 3: ZeroDivisionError: division by zero; see ")
    assert "08_after" not in streams.out
    assert main(RUN) == 1, "a failed notebook is not taken for done"


def test_a_problem_that_the_user_can_fix_is_told_in_its_own_words(workspace, capsys):
    workspace.notebook("07_toy", "from samlib import SetupError\nraise SetupError('no network: plug it in')")
    assert main(RUN) == 1
    assert last_line(capsys.readouterr().err) == "run_all: no network: plug it in (notebook 07_toy)"


def test_a_missing_figure_fails_the_run(workspace, capsys):
    workspace.notebook("07_toy", "pass")
    assert main(RUN) == 1
    assert "07_toy ran, but the figure" in last_line(capsys.readouterr().err)


@pytest.mark.parametrize("has_head", [True, False])
def test_figures_of_a_shipped_head_are_missed_only_where_there_is_one(workspace, capsys, monkeypatch, has_head):
    monkeypatch.setattr(paths, "EAGLE_HEADS", workspace.root / "eagle")
    monkeypatch.setitem(plan.SHIPPED_FIGURES, "07", ("head.png",))
    if has_head:
        paths.eagle_head_dir("tiny-random").mkdir(parents=True)
    workspace.notebook("07_toy", WRITE_FIGURE)
    assert main([*RUN, "--dry-run"]) == 0
    assert f"writes toy.md{', head.png' * has_head} (to run" in capsys.readouterr().out
    assert main(RUN) == int(has_head)
    assert ("head.png is missing" in capsys.readouterr().err) == has_head


def test_an_old_figure_is_not_taken_for_a_new_one(workspace, capsys):
    import os

    workspace.notebook("07_toy", "pass")
    workspace.figures.mkdir(parents=True)
    (workspace.figures / "toy.md").write_text("old")
    os.utime(workspace.figures / "toy.md", (1e9, 1e9))
    assert main(RUN) == 1
    assert "did not write" in last_line(capsys.readouterr().err)


def test_a_dead_kernel_is_named(workspace, capsys):
    workspace.notebook("07_toy", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    assert main(RUN) == 1
    assert "07_toy: its kernel died" in last_line(capsys.readouterr().err)


def test_a_wrong_parameter_is_refused_before_anything_runs(workspace, capsys):
    workspace.notebook("07_toy", WRITE_FIGURE)
    assert main([*RUN, "-p", "cuont=3"]) == 2
    assert "did you mean count" in capsys.readouterr().err
    assert not workspace.runs.exists()


def test_a_dry_run_writes_nothing(workspace, capsys, monkeypatch):
    monkeypatch.setattr("samlib.bench.model.load_model", lambda *_: pytest.fail("a dry run loads no model"))
    workspace.notebook("07_toy", WRITE_FIGURE)
    assert main([*RUN, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "07_toy: 2 code cells; writes toy.md (to run; profile=smoke)" in shown
    assert "downloads:" in shown
    assert "estimate:" in shown
    assert not workspace.runs.exists()


def test_an_estimate_counts_a_run_once_though_two_notebooks_show_it(tmp_path):
    jobs = [
        Job(plan.Notebook(tmp_path / f"{n}_x.ipynb", records=plan.RECORDS[n]), {"minutes": m}, tmp_path, tmp_path)
        for n, m in (("02", 9.0), ("03", 6.0), ("04", 9.0))
    ]
    assert estimate(jobs) == "at most about 19 minutes, 15 of them measuring"


def test_an_interrupt_is_one_line(workspace, capsys, monkeypatch):
    workspace.notebook("07_toy", WRITE_FIGURE)

    def interrupted(job):
        raise KeyboardInterrupt

    monkeypatch.setattr("samlib.cli.run.execute", interrupted)
    assert main(RUN) == 130
    assert "goes on where this one stopped" in last_line(capsys.readouterr().err)


def test_the_data_folder_reaches_the_notebooks(workspace, tmp_path, monkeypatch):
    (tmp_path / "spec_bench").mkdir()
    (tmp_path / "spec_bench" / "question.jsonl").touch()
    monkeypatch.setenv("SAMLIB_DATA", "")
    workspace.notebook("07_toy", WRITE_FIGURE + "\nimport os\nprint(os.environ['SAMLIB_DATA'])")
    assert main([*RUN, "--data", str(tmp_path)]) == 0
    assert workspace.executed("07_toy")[-1].outputs[0].text.strip() == str(tmp_path.resolve())


def test_progress_in_a_log_is_one_state_a_line():
    log = io.StringIO()
    lines = PlainLines(log)
    lines.write("\r 10% of it\r 20% of it   ")
    lines.write("\n\n")
    assert log.getvalue() == " 10% of it\n 20% of it\n"


def test_every_notebook_of_the_repository_is_planned():
    from samlib.cli.arguments import notebook_numbers

    assert notebook_numbers() == sorted(plan.FIGURES)
    assert set(plan.SHIPPED_FIGURES) <= set(plan.FIGURES)
