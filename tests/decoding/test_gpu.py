"""What can be seen on a CUDA device only: how often a step waits for it."""

import warnings

import numpy as np
import pytest
import torch

import samlib
from samlib import Draft, StaticAutomaton
from samlib.decoding import TargetModel

from .models import CYCLE_PROMPT, METHODS, cycle, cycle_model, draft_of, means_of

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.fixture(scope="module")
def model():
    import copy

    return copy.deepcopy(cycle_model()).to("cuda")


def waits(call):
    """How many times `call` waits for the device, as torch counts."""
    torch.cuda.synchronize()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            call()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return sum("synchroniz" in str(warning.message) for warning in caught)


@pytest.mark.parametrize("draft", [Draft.empty(), Draft.chain([5, 6, 7], ""), draft_of([5, 9, 6, 7], [-1, -1, 0, 2])])
@pytest.mark.parametrize("top_k", [0, 8])
def test_a_step_waits_once(model, draft, top_k):
    target = TargetModel(model)
    target.prefill(np.array(CYCLE_PROMPT, dtype=np.int32))
    for _ in range(2):  # the first step loads kernels
        assert waits(lambda: target.verify(4, draft, top_k)) == 1
        assert waits(lambda: target.keep([0, 1, 3][: len(draft)] or [0])) == 0


@pytest.mark.parametrize("method", METHODS)
def test_the_cycle_comes_out_and_its_time_is_told(model, method):
    options = {"static": StaticAutomaton.build([cycle(0, 30)]), "max_new_tokens": 40, **means_of(method)}
    result = samlib.generate(model, CYCLE_PROMPT, method=method, **options)
    assert result.tokens == cycle(4, 40)
    parts = sum(result.timings[phase] for phase in ("prefill", "draft", "verify", "update"))
    assert 0 < result.timings["verify"] < parts == pytest.approx(result.timings["total"])
