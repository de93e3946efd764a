"""A few steps of an EAGLE head's training, to be looked at in a notebook; nothing of them is kept."""

import contextlib
import tempfile
import time
from pathlib import Path

import pandas as pd

from samlib.bench.eagle_features import extract_features, read_features, training_chats
from samlib.bench.train_eagle import Settings, Training

CHATS = 12
ANSWER = 96  # tokens of an answer that are read


def live_training(model, tokenizer, steps=50, chats=CHATS, *, progress=True):
    """Train a fresh head for a few steps on a few chats; returns (losses, facts).

    losses: a DataFrame with a row a step, with the columns of the training's log. facts: chats, tokens,
    feature_seconds, training_seconds, parameters. A batch is the beginning of one chat, so that fifty steps take about
    half a minute on two slow cores, features included. The model is frozen meanwhile: not thread-safe.
    """
    settings = Settings(steps=steps, batch_tokens=1, warmup=max(1, steps // 10), every=steps, linear_start=False)
    chosen, _ = training_chats(tokenizer, 2 * chats)
    chosen = [(ids[: start + ANSWER], start) for ids, start in chosen[:chats]]
    with tempfile.TemporaryDirectory() as folder, _frozen(model):
        start = time.perf_counter()
        features = read_features(extract_features(model, chosen, Path(folder), progress=progress))
        extracted = time.perf_counter()
        training = Training(model, features, folder, settings)
        head = training.run()
        ended = time.perf_counter()
    facts = {"chats": len(features), "tokens": sum(len(chat.tokens) for chat in features)}
    facts |= {"feature_seconds": extracted - start, "training_seconds": ended - extracted}
    facts |= {"parameters": sum(parameter.numel() for parameter in head.parameters())}
    return pd.DataFrame(record for record in training.log.load() if "feature_loss" in record), facts


@contextlib.contextmanager
def _frozen(model):
    """No parameter of the model needs gradients meanwhile."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    model.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)
