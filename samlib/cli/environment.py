"""What an environment must hold, and whether it still does: requirements and content stamps.

Standard library only, because run_all.sh asks before samlib is built (through before_install.py).
"""

import hashlib
import re
import sys
import sysconfig
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD_INPUTS = ("*.pyx", "*.pxd", "*.pxi", "*.h", "*.hpp")


def requirements(root: Path = ROOT) -> list[str]:
    """All exact requirements, those of the tests included, in pyproject.toml's order."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["test"]]


def group(name: str, root: Path = ROOT) -> list[str]:
    """The requirements to install together: `build` first, then `torch`, which may have its own index, then `rest`."""
    return [line for line in requirements(root) if _group_of(line) == name]


def _group_of(requirement: str) -> str:
    package = re.split(r"[=<>!~ ]", requirement, maxsplit=1)[0].lower()
    return {"cython": "build", "setuptools": "build", "torch": "torch"}.get(package, "rest")


def environment_stamp(root: Path = ROOT) -> str:
    """Changes with the requirements, the Python, and the place of the repository (an editable install points to it)."""
    return _digest([(root / "pyproject.toml").read_bytes(), sys.version.encode(), str(root).encode()])


def sources_stamp(root: Path = ROOT, *, debug: bool = False) -> str:
    """Changes with the content of anything that the extensions are built from, and with the Python they are for."""
    folder = root / "samlib"
    inputs = sorted(path for pattern in BUILD_INPUTS for path in folder.rglob(pattern))
    parts = [part for path in inputs for part in (path.relative_to(root).as_posix().encode(), path.read_bytes())]
    return _digest([*parts, (root / "setup.py").read_bytes(), _suffix().encode(), str(debug).encode()])


def missing_extensions(root: Path = ROOT) -> list[Path]:
    """The extension files that this Python would load and that are not there."""
    built = [source.with_name(source.stem + _suffix()) for source in (root / "samlib").rglob("*.pyx")]
    return [path for path in built if not path.is_file()]


def _suffix() -> str:
    return sysconfig.get_config_var("EXT_SUFFIX")


def _digest(parts: list[bytes]) -> str:
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(len(part).to_bytes(8, "big") + part)
    return hashed.hexdigest()
