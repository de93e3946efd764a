"""Profiles: the shipped ones are whole, a wrong name is one helpful line."""

import dataclasses
import json

import pytest

from samlib.bench.profiles import PAPER_SETTINGS, load_profile, profile_names
from samlib.errors import SetupError


def test_the_shipped_profiles():
    assert profile_names() == ["cpu", "cpu-full", "smoke"]


@pytest.mark.parametrize("name", ["cpu", "cpu-full", "smoke"])
def test_every_profile_loads_and_can_be_written_to_a_manifest(name):
    profile = load_profile(name)
    assert profile.name == name
    assert json.loads(json.dumps(profile.parameters())) == profile.parameters()
    assert set(profile.paper) | set(profile.device_sized) <= set(PAPER_SETTINGS)


def test_a_profile_that_extends_another_keeps_what_it_does_not_set():
    cpu, full = load_profile("cpu"), load_profile("cpu-full")
    assert full.model == cpu.model
    assert full.max_new_tokens > cpu.max_new_tokens


def test_the_smoke_profile_can_reach_an_overall_interval():
    assert load_profile("smoke").min_rounds["table1"] * 6 >= 12


def test_a_profile_object_is_taken_as_it_is():
    profile = dataclasses.replace(load_profile("smoke"), max_new_tokens=3)
    assert load_profile(profile) is profile


@pytest.mark.parametrize(
    ("name", "hint"), [("cpuu", "did you mean 'cpu'"), ("xyz", "known profiles: cpu, cpu-full, smoke")]
)
def test_an_unknown_profile_names_the_known_ones_in_one_line(name, hint):
    with pytest.raises(SetupError, match=hint) as caught:
        load_profile(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["../profiles/cpu", "", None])
def test_a_name_is_not_a_path(name):
    with pytest.raises(SetupError):
        load_profile(name)
