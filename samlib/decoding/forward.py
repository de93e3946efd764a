"""One timed verification forward: what cost curves and the choice of threads measure."""

import time

import numpy as np
import torch

from samlib.automaton import Draft
from samlib.decoding.target import target_for


def synchronise(model):
    """Wait until the model's device has done all that it was given."""
    if model.device.type == "cuda":
        torch.cuda.synchronize(model.device)


def prefilled(model, context):
    """A TargetModel that holds `context` tokens (any tokens: a forward's cost does not depend on them)."""
    target = target_for(model)
    with torch.inference_mode():
        target.prefill(np.arange(context, dtype=np.int32) % model.config.vocab_size)
    return target


def time_forward(model, target, width):
    """Seconds of one verification forward over `width` tokens (root included), rolled back afterwards."""
    draft = binary_tree(width - 1)
    with torch.inference_mode():
        synchronise(model)
        start = time.perf_counter()
        target.verify(0, draft)
        synchronise(model)
        elapsed = time.perf_counter() - start
        target.keep([])
    return elapsed


def binary_tree(size):
    """A draft of `size` tokens in which every node has up to two children."""
    tokens = np.arange(size, dtype=np.int32)
    return Draft(tokens, (tokens - 2) // 2, "cost")
