"""What is shipped can be built: the source distribution, in a folder with a space, with bounds checks on."""

import os
import shutil
import subprocess
import sys
import tarfile

import pytest

from samlib import paths

pytestmark = pytest.mark.slow

SHIPPED = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
LEFT_OUT = shutil.ignore_patterns("*.so", "__pycache__")


def call(*words, cwd, **variables):
    """Runs Python; the output belongs to the failure's message."""
    done = subprocess.run(
        [sys.executable, *words], cwd=cwd, env=os.environ | variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The unpacked source distribution."""
    root = tmp_path_factory.mktemp("a place")
    for name in SHIPPED:
        shutil.copy(paths.ROOT / name, root / name)
    shutil.copytree(paths.ROOT / "samlib", root / "samlib", ignore=LEFT_OUT)
    call("-c", "from setuptools import build_meta; build_meta.build_sdist('dist')", cwd=root)
    (archive,) = (root / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(root / "unpacked", filter="data")
    (tree,) = (root / "unpacked").iterdir()
    return tree


def test_no_source_is_left_out(unpacked):
    def sources(root):
        return {
            path.relative_to(root)
            for path in (root / "samlib").rglob("*")
            if path.is_file() and path.suffix not in (".so", ".pyc")
        }

    assert sources(unpacked) == sources(paths.ROOT)


def test_a_debug_build_passes_the_automata_s_tests(unpacked):
    shutil.copytree(paths.ROOT / "tests", unpacked / "tests", ignore=LEFT_OUT)
    call("setup.py", "build_ext", "--inplace", cwd=unpacked, SAMLIB_DEBUG_BUILD="1")
    call("-c", "import samlib; assert 'unpacked' in samlib.__file__", cwd=unpacked)
    call("-m", "pytest", "-q", "-x", "-m", "not slow", "tests/automaton", "tests/drafters", cwd=unpacked)
