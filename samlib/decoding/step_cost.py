"""How long a verification forward over n tokens takes with a model here and now: what sam_auto weighs drafts by.

A few forwards, measured once a model. The benchmarks take the finer curve of samlib.bench.cost in its place.
"""

import statistics
import weakref

import numpy as np
import torch

from samlib.decoding.cpu_kernels import has_open_kernels
from samlib.decoding.forward import prefilled, time_forward
from samlib.decoding.target import is_served, target_for

WIDTHS = (1, 2, 4, 8, 16, 32, 64)  # tokens in a forward, the root included
CONTEXT = 256  # tokens in the KV cache
PASSES = 3  # over all widths, after one that warms up

_known = weakref.WeakKeyDictionary()  # model -> {how it runs: StepCost}


class StepCost:
    """Seconds of a forward over n tokens, the root included.

    seconds: {n: seconds}. Between these linear, beyond them constant, and never falling. Immutable; thread-safe.
    """

    def __init__(self, seconds):
        self._widths = np.array(sorted(seconds))
        self._seconds = np.maximum.accumulate([seconds[width] for width in sorted(seconds)])

    def seconds(self, width, context=None):
        """T(width), the same after any number of tokens in the KV cache."""
        return float(np.interp(width, self._widths, self._seconds))


def step_cost(model):
    """The model's StepCost as it runs at present (kernels, threads, captured forwards); measured at the first call.

    That takes as long as about fifty single forwards. Medians of a few, in turns, so that a busy moment of the machine
    touches all widths. Not thread-safe: no request to the model may be under way.
    """
    way = torch.get_num_threads(), has_open_kernels(model), is_served(model)
    costs = _known.setdefault(model, {})
    if way not in costs:
        costs[way] = _measure(model)
    return costs[way]


def _measure(model):
    longest = target_for(model).max_length or CONTEXT + WIDTHS[-1]
    widths = [width for width in WIDTHS if width < longest]
    target = prefilled(model, min(CONTEXT, longest - widths[-1]))
    passes = [{width: time_forward(model, target, width) for width in widths} for _ in range(1 + PASSES)]
    return StepCost({width: statistics.median(seconds[width] for seconds in passes[1:]) for width in widths})
