"""How many threads the model runs on: the profile's number, or all cores, unless fewer are clearly faster just now.

More threads are not always faster. Torch's threads wait for each other at every layer, so that on a machine whose
cores are also used by others, all of them run at the pace of the one that is being held up. On a quiet machine the
choice must not vary from process to process, since measurements are keyed by it; hence the margin.
"""

import statistics

from samlib.decoding.forward import prefilled, time_forward

REPEATS = 5
CONTEXT = 64
WIDTHS = (1, 8)  # a plain step and a small draft
HOPELESS = 4.0  # times the best at first sight: not tried again
MARGIN = 1.25  # fewer threads are taken where they are faster by this factor


def settle_threads(model, profile):
    """Set torch's thread count and return it: `profile.threads`, or where that is 0 what `preferred` finds.

    Allowed are 1, 2, 4, … up to torch's present number (all cores, or OMP_NUM_THREADS where that is set). Takes about a
    second. Does nothing on a GPU.
    """
    import torch

    allowed = torch.get_num_threads()
    if profile.threads or model.device.type != "cpu" or allowed == 1:
        return profile.threads or allowed
    best = preferred(candidates(allowed), lambda count: _seconds(model, count))
    torch.set_num_threads(best)
    return best


def candidates(most):
    """1, 2, 4, … below `most`, and `most`."""
    return [2**i for i in range(most.bit_length()) if 2**i < most] + [most]


def preferred(counts, seconds):
    """The largest count whose `seconds(count)` is within MARGIN of the best, by medians over interleaved repeats.

    counts: ascending. Hopeless ones are dropped early.
    """
    seconds(counts[0])  # the first forward of all loads what later ones find loaded
    times = {count: [seconds(count)] for count in counts}
    least = min(times.values())[0]
    times = {count: first for count, first in times.items() if first[0] <= HOPELESS * least}
    for _ in range(REPEATS - 1):
        for count in times:
            times[count].append(seconds(count))
    medians = {count: statistics.median(of_count) for count, of_count in times.items()}
    return max(count for count, median in medians.items() if median <= MARGIN * min(medians.values()))


def _seconds(model, count):
    """The time of a forward of each width in WIDTHS on `count` threads, after one that wakes the threads up."""
    import torch

    torch.set_num_threads(count)
    target = prefilled(model, CONTEXT)
    return sum(time_forward(model, target, width) for width in WIDTHS)
