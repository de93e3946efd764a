"""Seconds by phase of a request, measured without making a GPU wait."""

import time

import torch


def clock_for(device, timings):
    """The clock of a request that runs on `device`; `timings` is the dict of seconds that it adds to."""
    if device.type == "cuda":
        stream = torch.cuda.current_stream(device)
        return EventClock(timings, lambda: stream.record_event(torch.cuda.Event(enable_timing=True)))
    return Clock(timings)


class Clock:
    """A context whose laps each add the time since the last one to a phase, and to the total, as they pass."""

    def __init__(self, timings):
        self._timings = timings

    def __enter__(self):
        self.resume()
        return self

    def __exit__(self, *exception):
        pass

    def resume(self):
        """Begin a lap now: the time since the last one is nobody's."""
        self._last = time.perf_counter()

    def lap(self, phase):
        """What was done since the last lap belongs to `phase`."""
        now = time.perf_counter()
        self._timings[phase] += now - self._last
        self._timings["total"] += now - self._last
        self._last = now


class EventClock:
    """As Clock, by events in the GPU's own queue: they are read, and the seconds added, when the context is left.

    record: a function that queues an event behind the work given so far and returns it.
    """

    def __init__(self, timings, record):
        self._timings, self._record = timings, record
        self._laps = []

    def __enter__(self):
        self.resume()
        return self

    def __exit__(self, *exception):
        if self._laps:
            self._laps[-1][2].synchronize()
        for phase, start, end in self._laps:
            seconds = start.elapsed_time(end) / 1e3
            self._timings[phase] += seconds
            self._timings["total"] += seconds

    def resume(self):
        """As Clock.resume."""
        self._last = self._record()

    def lap(self, phase):
        """As Clock.lap."""
        event = self._record()
        self._laps.append((phase, self._last, event))
        self._last = event
