"""What an EAGLE draft costs by its depth: the second number, beside T(n), that decides which trees pay on a device."""

import dataclasses
import json
import statistics
import time

import numpy as np

from samlib import paths
from samlib.bench.cost import cost_key
from samlib.bench.heads import head_identity, head_options, reduced_vocabulary
from samlib.bench.kernels import cpu_kernels
from samlib.bench.machine import device_words
from samlib.bench.records import settings_key, sources_key, write_whole
from samlib.decoding.cpu_kernels import serve_drafter
from samlib.decoding.forward import synchronise

RULE = 1  # part of every key: raise it where a measurement means something else than before
DEPTHS = (1, 5)


@dataclasses.dataclass(frozen=True)
class HeadCost:
    """Seconds of an EAGLE draft by the number of its levels, from medians over chains of 1 and of 5 tokens.

    base: of a draft of one level: the head over what the last step emitted, and the LM head over `vocabulary` ids.
    level: of each further level. How many nodes a level has is not counted. repeats: drafts of each depth.
    """

    base: float
    level: float
    vocabulary: int
    repeats: int
    device: str

    def seconds(self, depth):
        """Seconds of a draft of `depth` levels, at least 1."""
        return self.base + self.level * (depth - 1)


def measure_head_cost(model, *, vocabulary, context=300, repeats=15, device="", progress=False, **options):
    """Time drafts of both depths in turn, after `context` tokens; return a HeadCost.

    On CpuKernels, if the model is running on them.

    vocabulary: how many of the most frequent ids are drafted. options: of make_drafter, such as `head`. Each draft
    follows a step that emitted one token; hidden states are random numbers, on which the cost does not depend. The
    first pass warms up and is dropped. A slope below zero, which only noise can give, counts as none.
    """
    from tqdm import tqdm

    drafters = {depth: _drafter(model, depth, context, vocabulary=vocabulary, **options) for depth in DEPTHS}
    for drafter in drafters.values():
        serve_drafter(model, drafter)
    times = {depth: [] for depth in DEPTHS}
    for turn in tqdm(range(repeats + 1), desc="cost of an EAGLE draft", unit="pass", disable=not progress):
        for depth in DEPTHS if turn % 2 else DEPTHS[::-1]:
            elapsed = time_draft(model, drafters[depth], depth)
            if turn > 0:
                times[depth].append(elapsed)
    shallow, deep = (statistics.median(times[depth]) for depth in DEPTHS)
    level = max(0.0, (deep - shallow) / (DEPTHS[1] - DEPTHS[0]))
    return HeadCost(shallow, level, vocabulary, repeats, device)


def time_draft(model, drafter, depth):
    """Seconds of one draft of `depth` levels, after a step that emitted one token."""
    _observe(model, drafter, [0])
    synchronise(model)
    start = time.perf_counter()
    drafter.propose(depth)
    synchronise(model)
    return time.perf_counter() - start


def cached_head_cost(profile, model, *, progress=True):
    """The profile's HeadCost on this machine, from `runs/<profile>/head_cost.json`, or measured now and kept there.

    It is measured anew where what T(n) depends on, the head, or the sources of samlib.drafters have changed, and where
    the file is damaged. MissingAssetError: there is no head for the model.
    """
    cost = _kept(profile)
    if cost is None:
        settings = {"context": profile.cost_contexts[0], "repeats": profile.cost_repeats}
        settings |= {"device": device_words(profile), "vocabulary": reduced_vocabulary(model), "progress": progress}
        with cpu_kernels(profile, model):
            cost = measure_head_cost(model, **settings, **head_options(profile, model, "eagle2"))
        content = {"key": _key(profile), "cost": dataclasses.asdict(cost)}
        path = _file(profile)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(content).encode())
    return cost


def _drafter(model, depth, context, **options):
    """A drafter of chains that has seen `context` tokens."""
    from samlib import make_drafter

    drafter = make_drafter("eagle2", model=model, tree_size=depth, depth=depth, top_k=1, **options)
    tokens = np.arange(context, dtype=np.int32) % model.config.get_text_config().vocab_size
    drafter.begin(tokens)
    _observe(model, drafter, tokens)
    return drafter


def _observe(model, drafter, tokens):
    """Tell a drafter that `tokens` were verified, and another one emitted after them."""
    import torch

    from samlib.drafters import Verified

    tokens = np.array(tokens, dtype=np.int32)
    size = model.get_output_embeddings().weight.shape[1]
    hidden = torch.randn(len(tokens), size, dtype=model.dtype, device=model.device)
    drafter.observe(tokens[-1:], Verified(tokens, None, hidden, np.arange(len(tokens))))


def _file(profile):
    return paths.runs_dir(profile.name) / "head_cost.json"


def _key(profile):
    drafters = sources_key(paths.ROOT / "samlib" / "drafters")
    return settings_key([RULE, cost_key(profile), head_identity(profile), drafters])


def _kept(profile):
    """The HeadCost on file, or None where there is none, it is of another key, or the file is damaged."""
    try:
        kept = json.loads(_file(profile).read_text(encoding="utf-8"))
        return HeadCost(**kept["cost"]) if kept["key"] == _key(profile) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
