"""The machine's limits: the walk really visits all of the memory, and the numbers are read the right way round."""

import numpy as np
import pytest

from samlib.bench.latency import chase
from samlib.bench.limits import LINE, Limits, measure_limits, random_cycle


@pytest.mark.parametrize("nbytes", [128, 4096, 1 << 16])
def test_a_walk_visits_every_cache_line_once(nbytes):
    following = random_cycle(nbytes, np.random.default_rng(1))
    lines = nbytes // LINE
    visited = [chase(following, hops) for hops in range(lines)]
    assert following.nbytes == nbytes
    assert sorted(visited) == list(range(0, nbytes // 8, LINE // 8))
    assert chase(following, lines) == visited[0] == 0


def test_neighbouring_lines_do_not_follow_each_other():
    following = random_cycle(1 << 16, np.random.default_rng(1))
    places = np.asarray([chase(following, hops) for hops in range(1000)])
    assert np.mean(np.abs(np.diff(places)) <= 2 * LINE // 8) < 0.05


def test_latency_is_read_between_the_measured_sizes():
    found = {"latency_ns": {"1024": [5.0, 1.0], "1048576": [11.0]}, "copy_gb_s": [4.0, 8.0], "call_us": [0.5, 0.4]}
    limits = Limits(found)
    assert limits.latency_us(1024) == limits.latency_us(1) == pytest.approx(0.001)
    assert limits.latency_us(32 * 1024) == pytest.approx(0.006)
    assert limits.latency_us(1 << 40) == pytest.approx(0.011)
    assert (limits.copy_gb_s, limits.call_us) == (8.0, 0.4)


def test_everything_is_measured_at_every_repeat():
    (found,) = measure_limits(largest=1 << 17, repeats=2)
    assert list(found["latency_ns"]) == [1 << 15, 1 << 17]
    series = [*found["latency_ns"].values(), found["copy_gb_s"], found["call_us"]]
    assert all(len(values) == 2 and min(values) > 0 for values in series)
