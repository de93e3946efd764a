"""Seconds by phase: laps on the CPU, and events that are read once at the end on a GPU."""

import pytest
import torch

from samlib.decoding import clock as clocks
from samlib.decoding.clock import Clock, EventClock, clock_for
from samlib.decoding.result import PHASES


class FakeGpu:
    """A device whose work takes the milliseconds that it is told; its events know when they would have passed."""

    def __init__(self):
        self.now, self.waits = 0.0, 0

    def work(self, milliseconds):
        self.now += milliseconds

    def record(self):
        return FakeEvent(self)


class FakeEvent:
    def __init__(self, gpu):
        self.gpu, self.time = gpu, gpu.now
        self.waited = False

    def synchronize(self):
        self.gpu.waits += 1
        self.waited = True

    def elapsed_time(self, end):
        """Milliseconds, as torch's; torch raises where nobody has waited for the end of the work."""
        assert self.gpu.waits, "read before anything was waited for"
        return end.time - self.time


def no_time():
    return dict.fromkeys(PHASES, 0.0)


def test_events_are_read_once_and_at_the_end():
    gpu, timings = FakeGpu(), no_time()
    with EventClock(timings, gpu.record) as clock:
        for phase, milliseconds in [("prefill", 50), ("draft", 1), ("verify", 20), ("update", 2), ("verify", 30)]:
            gpu.work(milliseconds)
            clock.lap(phase)
        gpu.work(1000)  # the caller's
        clock.resume()
        gpu.work(3)
        clock.lap("draft")
        assert timings == no_time() and gpu.waits == 0
    assert gpu.waits == 1
    expected = {"prefill": 0.05, "draft": 0.004, "verify": 0.05, "update": 0.002, "total": 0.106}
    assert timings == pytest.approx(expected)


def test_events_are_read_where_a_request_breaks_off():
    gpu, timings = FakeGpu(), no_time()
    with pytest.raises(KeyError), EventClock(timings, gpu.record) as clock:
        gpu.work(7)
        clock.lap("draft")
        raise KeyError
    assert timings["draft"] == timings["total"] == pytest.approx(0.007)


def test_a_clock_that_was_never_lapped_waits_for_nothing():
    gpu = FakeGpu()
    with EventClock(no_time(), gpu.record):
        pass
    assert gpu.waits == 0


def test_laps_on_the_cpu(monkeypatch):
    now = iter([10.0, 10.5, 10.75, 20.0, 20.25])
    monkeypatch.setattr(clocks.time, "perf_counter", lambda: next(now))
    timings = no_time()
    with clock_for(torch.device("cpu"), timings) as clock:
        assert isinstance(clock, Clock)
        clock.lap("draft")
        clock.lap("verify")
        clock.resume()
        clock.lap("draft")
    assert timings == no_time() | {"draft": 0.75, "verify": 0.25, "total": 1.0}
