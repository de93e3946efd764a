"""The training of a shipped EAGLE head as it is on file: the manifest and the log beside its weights. No torch here.

A log has one JSON object a line. Steps: step, feature_loss, logit_loss, learning_rate (means over the steps since the
line before), tokens, seconds (sums). Trials: step, accepted, low, high, steps, by_depth. Comparisons of vocabularies:
comparison, size (null: all ids), accepted, low, high, draft_seconds, steps.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from samlib import paths
from samlib.bench.profiles import load_profile
from samlib.bench.records import jsonl_lines
from samlib.errors import MissingAssetError, SetupError

MANIFEST, LOG = "training.json", "log.jsonl"
AIM = 1.0  # accepted tokens a step beside the bonus token, which a head is to reach at least
STEP_COLUMNS = ("step", "feature_loss", "logit_loss", "learning_rate", "tokens", "seconds")
INTERVAL = ("accepted", "low", "high", "steps")
DEPTHS = ("p1", "p2", "p3", "p4")  # share of steps in which at least that many tokens of the chain are accepted
TRIAL_COLUMNS = ("step", *INTERVAL, *DEPTHS)
VOCABULARY_COLUMNS = ("size", *INTERVAL, "draft_seconds")


@dataclass(frozen=True)
class ShippedTraining:
    """How a shipped head was trained. Immutable, if nobody writes to its frames.

    folder: the head's. manifest: its facts, as `samlib.bench.manifest` writes them. steps, trials, vocabularies:
    DataFrames in the order of the log, with STEP_COLUMNS, TRIAL_COLUMNS, VOCABULARY_COLUMNS; the last may be empty.
    Among the numbers `accepted` is the mean of accepted tokens a step beside the bonus token, from `low` to `high` its
    95 % interval, `steps` how many steps that rests on; `draft_seconds` is the mean of a step's drafting; size is nan
    where all ids are drafted.
    """

    folder: Path
    manifest: dict
    steps: pd.DataFrame
    trials: pd.DataFrame
    vocabularies: pd.DataFrame


def is_shipped(profile):
    """Whether the repository ships an EAGLE head for the model of a profile."""
    return head_folder(profile).is_dir()


def shipped_training(profile):
    """The ShippedTraining of the head for a profile's model, or of the head in a folder that is given as a Path.

    MissingAssetError where there is no head, or one without manifest or log; SetupError for a log that is damaged, or
    has no steps or no trials.
    """
    folder = profile if isinstance(profile, Path) else head_folder(profile)
    if not folder.is_dir():
        raise MissingAssetError(
            f"no EAGLE head at {folder}: train one for this model (python -m samlib.bench.train_eagle --help)"
        )
    manifest, records = _manifest(_part(folder, MANIFEST)), _records(_part(folder, LOG))
    steps = [record for record in records if "feature_loss" in record]
    vocabularies = [record for record in records if record.get("comparison") == "vocabulary"]
    trials = [_by_depth(record) for record in records if "accepted" in record and "comparison" not in record]
    if not steps or not trials:
        raise SetupError(f"{folder / LOG} holds {len(steps)} steps and {len(trials)} trials: restore the whole log")
    frames = (
        _frame(folder / LOG, rows, columns)
        for rows, columns in ((steps, STEP_COLUMNS), (trials, TRIAL_COLUMNS), (vocabularies, VOCABULARY_COLUMNS))
    )
    return ShippedTraining(folder, manifest, *frames)


def about_shipped(profile):
    """One line on what is shipped for a profile's model, or that nothing is."""
    model = load_profile(profile).model
    if not is_shipped(profile):
        return f"no EAGLE head is shipped for the model {model}: only the live training above can be shown"
    steps = shipped_training(profile).manifest["steps"]
    return f"the EAGLE head that is shipped for the model {model} was trained for {steps:,} steps"


def head_folder(profile):
    """The folder of the head that is shipped for a profile's model; it may not exist."""
    return paths.eagle_head_dir(load_profile(profile).model)


def _part(folder, name):
    """A file of a head's folder, which must be there."""
    if not (folder / name).is_file():
        raise MissingAssetError(f"the EAGLE head {folder} has no {name}: restore it, or remove the head's whole folder")
    return folder / name


def _manifest(path):
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {**content, "steps": int(content["steps"])}
    except (ValueError, KeyError, TypeError) as error:
        raise SetupError(f"{path} is not the manifest of a training: restore it") from error


def _records(path):
    """The JSON objects of a log."""
    records = []
    for number, line in enumerate(jsonl_lines(path), start=1):
        try:
            records.append(dict(json.loads(line)))
        except (ValueError, TypeError) as error:
            raise SetupError(f"{path}:{number} is not a record of a training: restore the log") from error
    return records


def _by_depth(record):
    """A trial with its shares by depth as columns."""
    return {**record, **dict(zip(DEPTHS, record.get("by_depth", ()), strict=False))}


def _frame(path, rows, columns):
    """A DataFrame of floats with these columns, of records that must have them all."""
    missing = sorted({name for row in rows for name in columns if name not in row})
    if missing:
        raise SetupError(f"{path} has records without {', '.join(missing)}: restore the log")
    return pd.DataFrame(rows, columns=list(columns)).astype(float)
