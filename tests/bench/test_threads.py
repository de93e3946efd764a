"""The choice of a thread count, on made-up times and on the tiny model."""

import dataclasses

import pytest
import torch

from samlib.bench import load_model
from samlib.bench.profiles import load_profile
from samlib.bench.threads import REPEATS, candidates, preferred, settle_threads


@pytest.fixture(autouse=True)
def same_threads_afterwards():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("most", "counts"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])])
def test_candidates(most, counts):
    assert candidates(most) == counts


def test_a_clearly_lesser_median_wins_and_a_single_slow_moment_does_not_count():
    times = {1: iter([9.0] + [3.0] * REPEATS), 2: iter([2.0, 9.0, 2.0, 9.0, 2.0]), 4: iter([2.5, 1.0, 3.1, 3.1, 3.1])}
    assert preferred([1, 2, 4], lambda count: next(times[count])) == 2


@pytest.mark.parametrize(("two_threads", "choice"), [(0.6, 2), (1.0, 2), (1.2, 2), (1.3, 1)])
def test_all_cores_unless_fewer_are_clearly_faster(two_threads, choice):
    assert preferred([1, 2], lambda count: {1: 1.0, 2: two_threads}[count]) == choice


def test_a_hopeless_count_is_tried_once():
    tried = []

    def seconds(count):
        tried.append(count)
        return {1: 1.0, 2: 30.0}[count]

    assert preferred([1, 2], seconds) == 1
    assert tried.count(2) == 1


def test_a_number_in_the_profile_is_kept():
    profile = dataclasses.replace(load_profile("smoke"), threads=2)
    model, _ = load_model(profile)
    assert settle_threads(model, profile) == torch.get_num_threads() == 2


def test_the_chosen_number_is_in_force():
    model, _ = load_model("smoke")
    torch.set_num_threads(2)
    assert settle_threads(model, load_profile("smoke")) == torch.get_num_threads() in (1, 2)
