"""Timing several structures side by side, in turns of some steps each."""

from time import perf_counter_ns

WARM_UP = 10  # first steps of a series, not counted
TURN = 10  # steps that a structure makes before the next has its turn


def time_interleaved(lookups, steps):
    """Nanoseconds of each structure's lookups, `steps` of each after WARM_UP that do not count; they take turns.

    lookups: {name: function of the step's number}. In turns a slow moment of the machine hits them all.

    A turn is several steps long: otherwise the scan, which reads the whole text, would empty the caches before every
    single step of the others, and their costs would grow with the text because of it.
    """
    times = {structure: [] for structure in lookups}
    for first in range(0, steps + WARM_UP, TURN):
        for structure, lookup in lookups.items():
            for step in range(first, min(first + TURN, steps + WARM_UP)):
                start = perf_counter_ns()
                lookup(step)
                times[structure].append(perf_counter_ns() - start)
    return {structure: series[WARM_UP:] for structure, series in times.items()}
