"""Fits the prior of sam_auto's acceptance model: `python -m samlib.bench.fit_acceptance` (some minutes).

The model learns from greedy answers to the corpus prompts, as it does while it decodes, in several passes; what it has
come to is what every sam_auto begins with. Every fourth prompt takes part; the sampled answers to the others are the
static index, so that no match comes from an answer to the same prompt. Nothing of a benchmark is among them.
"""

import argparse
import json
import math

import numpy as np
from tqdm import tqdm

from samlib import StaticAutomaton
from samlib.bench.eagle_features import answer_rows
from samlib.bench.model import load_model, model_identity
from samlib.bench.profiles import load_profile
from samlib.bench.prompts import document_ids, prompt_ids
from samlib.bench.records import write_whole
from samlib.bench.replay import Trajectory
from samlib.bench.trajectories import TOP_K
from samlib.decoding.step_cost import StepCost
from samlib.drafters import Verified
from samlib.drafters.acceptance import PRIOR_FILE, SHAPES
from samlib.drafters.auto import SamAuto

EVERY = 4  # one prompt in so many
EPOCHS = 5
SEED = 2411
DIGITS = 4  # of a weight in the file
ANY_COST = StepCost({1: 1.0})  # nothing is drafted while fitting


def fit(trajectories, static, *, epochs=EPOCHS, seed=SEED, progress=True):
    """(prior, losses): the weights after all passes, {kind: array}, and each pass's mean loss in nats a token.

    trajectories: with at least TOP_K of the largest logits. A pass begins with the weights of the one before and with
    no rows of likely successors, since those of a pass before would be of the very same texts.
    """
    prior, losses = {name: np.zeros(shape) for name, shape in SHAPES.items()}, []
    rng = np.random.default_rng(seed)
    for epoch in range(epochs):
        drafter = SamAuto(static, cost=ANY_COST, prior=prior, rate=_rate(epoch))
        order = rng.permutation(len(trajectories))
        bar = tqdm(order, desc=f"pass {epoch + 1} of {epochs}", unit="answer", disable=not progress)
        nats = [loss for index in bar for loss in _losses(drafter, trajectories[index])]
        prior, losses = drafter.learnt(), [*losses, float(np.mean(nats))]
    return prior, losses


def _rate(epoch):
    """Of learning: large steps at first, so that it matters little where they begin."""
    return 1.0 / (1 + epoch)


def _losses(drafter, trajectory):
    """Show the drafter one answer, token by token as it would be decoded without drafts; yield -log p of each."""
    drafter.begin(trajectory.prompt)
    drafter.observe(trajectory.tokens[:1])
    for root, token, top in zip(trajectory.tokens[:-1], trajectory.tokens[1:], trajectory.top, strict=True):
        yield -math.log(max(_probability(drafter.options(), token), 1e-9))
        verified = Verified(np.array([root]), top[None], None, np.zeros(1, np.int32), np.array([-1], np.int32))
        drafter.observe(np.array([token]), verified)


def _probability(options, token):
    """Of `token`, or of "none of these" where it is none of them."""
    by_token = {option["token"]: option["probability"] for option in options}
    return by_token.get(token, 1.0 - sum(by_token.values()))


def fitting_data(profile, *, every=EVERY, progress=True):
    """(trajectories, static index) of the profile's model: one forward over each greedy answer."""
    model, tokenizer = load_model(profile)
    rows = list(answer_rows("greedy"))
    chosen = set(list(dict.fromkeys(row["prompt"] for row in rows))[::every])
    rows = [row for row in rows if row["prompt"] in chosen]
    bar = tqdm(rows, desc="answers", unit="answer", disable=not progress)
    trajectories = [_trajectory(model, tokenizer, row) for row in bar]
    others = [row for row in answer_rows("answers") if row["prompt"] not in chosen]
    static = StaticAutomaton.build([document_ids(tokenizer, row["prompt"], row["answer"]) for row in others])
    return [trajectory for trajectory in trajectories if trajectory is not None], static


def _trajectory(model, tokenizer, row):
    """A row's answer with the largest logits after each of its tokens; None where it is a single token."""
    import torch

    prompt = prompt_ids(tokenizer, [{"role": "user", "content": row["prompt"]}])
    answer = tokenizer(row["answer"], add_special_tokens=False)["input_ids"]
    if len(answer) < 2:
        return None
    with torch.inference_mode():
        logits = model(torch.tensor([prompt + answer]), logits_to_keep=len(answer)).logits[0, :-1]
    top = logits.topk(TOP_K).indices.int().numpy()
    return Trajectory(np.array(prompt, np.int32), np.array(answer, np.int32), len(answer), "length", top)


def save_prior(path, prior, about):
    """Write a prior, and what it was fitted on, as JSON, in one piece."""
    parts = {name: np.round(part, DIGITS).tolist() for name, part in prior.items()}
    text = ",\n".join(f"{json.dumps(name)}: {json.dumps(part)}" for name, part in ({"about": about} | parts).items())
    write_whole(path, f"{{\n{text}\n}}\n".encode())


def main(arguments=None):
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m samlib.bench.fit_acceptance", description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="cpu")
    parser.add_argument("--output", default=PRIOR_FILE, metavar="FILE", help="(default: the file that samlib brings)")
    args = parser.parse_args(arguments)
    profile = load_profile(args.profile)
    trajectories, static = fitting_data(profile)
    prior, losses = fit(trajectories, static)
    tokens = sum(len(trajectory.tokens) for trajectory in trajectories)
    about = {"model": model_identity(profile), "answers": len(trajectories), "tokens": tokens, "epochs": EPOCHS}
    save_prior(args.output, prior, about | {"loss_by_pass": [round(loss, DIGITS) for loss in losses]})
    print(f"{tokens} tokens of {len(trajectories)} answers; nats a token by pass: {[round(x, DIGITS) for x in losses]}")


if __name__ == "__main__":
    main()
