"""`python -m samlib run`: executes the numbered notebooks of a profile and says where everything is."""

import contextlib
import os
import sys
import time
from pathlib import Path

from samlib import paths
from samlib.bench.profiles import Profile, load_profile
from samlib.cli import downloads, parameters, plan
from samlib.cli.arguments import Options, UsageError, parse
from samlib.cli.execute import Job, NotebookFailed, execute, progress_stream, shown
from samlib.errors import SetupError

OTHER_MINUTES = 4  # what the notebooks without a time budget take together, about


def main(argv: list[str]) -> int:
    """Runs what the flags ask for; returns the exit status and prints one line on stderr where that is not 0."""
    try:
        return run(parse(argv))
    except UsageError as error:
        return _fail(error, 2)
    except (SetupError, NotebookFailed) as error:
        return _fail(error, 1)
    except KeyboardInterrupt:
        return _fail("interrupted; the same command goes on where this one stopped", 130)


def _fail(what, status: int) -> int:
    print(f"run_all: {what}", file=sys.stderr)
    return status


def run(options: Options) -> int:
    """Plans the notebooks, executes those that are due, and prints the summary."""
    if options.test or options.test_slow:
        raise UsageError("--test and --test-slow belong to ./run_all.sh")
    set_environment(options)
    profile = load_profile(options.profile)
    jobs = plan_jobs(options, profile)
    if options.dry_run:
        print(dry_run_text(jobs, profile))
        return 0
    if options.fresh:
        for job in jobs:
            job.forget()
    run_jobs(jobs, profile, options.minutes)
    print(summary(jobs, profile))
    return 0


def set_environment(options: Options) -> None:
    """Sets what the notebooks' kernels inherit: the data folder, and how often their progress bars move."""
    if options.data:
        os.environ["SAMLIB_DATA"] = str(options.data)
    os.environ.setdefault("TQDM_MININTERVAL", "0.5" if sys.stderr.isatty() else "20")
    # Text bars are what is wanted here; transformers' import would recommend widgets in every notebook.
    os.environ.setdefault("PYTHONWARNINGS", "ignore:IProgress not found")


def plan_jobs(options: Options, profile: Profile) -> list[Job]:
    """The selected notebooks with their checked parameters; SetupError where there are none."""
    shipped_head = paths.eagle_head_dir(profile.model).is_dir()
    notebooks = plan.notebooks(paths.NOTEBOOKS, options.only, shipped_head=shipped_head)
    if not notebooks:
        raise SetupError(f"no notebooks in {paths.NOTEBOOKS}: restore them from git")
    values = parameters.assign(notebooks, options, profile)
    runs, figures = paths.runs_dir(profile.name), paths.figures_dir(profile.name)
    return [Job(notebook, values[notebook.name], runs, figures) for notebook in notebooks]


def run_jobs(jobs: list[Job], profile: Profile, minutes: float | None = None) -> None:
    """Executes the jobs that are due, in order, and stops at the first that fails."""
    due = [job for job in jobs if not job.is_done()]
    if due:
        _greet(profile, minutes)
    for position, job in enumerate(jobs, start=1):
        label = f"[{position}/{len(jobs)}] {job.notebook.name}"
        if job in due:
            _run_job(job, label)
        else:
            print(f"{label}: done before, nothing has changed", flush=True)


def _greet(profile: Profile, minutes: float | None) -> None:
    from samlib.bench.hello import first_contact

    with contextlib.redirect_stderr(progress_stream()):
        text = first_contact(profile, minutes=minutes)
    print(text, flush=True)


def _run_job(job: Job, label: str) -> None:
    print(f"{label}: running", flush=True)
    started = time.monotonic()
    execute(job)
    print(f"{label}: done in {time.monotonic() - started:.0f} s", flush=True)


def dry_run_text(jobs: list[Job], profile: Profile) -> str:
    """What a run would do: notebooks, downloads, an estimate of the time."""
    lines = [f"profile {profile.name}: model {profile.model}, {profile.dtype}, {profile.device}", "notebooks:"]
    lines += [f"  {plan.describe(job.notebook)}{_state(job)}" for job in jobs]
    lines += ["downloads:", *(f"  {line}" for line in downloads.wanted(profile))]
    return "\n".join([*lines, f"estimate: {estimate([job for job in jobs if not job.is_done()])}"])


def _state(job: Job) -> str:
    shown_parameters = ", ".join(f"{name}={value}" for name, value in job.parameters.items())
    return f" ({'done before' if job.is_done() else 'to run'}; {shown_parameters or 'no parameters'})"


def estimate(due: list[Job]) -> str:
    """How long the jobs may take, in words; a run of the tables counts once, however many notebooks show it."""
    if not due:
        return "nothing to do, finishes at once"
    budget = sum({job.notebook.records: job.parameters.get("minutes", 0) for job in due}.values())
    return f"at most about {budget + OTHER_MINUTES:g} minutes, {budget:g} of them measuring"


def summary(jobs: list[Job], profile: Profile) -> str:
    """The tables that were among the jobs, in short, and where everything is; writes the run's web page."""
    from samlib.report.page import write_report

    page = write_report(profile)
    tables = [text for job in jobs for text in _tables(job.figure_files)]
    places = {
        "figures": jobs[0].figures,
        "notebooks, executed": jobs[0].runs,
        "records": jobs[0].runs / "records",
        "report": Path(page),
    }
    return "\n".join(["", *tables, *(f"{what + ':':<21}{shown(place)}" for what, place in places.items())])


def _tables(files: list[Path]) -> list[str]:
    """Each of the paper's tables among a job's files, in short, with the path of the whole."""
    import pandas as pd

    from samlib.report.layouts import LAYOUTS
    from samlib.report.tables import summary_text

    layouts = {f"{layout.name}.csv": layout for layout in LAYOUTS}
    return [
        f"{summary_text(pd.read_csv(path), layouts[path.name])}\n(every cell: {shown(path.with_suffix('.md'))})\n"
        for path in files
        if path.name in layouts
    ]
