"""Profiles: the shipped ones are whole, a wrong name is one helpful line."""

import dataclasses
import inspect
import json

import pytest

import samlib
from samlib.bench.profiles import PAPER_SETTINGS, load_profile, profile_names
from samlib.bench.tables import ABLATED
from samlib.drafters import registry
from samlib.errors import SetupError


def test_the_shipped_profiles():
    assert profile_names() == ["cpu", "cpu-full", "smoke", "spec-bench"]


@pytest.mark.parametrize("name", ["cpu", "cpu-full", "smoke", "spec-bench"])
def test_every_profile_loads_and_can_be_written_to_a_manifest(name):
    profile = load_profile(name)
    assert profile.name == name
    assert json.loads(json.dumps(profile.parameters())) == profile.parameters()
    assert set(profile.paper) | set(profile.device_sized) <= set(PAPER_SETTINGS)
    assert set(profile.ablated) <= set(profile.paper) & set(ABLATED)


@pytest.mark.parametrize("name", ["cpu", "cpu-full", "smoke", "spec-bench"])
def test_every_method_has_a_line_in_both_blocks_in_the_papers_order(name):
    profile = load_profile(name)
    methods = [method for method in samlib.METHODS if method != "autoregressive"]
    assert list(profile.paper) == [method for method in methods if method != "sam_auto" and name != "spec-bench"]
    assert list(profile.device_sized) == methods


def test_sam_e2_is_taken_apart_only_where_there_is_time():
    assert [load_profile(name).ablated for name in ("cpu", "smoke")] == [("sam", "sam[t]")] * 2
    assert load_profile("cpu-full").ablated == ("sam", "sam[t]", "sam[e2]")


def test_the_papers_settings_are_the_defaults_of_each_method():
    """Whatever an option's name, what is not said in the settings is not another value by default."""
    for method, options in PAPER_SETTINGS.items():
        defaults = inspect.signature(registry._FACTORIES[method]).parameters
        assert options == {name: defaults[name].default for name in options}
        assert set(defaults) - set(options) <= {"static", "model", "head", "cost", "rate"}


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
