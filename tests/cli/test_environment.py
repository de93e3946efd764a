"""One list of requirements, and stamps that notice every change."""

import re
import shutil

import pytest
import yaml

from samlib import paths
from samlib.cli import environment


@pytest.fixture
def copy(tmp_path):
    """A small tree with what the stamps look at."""
    root = tmp_path / "tree"
    (root / "samlib").mkdir(parents=True)
    for name in ("pyproject.toml", "setup.py"):
        shutil.copy(paths.ROOT / name, root / name)
    (root / "samlib" / "one.pyx").write_text("x = 1")
    return root


def test_every_requirement_is_exact():
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+==[0-9.]+", line) for line in environment.requirements())


def test_conda_users_get_the_same_packages():
    content = yaml.safe_load((paths.ROOT / "environment.yml").read_text())
    conda, (pip,) = (
        [x for x in content["dependencies"] if isinstance(x, str)],
        [x["pip"] for x in content["dependencies"] if isinstance(x, dict)],
    )
    assert sorted(pip) == sorted(environment.requirements())
    assert "python=3.11" in conda


def test_the_build_uses_the_pinned_tools():
    text = (paths.ROOT / "pyproject.toml").read_text()
    for line in environment.group("build"):
        assert text.count(f'"{line}"') == 2, f"{line}: build-system and dependencies must agree"


def test_groups_are_all_requirements_once():
    groups = [environment.group(name) for name in ("build", "torch", "rest")]
    assert sorted(sum(groups, [])) == sorted(environment.requirements())
    assert [len(group) for group in groups[:2]] == [2, 1]


def test_installed_versions_are_the_pinned_ones():
    from importlib.metadata import version

    for line in environment.requirements():
        name, pinned = line.split("==")
        assert version(name).split("+")[0] == pinned


def test_the_environment_stamp_follows_requirements_and_place(copy, tmp_path):
    before = environment.environment_stamp(copy)
    assert environment.environment_stamp(copy) == before
    moved = copy.rename(tmp_path / "moved")
    assert environment.environment_stamp(moved) != before
    before = environment.environment_stamp(moved)
    with open(moved / "pyproject.toml", "a") as file:
        file.write("# changed\n")
    assert environment.environment_stamp(moved) != before


@pytest.mark.parametrize("name", ["samlib/one.pyx", "samlib/two.pxd", "setup.py"])
def test_the_sources_stamp_follows_content(copy, name):
    before = environment.sources_stamp(copy)
    (copy / name).write_text("changed")
    assert environment.sources_stamp(copy) != before


def test_a_debug_build_is_another_build(copy):
    assert environment.sources_stamp(copy) != environment.sources_stamp(copy, debug=True)


def test_a_missing_extension_is_noticed(copy):
    (missing,) = environment.missing_extensions(copy)
    missing.touch()
    assert environment.missing_extensions(copy) == []
