"""Builds the Cython extensions; all other settings are in pyproject.toml.

Every samlib/**/*.pyx becomes an extension, in C or C++ as its own `# distutils: language` line says.
SAMLIB_DEBUG_BUILD=1 turns bounds checks, assertions and debug symbols on; SAMLIB_SANITIZE=1 adds the address and
undefined-behaviour sanitizers, whose extensions load only in a process that tests/sanitize.sh starts. Nothing is
skipped by time stamps: a build compiles what is in the sources now, and run_all.sh decides by content if one is due.
"""

import os
from pathlib import Path

import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, setup

SANITIZE = os.environ.get("SAMLIB_SANITIZE") == "1"
DEBUG = SANITIZE or os.environ.get("SAMLIB_DEBUG_BUILD") == "1"

# wraparound stays off in a debug build too: a negative index is then an error instead of a quiet read from the end.
DIRECTIVES = {"language_level": 3, "boundscheck": DEBUG, "wraparound": False, "initializedcheck": DEBUG}
FLAGS = ["-O1", "-g", "-UNDEBUG"] if DEBUG else ["-O3", "-g0"]
FLAGS += ["-Wno-psabi"]  # vectors are passed between functions of one file only
# The first finding ends the process: what runs on after one proves nothing. Python's own flags make signed overflow
# wrap around, which would hide it.
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"] if SANITIZE else []
if SANITIZE:
    FLAGS += ["-fno-wrapv", "-fno-omit-frame-pointer"]


def extension(source: Path) -> Extension:
    """The extension of one .pyx file, named after its place in the package."""
    name = ".".join(source.with_suffix("").parts)
    return Extension(
        name,
        [source.as_posix()],
        include_dirs=[source.parent.as_posix(), np.get_include()],
        extra_compile_args=FLAGS + SANITIZERS,
        extra_link_args=SANITIZERS,
    )


os.chdir(Path(__file__).resolve().parent)
SOURCES = sorted(Path("samlib").rglob("*.pyx"))

setup(
    ext_modules=cythonize(
        [extension(source) for source in SOURCES],
        build_dir="build/sanitized/cython" if SANITIZE else "build/cython",
        compiler_directives=DIRECTIVES,
        emit_linenums=DEBUG,
        force=True,
    ),
    options={"build_ext": {"force": True, "parallel": os.cpu_count()}},
)
