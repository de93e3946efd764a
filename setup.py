"""Builds the Cython extensions; all other settings are in pyproject.toml.

Every samlib/**/*.pyx becomes an extension, in C or C++ as its own `# distutils: language` line says.
SAMLIB_DEBUG_BUILD=1 turns bounds checks and debug symbols on. Nothing is skipped by time stamps: a build compiles
what is in the sources now, and run_all.sh decides by content whether one is due.
"""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

DEBUG = os.environ.get("SAMLIB_DEBUG_BUILD") == "1"

# wraparound stays off in a debug build too: a negative index is then an error instead of a quiet read from the end.
DIRECTIVES = {"language_level": 3, "boundscheck": DEBUG, "wraparound": False, "initializedcheck": DEBUG}
FLAGS = ["-O1", "-g", "-UNDEBUG"] if DEBUG else ["-O3", "-g0"]


def extension(source: Path) -> Extension:
    """The extension of one .pyx file, named after its place in the package."""
    name = ".".join(source.with_suffix("").parts)
    return Extension(name, [source.as_posix()], include_dirs=[source.parent.as_posix()], extra_compile_args=FLAGS)


os.chdir(Path(__file__).resolve().parent)
SOURCES = sorted(Path("samlib").rglob("*.pyx"))

setup(
    ext_modules=cythonize(
        [extension(source) for source in SOURCES],
        build_dir="build/cython",
        compiler_directives=DIRECTIVES,
        force=True,
    ),
    options={"build_ext": {"force": True, "parallel": os.cpu_count()}},
)
