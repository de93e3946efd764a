"""Whether a notebook's last run still stands.

A stamp is written after a notebook has run through and has left all that it must. It stands while nothing that the
notebook depends on has changed and everything it wrote is still there unchanged. Measurements are not repeated for a
stamp's sake: they have their own keys, in the records.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from samlib import paths
from samlib.bench.data import DATASETS
from samlib.cli.environment import environment_stamp
from samlib.cli.plan import Notebook

CODE_ENDINGS = {".py", ".pyx", ".pxd", ".h", ".yaml", ".mplstyle", ".css"}


def run_key(notebook: Notebook, parameters: dict[str, Any]) -> str:
    """Changes with the notebook, its parameters, samlib's sources, the packages, and the data."""
    parts = [notebook.path.read_bytes(), json.dumps(parameters, sort_keys=True).encode(), environment_stamp().encode()]
    parts += [digest(path).encode() for path in _code() + _data()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _code() -> list[Path]:
    package = paths.ROOT / "samlib"
    files = (path for path in package.rglob("*") if path.suffix in CODE_ENDINGS)
    return sorted(path for path in files if path.parent.name != "cli")


def _data() -> list[Path]:
    external = paths.external_data()
    own = [path for path in paths.DATA.rglob("*") if path.is_file() and paths.CACHE not in path.parents]
    theirs = [path for name in DATASETS for path in (external / name).rglob("*")] if external else []
    return sorted(own) + sorted(path for path in theirs if path.is_file())


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hex; "missing" where there is none."""
    if not path.is_file():
        return "missing"
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write(stamp: Path, key: str, outputs: list[Path]) -> None:
    """Notes that the outputs belong to the run of this key; all at once or not at all."""
    stamp.parent.mkdir(parents=True, exist_ok=True)
    content = {"key": key, "outputs": {str(path): digest(path) for path in outputs}}
    partial = stamp.with_suffix(".tmp")
    partial.write_text(json.dumps(content, indent=1))
    os.replace(partial, stamp)


def stands(stamp: Path, key: str, outputs: list[Path]) -> bool:
    """Whether the stamp is of this key and every output is as it was then."""
    try:
        content = json.loads(stamp.read_text())
    except (OSError, ValueError):
        return False
    return content == {"key": key, "outputs": {str(path): digest(path) for path in outputs}} and all(
        path.is_file() for path in outputs
    )
