"""The training that a notebook shows live: it trains, leaves nothing behind, and the model stays as it was."""

import tempfile

import pytest
import torch

from samlib.bench import load_model
from samlib.bench.eagle_features import training_chats
from samlib.bench.eagle_live import ANSWER, live_training
from samlib.bench.train_eagle import config_for
from samlib.drafters.eagle_head import EagleHead


@pytest.fixture(scope="module")
def smoke():
    return load_model("smoke")


def test_it_trains_on_the_first_chats_and_tells_what_it_did(smoke, tmp_path, monkeypatch):
    model, tokenizer = smoke
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    losses, facts = live_training(model, tokenizer, steps=30, chats=3, progress=False)
    assert losses["step"].tolist() == list(range(1, 31))
    assert losses["feature_loss"].tail(5).mean() < losses["feature_loss"].head(5).mean()
    lengths = [min(len(ids), start + ANSWER) for ids, start in training_chats(tokenizer, 6)[0][:3]]
    assert facts["chats"] == 3 and facts["tokens"] == sum(lengths)
    assert losses["tokens"].max() < 2 * max(lengths), "a batch is one chat"
    head = EagleHead(config_for(model))
    assert facts["parameters"] == sum(weight.numel() for weight in head.state_dict().values())
    assert facts["feature_seconds"] > 0 and facts["training_seconds"] > 0
    assert not list(tmp_path.iterdir()), "nothing is kept"
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_what_needed_gradients_needs_them_again(smoke):
    model, tokenizer = smoke
    wanted = {name: name.endswith("norm.weight") for name, _ in model.named_parameters()}
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(wanted[name])
    live_training(model, tokenizer, steps=1, chats=1, progress=False)
    assert {name: parameter.requires_grad for name, parameter in model.named_parameters()} == wanted
    assert all(parameter.grad is None for parameter in model.parameters())


def test_no_held_out_prompt_trains(smoke):
    """The chats are those that the whole corpus trains on, too."""
    _, tokenizer = smoke
    few, _ = training_chats(tokenizer, 24)
    every, held_out = training_chats(tokenizer)
    known = {ids.tobytes() for ids, _ in every}
    assert few and all(ids.tobytes() in known for ids, _ in few)
    assert not {tuple(ids[:start].tolist()) for ids, start in few} & set(map(tuple, held_out))
