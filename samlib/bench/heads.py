"""Which EAGLE head a profile's methods draft with: the one that is shipped for its model, or a random one for tests.

A shipped head lies in `data/eagle/<the profile's model>/`. The tiny random model of the smoke profile gets a random
head, made in code like the model itself: it checks the machinery, and hardly a token of its drafts is accepted.
"""

import json
import os
import shutil
import tempfile
from pathlib import Path

from samlib import paths
from samlib.bench.model import TINY_RANDOM, model_identity
from samlib.bench.packages import sha256_of
from samlib.bench.profiles import load_profile
from samlib.bench.records import settings_key
from samlib.drafters.registry import needs_head

REDUCED = 8000  # ids: how much of the vocabulary lines sized to a device draft from, the most frequent ones
RANDOM_RULE = "random, seed 0"  # the identity of the tiny model's head; change it with what `random_head` makes


def head_options(profile, model, method):
    """The options of `make_drafter` that name a method's head: {} or {"head": its folder}.

    {} where the method has no head, where one is shipped for the model (it is found by itself), and where there is none
    at all: `make_drafter` then says so. Thread-safe.
    """
    profile = load_profile(profile)
    if profile.model != TINY_RANDOM or not needs_head(method):
        return {}
    folder = paths.CACHE / "heads" / settings_key([model_identity(profile), RANDOM_RULE])
    return {"head": folder if folder.is_dir() else random_head(model, folder)}


def head_identity(profile):
    """A short string that changes with the head of the profile's model, without loading either; None without a head."""
    from samlib.drafters.eagle_checkpoint import weights_file

    profile = load_profile(profile)
    if profile.model == TINY_RANDOM:
        return RANDOM_RULE
    folder = shipped_folder(profile)
    return sha256_of(weights_file(folder)) if folder else None


def missing_head(profile):
    """Why the methods that need a head cannot be run with a profile, in words; None where they can."""
    if head_identity(profile):
        return None
    return f"there is no EAGLE head for {load_profile(profile).model} in data/eagle"


def shipped_folder(profile):
    """The folder of the head that is shipped for the profile's model; None where there is none."""
    from samlib.drafters.eagle_checkpoint import TARGET

    folder = paths.eagle_head_dir(load_profile(profile).model)
    return folder if (folder / TARGET).is_file() else None


def reduced_vocabulary(model):
    """How many of its most frequent ids a line sized to a device drafts: REDUCED, or all of a smaller vocabulary."""
    return min(REDUCED, model.get_output_embeddings().weight.shape[0])


def random_head(model, folder, seed=0):
    """Write a random head for `model`, which ranks the ids in their own order; return its folder.

    The folder gets its name when it is whole; one that is there already is left as it is, whoever wrote it.
    """
    import torch

    from samlib.bench.train_eagle import config_for
    from samlib.drafters.eagle_checkpoint import VOCABULARY, save_head
    from samlib.drafters.eagle_head import EagleHead

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = EagleHead(config_for(model))
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.", suffix=".tmp"))
    try:
        save_head(head, partial)
        (partial / VOCABULARY).write_text(json.dumps(list(range(head.config.vocab_size))), encoding="utf-8")
        _publish(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _publish(partial, folder):
    """Give a folder its final name, unless another process was first."""
    try:
        os.rename(partial, folder)
    except OSError:
        if not folder.is_dir():
            raise
