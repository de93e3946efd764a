"""Runs one notebook through papermill and checks what it left behind."""

import contextlib
import logging
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samlib import paths
from samlib.cli import stamps
from samlib.cli.plan import Notebook
from samlib.errors import SetupError

KERNEL = "python3"
CLOCK_SLACK = 2.0  # seconds; some file systems keep whole seconds only


class NotebookFailed(RuntimeError):
    """A notebook stopped on an error, or left something out; the message is one line that names both."""


@dataclass(frozen=True)
class Job:
    """A notebook with its parameters and the folders of the profile that it writes to."""

    notebook: Notebook
    parameters: dict[str, Any]
    runs: Path
    figures: Path

    @property
    def executed(self) -> Path:
        """Where the executed copy goes."""
        return self.runs / self.notebook.path.name

    @property
    def stamp(self) -> Path:
        """Where the note of the last complete run is."""
        return self.runs / "stamps" / f"{self.notebook.name}.json"

    @property
    def records(self) -> list[Path]:
        """The files of measurements that the notebook keeps."""
        return [self.runs / "records" / name for name in self.notebook.records]

    @property
    def figure_files(self) -> list[Path]:
        """The figures and tables that the notebook writes."""
        return [self.figures / name for name in self.notebook.figures]

    @property
    def outputs(self) -> list[Path]:
        """Everything that must be there after a complete run."""
        return [self.executed, *self.records, *self.figure_files]

    def key(self) -> str:
        """What the last complete run must have been of for it to stand; see samlib.cli.stamps."""
        return stamps.run_key(self.notebook, self.parameters)

    def is_done(self) -> bool:
        """Whether the last complete run still stands."""
        return stamps.stands(self.stamp, self.key(), self.outputs)

    def forget(self) -> None:
        """Deletes the notebook's records, executed copy and stamp; figures stay until they are written again."""
        for path in [self.stamp, self.executed, *self.records]:
            path.unlink(missing_ok=True)


def execute(job: Job) -> None:
    """Runs the notebook in its own folder and stamps the run; NotebookFailed where it does not run through."""
    key = job.key()  # before the run: a source edited meanwhile makes the notebook due again
    job.stamp.unlink(missing_ok=True)
    job.runs.mkdir(parents=True, exist_ok=True)
    started = time.time()
    with _one_line_errors(job):
        _papermill(job)
    check_figures(job, started)
    stamps.write(job.stamp, key, job.outputs)


def _papermill(job: Job) -> None:
    import papermill

    logging.getLogger("papermill").setLevel(logging.ERROR)
    papermill.execute_notebook(
        job.notebook.path,
        job.executed,
        parameters=job.parameters,
        kernel_name=KERNEL,
        progress_bar=False,  # the bars of the cells themselves are shown instead: they know the remaining time
        stderr_file=progress_stream(),
        cwd=job.notebook.path.parent,
        extra_arguments=["--log-level=ERROR"],  # to the kernel, which warns of its local connection
    )


@contextlib.contextmanager
def _one_line_errors(job: Job):
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    try:
        yield
    except DeadKernelError as error:
        raise NotebookFailed(f"notebook {job.notebook.name}: its kernel died (out of memory?); {_see(job)}") from error
    except PapermillExecutionError as error:
        raise NotebookFailed(_reason(job, error)) from error


def _reason(job: Job, error) -> str:
    first_line = (str(error.evalue).strip().splitlines() or [""])[0]
    if error.ename == SetupError.__name__:
        return f"{first_line} (notebook {job.notebook.name})"
    return f"notebook {job.notebook.name} failed in cell {error.exec_count}: {error.ename}: {first_line}; {_see(job)}"


def _see(job: Job) -> str:
    return f"see {shown(job.executed)}"


def check_figures(job: Job, started: float) -> None:
    """NotebookFailed if a figure is missing, empty, or older than `started` (seconds since the epoch)."""
    for path in job.figure_files:
        if not path.is_file() or path.stat().st_size == 0:
            raise NotebookFailed(f"notebook {job.notebook.name} ran, but the figure {shown(path)} is missing")
        if path.stat().st_mtime < started - CLOCK_SLACK:
            raise NotebookFailed(f"notebook {job.notebook.name} ran, but did not write {shown(path)} anew")


def shown(path: Path) -> str:
    """The path as a person reads it: from the repository's root where it lies inside."""
    return str(path.relative_to(paths.ROOT)) if path.is_relative_to(paths.ROOT) else str(path)


def progress_stream():
    """Where progress bars go: the terminal, or a log in which each state is a line."""
    return sys.stderr if sys.stderr.isatty() else PlainLines(sys.stderr)


class PlainLines:
    """Makes progress bars readable in a log file: each state on a line of its own, blank ones left out."""

    def __init__(self, stream):
        self._stream = stream

    def write(self, text: str) -> None:
        """Writes the text with carriage returns turned into line ends."""
        for line in text.replace("\r", "\n").split("\n"):
            if line.strip():
                self._stream.write(line.rstrip() + "\n")

    def flush(self) -> None:
        """Passes on what is buffered."""
        self._stream.flush()
