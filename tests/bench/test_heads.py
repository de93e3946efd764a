"""Which head a profile's methods draft with, and the random one of the tiny model."""

import dataclasses
import hashlib

import pytest
import torch

import samlib
from samlib import paths
from samlib.bench import heads, load_model
from samlib.bench.heads import head_identity, head_options, missing_head, random_head, reduced_vocabulary
from samlib.bench.profiles import load_profile
from samlib.bench.train_eagle import VOCABULARIES
from samlib.bench.training_log import shipped_training
from samlib.drafters import eagle_checkpoint
from samlib.drafters.eagle_checkpoint import frequent_ids, load_head, shipped_head
from samlib.drafters.registry import needs_head
from samlib.errors import MissingAssetError
from tests.decoding.models import greedy, random_prompt

WITH_HEAD = ["eagle", "eagle2", "sam[e]", "sam[e2]"]
SMOKE = load_profile("smoke")
HEADLESS = dataclasses.replace(SMOKE, model="no-head")


@pytest.fixture(scope="module")
def model():
    return load_model("smoke")[0]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "CACHE", tmp_path)
    return tmp_path


def test_the_methods_with_a_head_are_the_eagle_methods():
    assert [method for method in samlib.METHODS if needs_head(method)] == WITH_HEAD
    assert not needs_head("hf_generate")


def test_every_method_of_the_tiny_model_can_be_made_and_only_these_have_a_head(model):
    for method in samlib.METHODS:
        options = head_options("smoke", model, method)
        assert set(options) == ({"head"} if method in WITH_HEAD else set())
        if options:
            drafter = samlib.make_drafter(method, model=model, **options)
            prompt = random_prompt(1, 12)
            assert samlib.generate(model, prompt, drafter=drafter, max_new_tokens=12, eos_token_id=None).tokens == (
                greedy(model, prompt, 12)
            )


def test_the_random_head_is_written_once_whole_and_the_same_each_time(model, cache):
    folder = head_options(SMOKE, model, "eagle")["head"]
    assert folder.parent == cache / "heads" and [path.name for path in folder.parent.iterdir()] == [folder.name]
    before = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()}
    assert head_options(SMOKE, model, "sam[e2]")["head"] == random_head(model, folder) == folder
    assert {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()} == before
    torch.manual_seed(123)
    again, other = random_head(model, cache / "again"), random_head(model, cache / "other", seed=1)
    weights = [(path / "model.safetensors").read_bytes() for path in (again, other)]
    assert weights[0] == before["model.safetensors"][1] != weights[1]
    assert frequent_ids(folder, reduced_vocabulary(model)).tolist() == list(range(259))


def test_an_interrupted_write_leaves_no_head(model, cache, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(heads.os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        random_head(model, cache / "heads" / "one")
    assert list((cache / "heads").iterdir()) == []


def test_without_a_head_it_is_said_and_a_drafter_says_what_to_do(model):
    assert head_identity(HEADLESS) is None
    assert missing_head(HEADLESS) == "there is no EAGLE head for no-head in data/eagle"
    assert head_options(HEADLESS, model, "eagle") == {}
    with pytest.raises(MissingAssetError, match="give head=FOLDER"):
        samlib.make_drafter("eagle", model=model)


def test_a_shipped_head_is_known_by_its_weights_and_needs_no_option(model, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "EAGLE_HEADS", tmp_path)
    folder = random_head(model, tmp_path / "no-head")
    assert missing_head(HEADLESS), "without target.json it is no shipped one"
    eagle_checkpoint.save_head(load_head(folder, model), folder, model=model)
    assert missing_head(HEADLESS) is None and head_options(HEADLESS, model, "eagle") == {}
    assert head_identity(HEADLESS) == hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    samlib.make_drafter("eagle", model=model)


def test_the_default_models_head_lies_under_its_profiles_name_and_ranks_enough_ids():
    """What a run's key names is what `make_drafter` finds."""
    profile = load_profile("cpu")
    folder = heads.shipped_folder(profile)
    assert folder is not None and missing_head(profile) is None
    assert len(frequent_ids(folder, heads.REDUCED)) == heads.REDUCED


def test_the_default_models_head_brings_its_whole_training():
    """Its manifest says how it was made, and its log has every step, a trial of the end and each vocabulary."""
    training = shipped_training("cpu")
    steps = training.manifest["training"]["steps"]
    assert training.manifest["commit"]
    assert training.manifest["steps"] == steps == training.steps["step"].max() == training.trials["step"].max()
    assert training.vocabularies["size"].dropna().tolist() == [size for size in VOCABULARIES if size]
    assert len(training.vocabularies) == len(VOCABULARIES)


@pytest.mark.slow
def test_the_default_models_head_is_the_one_that_is_found():
    profile = load_profile("cpu")
    assert shipped_head(load_model(profile)[0]) == heads.shipped_folder(profile)
