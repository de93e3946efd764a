"""An invented training of an EAGLE head, on disk as a shipped one is; every number differs from every other."""

import json
import tempfile
from pathlib import Path

from samlib.bench.training_log import shipped_training

STEPS, EVERY, TRIED = 3000, 10, 500
SIZES = (None, 16384, 4096)


def step_records():
    """One line for ten steps each; the losses fall, the tokens and seconds are sums."""
    return [
        {
            "step": step,
            "feature_loss": 0.5 - 1e-4 * step,
            "logit_loss": 6 - 1e-3 * step,
            "learning_rate": 5e-4 * (1 - step / 4000),
            "tokens": 10_000,
            "seconds": 30.0,
        }
        for step in range(EVERY, STEPS + 1, EVERY)
    ]


def trial_records(final=1.2, half_width=0.1):
    """Trials from the untrained head on; accepted is the sum of the shares by depth, `final` in the last one."""
    records = []
    for step in range(0, STEPS + 1, TRIED):
        accepted = 0.02 + (final - 0.02) * step / STEPS
        by_depth = [round(accepted * share, 6) for share in (0.5, 0.25, 0.15, 0.1)]
        low, high = accepted - half_width, accepted + half_width
        records.append({"step": step, "accepted": accepted, "low": low, "high": high, "steps": 900 + step})
        records[-1] |= {"by_depth": by_depth, "draft_seconds": 0.021}
    return records


def vocabulary_records():
    """All ids, and two parts of them."""
    return [
        {
            "comparison": "vocabulary",
            "size": size,
            "accepted": 1.2 - 0.05 * place,
            "low": 1.1 - 0.05 * place,
            "high": 1.3 - 0.05 * place,
            "draft_seconds": 0.020 / (1 + place),
            "steps": 800 + place,
            "by_depth": [0.6, 0.3, 0.2, 0.1],
        }
        for place, size in enumerate(SIZES)
    ]


MANIFEST = {
    "commit": "0123456789abcdef",
    "written": "2030-01-01T00:00:00+00:00",
    "machine": {"cpu": "CPU A", "cores": 4, "gpu": None, "threads": 2, "os": "an OS"},
    "profile": {"device": "cpu"},
    "model": "a-model-0123",
    "training": {"steps": STEPS, "batch_tokens": 1024, "trials": 12},
    "steps": STEPS,
    "chats": 1234,
    "held_out_prompts": 46,
    "tokens": 345_678,
    "wall_seconds": 9999.5,
}


def write_training(folder, *, trials=None, vocabularies=None, steps=None):
    """Write training.json and log.jsonl of a head; returns its folder. Steps and trials are mixed."""
    folder.mkdir(parents=True, exist_ok=True)
    trials = trial_records() if trials is None else trials
    steps = step_records() if steps is None else steps
    records = sorted([*trials, *steps], key=lambda record: record["step"])
    records += vocabulary_records() if vocabularies is None else vocabularies
    (folder / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (folder / "training.json").write_text(json.dumps(MANIFEST))
    return folder


def invented_training():
    """The same as a ShippedTraining, read from files that are gone by then."""
    with tempfile.TemporaryDirectory() as folder:
        return shipped_training(write_training(Path(folder)))
