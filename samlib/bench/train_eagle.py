"""Train an EAGLE head for a profile's model, on the model's own answers: `python -m samlib.bench.train_eagle`.

As in EAGLE's paper (arXiv 2401.15077, Section 4): smooth L1 between predicted and true hidden states, plus the
cross-entropy between the distributions that the LM head makes of the two; AdamW, gradients clipped, and uniform noise
on the hidden states that go in. Only answers count, for only there drafts are made; and the distributions are over the
ids that occur in the answers, which spares most of the LM head. Three things are done besides, for a small model that
is trained on little text:

* The head begins as the best linear one: `fc` by ridge regression of the next hidden state on the inputs, the layer's
  two branches adding nothing.

* The inputs are scaled to one root-mean-square a channel, for embeddings are small and some channels of hidden states
  large. The scales are folded into the weights of the shipped head, which is EAGLE's, no more and no less.
* A share of the hidden states that go in, rising over the training, are the head's own predictions instead of the
  target's, some of them made from such predictions: a head that drafts several tokens reads what it predicted, and
  noise alone does not prepare it for that.

Everything random is drawn from the seed and the step, and a checkpoint holds the rest, so that an interrupted run goes
on exactly as if it had not been. Every so often the head is tried on held-out prompts (eagle_trials.py). The log has
one JSON line for each trial and for each step.
"""

import argparse
import copy
import dataclasses
import io
import json
import math
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import cross_entropy, smooth_l1_loss
from torch.nn.utils.rnn import pad_sequence

from samlib import paths
from samlib.bench.eagle_features import (
    MAX_LENGTH,
    extract_features,
    ranked_vocabulary,
    read_features,
    training_chats,
)
from samlib.bench.eagle_trials import accepted_length, chains_accepted
from samlib.bench.kernels import cpu_kernels
from samlib.bench.manifest import write_manifest
from samlib.bench.model import load_model, model_identity
from samlib.bench.profiles import load_profile
from samlib.bench.records import RecordStore, settings_key, write_whole
from samlib.drafters.eagle_checkpoint import VOCABULARY, save_head
from samlib.drafters.eagle_head import EagleHead, HeadConfig
from samlib.errors import SetupError

NOISE = 0.1  # hidden states go in with a uniform number of up to that added, either way
OWN_PASSES = 2
RIDGE = 1e-4  # of the linear start, in terms of each input's own mean square
CHATS_TOGETHER = 50  # in a step of the regression
SCALED_BY = 200  # chats whose inputs set the scales
GRADIENT_NORM = 0.5  # gradients are clipped to it
LOGGED_TOGETHER = 10  # steps that are one line of the log that is shipped
VOCABULARIES = (2000, 4000, 8000, None)  # sizes at which the trained head is compared
UNFINGERPRINTED = ("every", "trials", "trial_tokens")  # settings that a checkpoint does not depend on


@dataclasses.dataclass(frozen=True)
class Settings:
    """How to train.

    steps: updates in all. batch_tokens: answer tokens of an update, about. logit_weight: of the cross-entropy, beside
    the smooth L1. own_share: the share of inputs that are the head's own predictions at the end. linear_start: begin as
    the best linear head, not with random weights. warmup: steps to the full learning rate, which then falls linearly to
    a tenth. every: steps between checkpoints, each with a trial on `trials` prompts of `trial_tokens` new tokens.
    """

    steps: int = 5200
    batch_tokens: int = 512
    learning_rate: float = 2e-4
    logit_weight: float = 0.3
    own_share: float = 0.4
    linear_start: bool = True
    warmup: int = 50
    every: int = 400
    trials: int = 12
    trial_tokens: int = 48
    seed: int = 0


class Batch(NamedTuple):
    """Chats side by side, padded: tokens (rows, n), hidden and noisy hidden states (rows, n, hidden).

    counts: bool, (rows, n), which tokens are an answer's. own: bool, (rows, n), at which places the head's own
    predictions go in.
    """

    tokens: torch.Tensor
    hidden: torch.Tensor
    noisy: torch.Tensor
    counts: torch.Tensor
    own: torch.Tensor


class Frozen(NamedTuple):
    """What training takes from the target. embedding: its module. language_rows: (ids, hidden), of its LM head.

    scales: what embeddings and hidden states, one after the other as in the head's input, are multiplied by.
    """

    embedding: torch.nn.Module
    language_rows: torch.Tensor
    scales: torch.Tensor


class Training:
    """A head in training on [Features]: `run` goes on from the last checkpoint in `folder`, or begins.

    model: the target, whose parameters need no gradients. try_head: a function of the head that returns JSON-like
    facts, called at the beginning and at every checkpoint. ValueError for a checkpoint of other settings or features.
    Not thread-safe.
    """

    def __init__(self, model, features, folder, settings, *, try_head=None):
        self.model, self.features, self.settings = model, features, settings
        self.folder, self.try_head = Path(folder), try_head
        self.log = RecordStore(self.folder / "log.jsonl")
        self.vocabulary = ranked_vocabulary(features)
        self.frozen = frozen_parts(model, features, self.vocabulary)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            self.head = EagleHead(config_for(model)).to(model.device)
        self.optimizer = torch.optim.AdamW(self.head.parameters(), lr=settings.learning_rate, betas=(0.9, 0.95))
        self.step = 0
        if not self._resume() and settings.linear_start:
            begin_linear(self.head, features, self.frozen)

    def run(self, until=None):
        """Train up to step `until` (default: all of them), with a checkpoint there too; returns the head to ship."""
        until = self.settings.steps if until is None else min(until, self.settings.steps)
        if self.step == 0:
            self._try()
        while self.step < until:
            record = self._update()
            self.log.append({"key": f"step-{self.step}", "step": self.step, **record})
            if self.step % self.settings.every == 0 or self.step == until:
                self._try()  # first, so that no trial is left out where the run is stopped meanwhile
                self._checkpoint()
        return self.head_to_ship()

    def head_to_ship(self):
        """A copy of the head that takes embeddings and hidden states as they are: the scales are in its weights."""
        head = copy.deepcopy(self.head).requires_grad_(False)
        head.fc.weight.mul_(self.frozen.scales)
        return head

    def _update(self):
        """One step of the optimizer; returns what is logged of it."""
        start = time.perf_counter()
        batch = self._batch(self.step)
        rate = learning_rate(self.step, self.settings)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        feature_loss, logit_loss = losses(self.head, batch, self.frozen)
        self.optimizer.zero_grad(set_to_none=True)
        (feature_loss + self.settings.logit_weight * logit_loss).backward()
        torch.nn.utils.clip_grad_norm_(self.head.parameters(), GRADIENT_NORM)
        self.optimizer.step()
        self.step += 1
        values = {"feature_loss": feature_loss.item(), "logit_loss": logit_loss.item()}
        if not all(map(math.isfinite, values.values())):
            raise FloatingPointError(f"the loss is not finite at step {self.step}: lower the learning rate")
        seconds = round(time.perf_counter() - start, 4)
        return {**values, "learning_rate": rate, "tokens": int(batch.counts.sum()), "seconds": seconds}

    def _batch(self, step):
        """The Batch of a step, drawn from the seed and the step."""
        generator = np.random.default_rng([self.settings.seed, step])
        chosen, size = [], 0
        for index in generator.permutation(len(self.features)):
            if chosen and size + len(self.features[index].answer) > self.settings.batch_tokens:
                break
            chosen.append(self.features[index])
            size += len(chosen[-1].answer)
        return _padded(chosen, generator, self.settings.own_share * step / self.settings.steps, self.model.device)

    def _try(self):
        if self.try_head is not None:
            self.log.append({"key": f"trial-{self.step}", "step": self.step, **self.try_head(self.head_to_ship())})

    def _checkpoint(self):
        state = {
            "step": self.step,
            "settings": self._fingerprint(),
            "head": self.head.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }
        buffer = io.BytesIO()
        torch.save(state, buffer)
        write_whole(self.folder / "checkpoint.pt", buffer.getvalue())

    def _resume(self):
        """Go on where the checkpoint is; returns whether there is one."""
        path = self.folder / "checkpoint.pt"
        if not path.exists():
            return False
        state = torch.load(path, map_location=self.model.device, weights_only=True)
        if state["settings"] != self._fingerprint():
            raise ValueError(f"{path} is of other settings or features: train into another folder, or delete this one")
        self.head.load_state_dict(state["head"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]
        return True

    def _fingerprint(self):
        """A short hash of what a checkpoint depends on."""
        settings = dataclasses.asdict(self.settings)
        kept = {name: value for name, value in settings.items() if name not in UNFINGERPRINTED}
        return settings_key([kept, [len(chat.tokens) for chat in self.features], vars(self.head.config)])


def losses(head, batch, frozen):
    """(smooth L1 of the predicted hidden states, cross-entropy of their distributions), each a mean over places.

    Place t takes hidden state t and token t + 1, and is held against hidden state t + 1, for all tokens t + 1 of the
    answers. batch: a Batch. frozen: a Frozen, over whose LM head rows distributions are made.
    """
    embedded, hidden = frozen.embedding(batch.tokens[:, 1:]).float(), batch.noisy[:, :-1]
    for _ in range(OWN_PASSES if batch.own.any() else 0):  # in the second, predictions are made from predictions
        with torch.no_grad():
            predicted = _predicted(head, embedded, hidden, frozen.scales)
        hidden = torch.cat([hidden[:, :1], torch.where(batch.own[:, 1:-1, None], predicted[:, :-1], hidden[:, 1:])], 1)
    predicted = _predicted(head, embedded, hidden, frozen.scales)[batch.counts[:, 1:]]
    wanted = batch.hidden[:, 1:][batch.counts[:, 1:]]
    with torch.no_grad():
        target = (wanted @ frozen.language_rows.T).softmax(dim=-1)
    return smooth_l1_loss(predicted, wanted), cross_entropy(predicted @ frozen.language_rows.T, target)


def _predicted(head, embedded, hidden, scales):
    """What the head predicts from scaled inputs, (rows, n, hidden)."""
    positions = torch.arange(hidden.shape[1], device=hidden.device)
    return head(embedded * scales[: embedded.shape[2]], hidden * scales[embedded.shape[2] :], positions)


def frozen_parts(model, features, vocabulary):
    """The Frozen of a target: its LM head's rows for the ids `vocabulary`, and scales from [Features]."""
    sample = features[:SCALED_BY]
    embedding = model.get_input_embeddings()
    with torch.no_grad():
        embedded = embedding(torch.cat([chat.answer for chat in sample]).long().to(model.device)).float()
    hidden = torch.cat([chat.hidden[chat.start :] for chat in sample]).float().to(model.device)
    inputs = torch.cat([embedded, hidden], dim=1)
    scales = inputs.square().mean(dim=0).clamp(min=1e-6).rsqrt()
    return Frozen(embedding, model.get_output_embeddings().weight.detach()[vocabulary].float(), scales)


@torch.no_grad()
def begin_linear(head, features, frozen):
    """Make a head the linear one that predicts [Features] best: its layer adds nothing, `fc` is by ridge regression.

    Where `fc` has no bias, hidden states are predicted without one.
    """
    head.layers[0].self_attn.o_proj.weight.zero_()
    head.layers[0].mlp.down_proj.weight.zero_()
    size = frozen.scales.shape[0] + (head.fc.bias is not None)
    squares = frozen.scales.new_zeros(size, size, dtype=torch.float64)
    products = squares.new_zeros(size, head.config.hidden_size)
    for first in range(0, len(features), CHATS_TOGETHER):
        inputs, wanted = _linear_problem(features[first : first + CHATS_TOGETHER], frozen, size)
        squares += (inputs.T @ inputs).double()
        products += (inputs.T @ wanted).double()
    squares += RIDGE * squares.diag().diag()
    found = torch.linalg.solve(squares, products).float()
    head.fc.weight.copy_(found[: frozen.scales.shape[0]].T)
    if head.fc.bias is not None:
        head.fc.bias.copy_(found[-1])


def _linear_problem(chats, frozen, size):
    """(inputs, wanted hidden states) of the places of some chats, a row each; a column of ones last, if size has it."""
    device = frozen.scales.device
    following = torch.cat([chat.answer for chat in chats]).long().to(device)
    before = torch.cat([chat.hidden[chat.start - 1 : -1] for chat in chats]).float().to(device)
    inputs = torch.cat([frozen.embedding(following).float(), before], dim=1) * frozen.scales
    wanted = torch.cat([chat.hidden[chat.start :] for chat in chats]).float().to(device)
    return torch.nn.functional.pad(inputs, (0, size - inputs.shape[1]), value=1.0), wanted


def learning_rate(step, settings):
    """The learning rate of a step: a linear rise over the warm-up, then a linear fall to a tenth."""
    if step < settings.warmup:
        return settings.learning_rate * (step + 1) / settings.warmup
    done = (step - settings.warmup) / max(1, settings.steps - settings.warmup)
    return settings.learning_rate * (1 - 0.9 * done)


def config_for(model):
    """The HeadConfig of a head whose layer is like one of the target's; the target's own embedding serves."""
    config = model.config.get_text_config()
    heads = config.num_attention_heads
    rope = getattr(config, "rope_parameters", None) or {}
    return HeadConfig(
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_attention_heads=heads,
        num_key_value_heads=getattr(config, "num_key_value_heads", None) or heads,
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
        vocab_size=model.get_output_embeddings().weight.shape[0],
        rms_norm_eps=getattr(config, "rms_norm_eps", HeadConfig.rms_norm_eps),
        rope_theta=float(rope.get("rope_theta", HeadConfig.rope_theta)),
    )


def _padded(chats, generator, own_share, device):
    """The Batch of [Features]; noise, and the places where own predictions go in, are drawn from the generator."""
    tokens = pad_sequence([chat.tokens.long() for chat in chats], batch_first=True)
    hidden = pad_sequence([chat.hidden.float() for chat in chats], batch_first=True)
    starts, ends = (torch.tensor(each)[:, None] for each in ([c.start for c in chats], [len(c.tokens) for c in chats]))
    places = torch.arange(tokens.shape[1])[None]
    noise = torch.from_numpy(generator.uniform(-NOISE, NOISE, hidden.shape).astype(np.float32))
    own = torch.from_numpy(generator.random(tokens.shape) < own_share) & (places >= starts)
    batch = Batch(tokens, hidden, hidden + noise, (places >= starts) & (places < ends), own)
    return Batch(*(each.to(device) for each in batch))


# ---- the whole of it -------------------------------------------------------------------------------------------------


def train(profile, folder, settings, *, limit=None, until=None, progress=True):
    """Extract features where they are missing, train from the last checkpoint on, write the head; returns it.

    The head goes to `folder`/head, which is a shipped head's folder; the features beside it. `limit`: prompts of the
    corpus that are used. SetupError where there are none.
    """
    profile, folder = load_profile(profile), Path(folder)
    model, tokenizer = load_model(profile)
    model.requires_grad_(False)
    chats, prompts = training_chats(tokenizer, limit)
    if not chats:
        raise SetupError("no answers to train on: give a larger --prompts")
    key = settings_key([model_identity(profile), MAX_LENGTH, [[ids.tolist(), start] for ids, start in chats]])
    features = read_features(extract_features(model, chats, folder / f"features-{key}", progress=progress))

    def try_head(head):
        with cpu_kernels(profile, model):
            return accepted_length(model, head, prompts[: settings.trials], settings.trial_tokens)

    training = Training(model, features, folder, settings, try_head=try_head)
    training.run(until)
    facts = {"training": dataclasses.asdict(settings), "steps": training.step, "chats": len(features)}
    facts |= {"tokens": sum(len(chat.tokens) for chat in features), "held_out_prompts": len(prompts)}
    facts |= {"answer_tokens": sum(len(chat.answer) for chat in features)}
    ship(training, folder / "head")
    with cpu_kernels(profile, model):
        compared = compare_vocabularies(model, folder / "head", prompts, settings.trial_tokens)
    log = [*brief_log(training.log.load()), *compared]
    write_whole(folder / "head" / "log.jsonl", "".join(json.dumps(line) + "\n" for line in log).encode())
    seconds = sum(record.get("seconds", 0) for record in training.log.load())  # of all calls
    write_manifest(folder / "head" / "training.json", profile, wall_seconds=round(seconds, 1), **facts)
    return training.head_to_ship()


def ship(training, folder):
    """Write a head as the repository holds it: with what it knows its model by, and the ranked vocabulary."""
    save_head(training.head_to_ship(), folder, model=training.model)
    write_whole(folder / VOCABULARY, (json.dumps(training.vocabulary) + "\n").encode())


def compare_vocabularies(model, folder, prompts, max_new_tokens):
    """Log lines of a finished head: chains over the most frequent ids, for each size of VOCABULARIES that it ranks."""
    ranked = len(json.loads((folder / VOCABULARY).read_text(encoding="utf-8")))
    sizes = [size for size in VOCABULARIES if size is None or size <= ranked]
    found = [chains_accepted(model, folder, prompts, max_new_tokens, vocabulary=size) for size in sizes]
    return [{"comparison": "vocabulary", "size": size, **facts} for size, facts in zip(sizes, found, strict=True)]


def brief_log(records):
    """A log's records without their keys, LOGGED_TOGETHER steps in one: means, but tokens and seconds added up."""
    steps = [record for record in records if "feature_loss" in record]
    blocks = [steps[first : first + LOGGED_TOGETHER] for first in range(0, len(steps), LOGGED_TOGETHER)]
    trials = [{name: value for name, value in each.items() if name != "key"} for each in records if "accepted" in each]
    return sorted([*map(_block_of, blocks), *trials], key=lambda record: record["step"])


def _block_of(steps):
    means = {name: _mean_of(steps, name) for name in ("feature_loss", "logit_loss", "learning_rate")}
    sums = {name: round(sum(step[name] for step in steps), 3) for name in ("tokens", "seconds")}
    return {"step": steps[-1]["step"], **means, **sums}


def _mean_of(steps, name):
    return float(f"{np.mean([step[name] for step in steps]):.5g}")


def main(arguments=None):
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m samlib.bench.train_eagle", description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="cpu")
    parser.add_argument("--out", metavar="DIR", type=Path, default=paths.RUNS / "eagle", help="for all that is written")
    parser.add_argument("--prompts", type=int, help="of the corpus, at most (default: all)")
    parser.add_argument("--until", type=int, help="stop for now at this step; the next call goes on")
    for field in dataclasses.fields(Settings):
        name = f"--{field.name.replace('_', '-')}"
        kind = argparse.BooleanOptionalAction if field.type is bool else None
        typed = {"action": kind} if kind else {"type": field.type}
        parser.add_argument(name, default=field.default, help="(default: %(default)s)", **typed)
    args = vars(parser.parse_args(arguments))
    settings = Settings(**{field.name: args[field.name] for field in dataclasses.fields(Settings)})
    train(args["profile"], args["out"], settings, limit=args["prompts"], until=args["until"])
    trials = [json.dumps(record) for record in RecordStore(args["out"] / "log.jsonl").load() if "accepted" in record]
    print("\n".join(trials))
    return 0


if __name__ == "__main__":
    sys.exit(main())
