"""Training a head on a tiny model: what a place is held against, resuming, and that it learns at all."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import samlib
from samlib.bench import eagle_features, eagle_trials, train_eagle
from samlib.bench.eagle_features import Features, extract_features, ranked_vocabulary, read_features, training_chats
from samlib.bench.eagle_trials import accepted_length
from samlib.bench.model import load_tokenizer
from samlib.bench.prompts import prompt_ids
from samlib.bench.train_eagle import Settings, Training, brief_log, losses
from samlib.drafters.eagle_head import EagleHead

from ..decoding.models import greedy, random_model, random_prompt

SETTINGS = Settings(steps=12, batch_tokens=70, learning_rate=1e-2, warmup=3, every=4, seed=1)
PROMPT = 6  # tokens


@pytest.fixture(scope="module")
def model():
    return random_model(seed=3, initializer_range=0.2)


@pytest.fixture(scope="module")
def chats(model):
    """Pairs (ids, start), as they are trained on."""
    prompts = [random_prompt(seed, PROMPT) for seed in range(8)]
    return [(np.array([*prompt, *greedy(model, prompt, 30)], dtype=np.int32), PROMPT) for prompt in prompts]


@pytest.fixture(scope="module")
def features(model, chats, tmp_path_factory):
    return read_features(extract_features(model, chats, tmp_path_factory.mktemp("features"), progress=False))


def test_features_are_the_final_hidden_states(model, chats, tmp_path, monkeypatch):
    monkeypatch.setattr(eagle_features, "MAX_LENGTH", 20)
    shards = extract_features(model, chats, tmp_path, shard=3, progress=False)
    assert [path.name for path in shards] == [f"features_0000{first}.safetensors" for first in (0, 3, 6)]
    assert load_file(shards[0])["hidden"].dtype == torch.float16
    found = read_features(shards)
    assert len(found) == len(chats)
    for chat, (ids, start) in zip(found, chats, strict=True):
        assert chat.tokens.tolist() == ids[:20].tolist() and chat.start == start
        assert chat.answer.tolist() == ids[start:20].tolist()
        with torch.no_grad():
            output = model(torch.tensor([ids[:20].tolist()]), output_hidden_states=True)
        torch.testing.assert_close(chat.hidden.float(), output.hidden_states[-1][0], atol=1e-2, rtol=1e-2)


def test_chats_without_an_answer_to_learn_from_are_left_out(model, chats, tmp_path):
    ids = chats[0][0]
    short = [(ids[:7], 6), (ids[:8], 6), (ids[:6], 6)]
    found = read_features(extract_features(model, short, tmp_path, progress=False))
    assert [len(chat.tokens) for chat in found] == [8]


def test_shards_that_are_there_are_not_made_again(model, chats, tmp_path):
    shards = extract_features(model, chats, tmp_path, shard=4, progress=False)
    before = [path.stat().st_mtime_ns for path in shards]
    shards[1].unlink()
    again = extract_features(model, chats, tmp_path, shard=4, progress=False)
    assert again == shards and shards[0].stat().st_mtime_ns == before[0] and shards[1].exists()


def test_the_vocabulary_is_ranked_by_the_answers_alone():
    def chat(tokens, start):
        return Features(torch.tensor(tokens, dtype=torch.int32), torch.zeros(len(tokens), 2), start)

    assert ranked_vocabulary([chat([9, 9, 9, 9, 5, 3, 5], 4), chat([7, 3, 8], 1)]) == [3, 5, 8]


def test_prompts_that_are_held_out_train_nothing():
    """Of the corpus itself; both answers to each other prompt do, as chats."""
    tokenizer = load_tokenizer("smoke")
    trained, held_out = training_chats(tokenizer, 60)
    rows = [row for folder in ("answers", "greedy") for row in eagle_features.answer_rows(folder)]
    first = list(dict.fromkeys(row["prompt"] for row in rows))[:60]
    asked = [tuple(prompt_ids(tokenizer, [{"role": "user", "content": prompt}])) for prompt in first]
    assert [tuple(ids) for ids in held_out] == [asked[0], asked[25], asked[50]]
    prompts = [tuple(ids[:start].tolist()) for ids, start in trained]
    assert sorted(prompts) == sorted(2 * [ids for ids in asked if list(ids) not in held_out])
    answers = [row["answer"] for row in rows if row["prompt"] == first[1]]
    assert [tokenizer.decode(trained[number][0][trained[number][1] :]) for number in (0, 57)] == answers


def test_a_place_is_held_against_the_hidden_state_after_it(model, features):
    """By a loop over places; padding and prompts count for nothing."""
    torch.manual_seed(0)
    head = EagleHead(train_eagle.config_for(model))
    chosen = [
        Features(chat.tokens[:n], chat.hidden[:n], start)
        for chat, n, start in zip(features, (9, 5), (3, 2), strict=False)
    ]
    batch = train_eagle._padded(chosen, np.random.default_rng(0), 0.0, "cpu")
    assert batch.tokens.shape == (2, 9) and batch.counts.sum() == 6 + 3
    noise = (batch.noisy - batch.hidden).abs()
    assert 0.05 < float(noise.max()) <= train_eagle.NOISE + 1e-6
    vocabulary = list(range(0, 64, 2))
    frozen = train_eagle.frozen_parts(model, chosen, vocabulary)
    scales = frozen.scales[:32], frozen.scales[32:]
    with torch.no_grad():
        found = losses(head, batch, frozen)
        distances, entropies = [], []
        for row, chat in enumerate(chosen):
            n, noisy = len(chat.tokens), batch.noisy[row]
            embedded = model.get_input_embeddings()(chat.tokens[1:].long())
            inputs = embedded[None] * scales[0], noisy[None, : n - 1] * scales[1]
            predicted = head(*inputs, torch.arange(n - 1))[0]
            for place in range(chat.start - 1, n - 1):
                wanted = chat.hidden[place + 1].float()
                difference = (predicted[place] - wanted).abs()
                distances.append(torch.where(difference < 1, difference**2 / 2, difference - 0.5).mean())
                target = model.lm_head(wanted)[vocabulary].softmax(dim=-1)
                entropies.append(-(target * model.lm_head(predicted[place])[vocabulary].log_softmax(dim=-1)).sum())
    assert len(distances) == 9
    torch.testing.assert_close(found[0], torch.stack(distances).mean())
    torch.testing.assert_close(found[1], torch.stack(entropies).mean())


def test_own_predictions_go_in_where_they_are_drawn(model, features):
    """The loss is that of a chat whose hidden states at those places are what the head predicts, given the same."""
    torch.manual_seed(0)
    head, chat = EagleHead(train_eagle.config_for(model)), features[0]
    frozen = train_eagle.frozen_parts(model, [chat], list(range(64)))
    batch = train_eagle._padded([chat], np.random.default_rng(0), 0.5, "cpu")
    own = batch.own[0].nonzero()[:, 0].tolist()
    assert own and min(own) >= chat.start and len(own) < len(chat.answer)
    mixed, embedded = batch.noisy[0].clone(), model.get_input_embeddings()(chat.tokens[1:].long())
    shipped = folded(head, frozen)
    assert any(place + 1 in own for place in own)
    with torch.no_grad():
        for _ in range(2):
            predicted = shipped(embedded[None], mixed[None, :-1], torch.arange(len(chat.tokens) - 1))[0]
            for place in own:
                mixed[place] = predicted[place - 1]
        none = torch.zeros_like(batch.own)
        expected = losses(head, batch._replace(noisy=mixed[None].clone(), own=none), frozen)
        found = losses(head, batch, frozen)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("bias", [True, False])
def test_the_linear_start_is_the_least_squares_solution(model, features, bias):
    """Against numpy's, on all places of the answers; a ridge so small moves it little."""
    head = EagleHead(dataclasses.replace(train_eagle.config_for(model), bias=bias))
    frozen = train_eagle.frozen_parts(model, features, list(range(64)))
    train_eagle.begin_linear(head, features, frozen)
    inputs, wanted, predicted = [], [], []
    for chat in features:
        embedded, hidden = model.get_input_embeddings()(chat.tokens.long()).detach(), chat.hidden.float()
        places = slice(chat.start - 1, len(chat.tokens) - 1)
        inputs.append(torch.cat([embedded[1:][places], hidden[:-1][places]], dim=1))
        wanted.append(hidden[1:][places])
        with torch.no_grad():
            found = folded(head, frozen)(embedded[None, 1:], hidden[None, :-1], torch.arange(len(chat.tokens) - 1))[0]
        predicted.append(found[places])
    inputs, wanted, predicted = (torch.cat(each).double().numpy() for each in (inputs, wanted, predicted))
    if bias:
        inputs = np.c_[inputs, np.ones(len(inputs))]
    best = inputs @ np.linalg.lstsq(inputs, wanted, rcond=None)[0]
    error, least = np.square(predicted - wanted).mean(), np.square(best - wanted).mean()
    assert least <= error < 1.02 * least + 1e-6
    assert least < np.square(wanted - wanted.mean(axis=0)).mean() / 2


def folded(head, frozen):
    """By hand: a head that takes unscaled inputs."""
    other = EagleHead(head.config)
    other.load_state_dict(head.state_dict() | {"fc.weight": head.fc.weight.detach() * frozen.scales[None]})
    return other


def test_scaled_inputs_have_one_size_and_the_shipped_head_needs_no_scales(model, features, tmp_path):
    training = Training(model, features, tmp_path, SETTINGS)
    embedded = model.get_input_embeddings()(torch.cat([chat.answer for chat in features]).long())
    hidden = torch.cat([chat.hidden[chat.start :] for chat in features]).float()
    scaled = torch.cat([embedded, hidden], dim=1) * training.frozen.scales
    torch.testing.assert_close(scaled.square().mean(dim=0), torch.ones(64))
    with torch.no_grad():
        one = training.head(*scaled[None, :9].chunk(2, dim=2), torch.arange(9))
        other = training.head_to_ship()(embedded[None, :9], hidden[None, :9], torch.arange(9))
    torch.testing.assert_close(one, other)


def weights_of(head):
    return torch.cat([parameter.detach().flatten() for parameter in head.parameters()])


@pytest.mark.parametrize("stop", [4, 6])
def test_a_resumed_run_is_the_run_that_was_not_interrupted(model, features, tmp_path, monkeypatch, stop):
    """To the last bit, also where it was stopped between two checkpoints and lost what came after the first."""
    whole = Training(model, features, tmp_path / "whole", SETTINGS)
    whole.run()
    checkpoint = Training._checkpoint
    with monkeypatch.context() as patch:
        patch.setattr(Training, "_checkpoint", lambda self: None if self.step == 6 else checkpoint(self))
        Training(model, features, tmp_path / "stopped", SETTINGS).run(stop)
    resumed = Training(model, features, tmp_path / "stopped", SETTINGS)
    assert resumed.step == 4
    assert torch.equal(weights_of(resumed.run()), weights_of(whole.head_to_ship()))
    losses_of = [[record.get("feature_loss") for record in run.log.load()] for run in (whole, resumed)]
    assert losses_of[0] == losses_of[1] and len(losses_of[0]) == 12


def test_a_checkpoint_of_other_settings_is_refused(model, features, tmp_path):
    Training(model, features, tmp_path, SETTINGS).run(4)
    for other, chats in ((dataclasses.replace(SETTINGS, seed=2), features), (SETTINGS, features[1:])):
        with pytest.raises(ValueError, match="other settings"):
            Training(model, chats, tmp_path, other)


def test_it_learns_and_the_chains_get_longer(model, features, chats, tmp_path):
    """On the very texts that it was taught; the target itself is left as it was."""
    before = [parameter.clone() for parameter in model.parameters()]
    prompts = [ids[:start].tolist() for ids, start in chats]
    settings = Settings(steps=150, batch_tokens=240, learning_rate=1e-2, warmup=10, every=75)
    trained = [parameter.requires_grad for parameter in model.parameters()]
    training = Training(
        model.requires_grad_(False),
        features,
        tmp_path,
        settings,
        try_head=lambda head: accepted_length(model, head, prompts, 30),
    )
    training.run()
    records = training.log.load()
    trials = [record for record in records if "accepted" in record]
    assert [record["step"] for record in trials] == [0, 75, 150]
    assert trials[-1]["accepted"] > trials[0]["accepted"] + 1 and trials[-1]["steps"] > 0
    steps = [record for record in records if "feature_loss" in record]
    assert steps[-1]["feature_loss"] < steps[0]["feature_loss"] / 2
    assert all(map(torch.equal, before, model.parameters()))
    for parameter, needs in zip(model.parameters(), trained, strict=True):
        parameter.requires_grad_(needs)


def test_what_a_trial_says_of_the_accepted_tokens():
    """Against a count by hand, and an interval that resamples whole prompts."""
    found = eagle_trials._facts([[0, 1, 4], [2, 2], [4]], 1.2)
    assert found["accepted"] == pytest.approx(13 / 6) and found["steps"] == 6
    assert found["by_depth"] == pytest.approx([5 / 6, 4 / 6, 2 / 6, 2 / 6])
    assert found["draft_seconds"] == pytest.approx(0.2)
    assert found["low"] == pytest.approx(5 / 3, abs=0.01) and found["high"] == 4.0
    assert eagle_trials._facts([], 0.0)["accepted"] == 0.0


def test_the_log_that_is_shipped_has_ten_steps_a_line():
    steps = [
        {"key": f"step-{n}", "step": n, "feature_loss": n / 10, "logit_loss": 2.0, "learning_rate": 1e-3}
        | {"tokens": 100 + n, "seconds": 0.5}
        for n in range(1, 15)
    ]
    trial = {"key": "trial-10", "step": 10, "accepted": 1.5, "by_depth": [1, 0, 0, 0]}
    first, found, last = brief_log([*steps, trial])
    assert first == {"step": 10, "feature_loss": 0.55, "logit_loss": 2.0, "learning_rate": 0.001} | {
        "tokens": 1055,
        "seconds": 5.0,
    }
    assert found == {"step": 10, "accepted": 1.5, "by_depth": [1, 0, 0, 0]}
    assert last["step"] == 14 and last["tokens"] == 450


def test_the_command_trains_resumes_and_ships(tmp_path, capsys):
    """On the smoke profile's model; what it writes is found as that model's shipped head."""
    arguments = ["--profile", "smoke", "--out", str(tmp_path), "--prompts", "16", "--steps", "4", "--every", "2"]
    arguments += ["--batch-tokens", "600", "--trials", "1", "--trial-tokens", "12"]
    assert train_eagle.main([*arguments, "--until", "2"]) == 0
    assert train_eagle.main(arguments) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert [record["step"] for record in printed] == [0, 2, 0, 2, 4]
    model, _ = samlib.bench.load_model("smoke")
    folder = tmp_path / "head"
    assert samlib.drafters.eagle_checkpoint.shipped_head(model, tmp_path) == folder
    manifest = json.loads((folder / "training.json").read_text())
    assert manifest["steps"] == 4 and manifest["training"]["batch_tokens"] == 600 and manifest["tokens"] > 1000
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [line.get("step") for line in log if "feature_loss" in line] == [4]
    assert [line["size"] for line in log if "comparison" in line] == [None]
    assert samlib.generate(model, [5, 6, 7], method="eagle2", head=folder, vocabulary=50, max_new_tokens=9).steps


def test_the_learning_rate_rises_then_falls():
    settings = Settings(steps=100, warmup=10, learning_rate=1.0)
    rates = [train_eagle.learning_rate(step, settings) for step in range(100)]
    assert rates[:10] == pytest.approx([0.1 * (step + 1) for step in range(10)])
    assert rates[10] == 1.0 and rates[10:] == sorted(rates[10:], reverse=True) and 0.1 < rates[-1] < 0.12
