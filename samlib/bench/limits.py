"""What the machine allows: the latency of a cache miss, the bandwidth of memory, the cost of a call from Python.

Beside each measured figure stands the limit that these set for it, under an assumption that is named here. A *jump* is
a token at which the match does not just grow, so that the walk goes on elsewhere; it costs one access that waits for
the one before and that no cache holds. Between jumps neighbours follow each other, at no cost here.

- following the text (`advance`, `extend`): the share of jumps, times the latency in a structure of that size.
- draft: the same with DRAFT_MISSES accesses a jump (state, transition, suffix link or end position, document, text),
  and one call that returns a new array of 40 tokens, as numpy makes it.
- building: the share of jumps in held-out text, times the latency in the finished index, which is written once at the
  bandwidth of copying.
- checking an index: its bytes read once, at twice the rate of copying, which reads and writes.
- memory: the text alone, 2 bytes a token where the vocabulary is below 65,536, else 4.

These are floors for structures of this kind, not for any that could be thought of; where a walk stays in the caches,
the latency of the whole structure is too pessimistic, and a figure may lie below its limit. The limits of a model's
forward are in roofline.py.
"""

from time import perf_counter_ns

import numpy as np

from samlib.bench.latency import chase

LINE = 64  # bytes of a cache line
SMALLEST = 1 << 15  # bytes
HOPS = 200_000
COPIED = 1 << 27  # bytes
DRAFT = 40
DRAFT_MISSES = 5
SMALL_VOCABULARY = 1 << 16


def measure_limits(largest, repeats):
    """Yield one result: latency_ns by size in bytes (up to `largest`), copy_gb_s, call_us; lists over repeats.

    The repeats go over all sizes in turn, so that a slow moment of the machine hits them all.
    """
    sizes = [SMALLEST]
    while sizes[-1] < largest:
        sizes.append(4 * sizes[-1])
    cycles = {size: random_cycle(size, np.random.default_rng(size)) for size in sizes}
    source, target = np.ones(COPIED, dtype=np.uint8), np.zeros(COPIED, dtype=np.uint8)
    found = {"latency_ns": {size: [] for size in sizes}, "copy_gb_s": [], "call_us": []}
    for _ in range(repeats):
        for size, cycle in cycles.items():
            found["latency_ns"][size].append(hop_ns(cycle))
        found["copy_gb_s"].append(copy_gb_s(source, target))
        found["call_us"].append(call_us())
    yield found


def random_cycle(nbytes, rng):
    """An int64 array of that many bytes: one place a cache line, each naming the next, in one random round."""
    step = LINE // 8
    order = rng.permutation(max(nbytes // LINE, 2)) * step
    following = np.zeros(len(order) * step, dtype=np.int64)
    following[order] = np.roll(order, -1)
    return following


def hop_ns(following):
    """Nanoseconds a hop of a random cycle, after some hops that warm it up."""
    chase(following, HOPS)
    start = perf_counter_ns()
    chase(following, HOPS)
    return (perf_counter_ns() - start) / HOPS


def copy_gb_s(source, target):
    """Gigabytes copied a second (each is read once and written once)."""
    start = perf_counter_ns()
    np.copyto(target, source)
    return source.nbytes / (perf_counter_ns() - start)


def call_us(calls=2000):
    """Microseconds in which numpy copies 40 tokens out of an array: a call from Python and a new array."""
    text = np.zeros(calls + DRAFT, dtype=np.int32)
    start = perf_counter_ns()
    for place in range(calls):
        text[place : place + DRAFT].copy()
    return (perf_counter_ns() - start) / calls / 1000


class Limits:
    """The limits as numbers, from what `measure_limits` found: of the repeats the best, since these are floors."""

    def __init__(self, found):
        latency = {int(size): min(times) for size, times in found["latency_ns"].items()}
        self.sizes, self._latency = zip(*sorted(latency.items()), strict=True)
        self.copy_gb_s = max(found["copy_gb_s"])
        self.call_us = min(found["call_us"])

    def latency_us(self, nbytes):
        """A dependent access at random in that many bytes; between the measured sizes linear in their logarithm."""
        return float(np.interp(np.log(max(nbytes, 1)), np.log(self.sizes), self._latency)) / 1000

    def follow_us(self, nbytes, jumps):
        """A token followed, in a structure of that size, where that share of the tokens are jumps."""
        return jumps * self.latency_us(nbytes)

    def draft_us(self, nbytes, jumps):
        """A token followed and 40 drafted."""
        return DRAFT_MISSES * self.follow_us(nbytes, jumps) + self.call_us

    def build_mtok_s(self, nbytes, jumps, tokens):
        """Building an index of that size, in million tokens a second."""
        return 1 / (self.follow_us(nbytes, jumps) + nbytes / tokens / (1000 * self.copy_gb_s))

    def read_ms(self, nbytes):
        """Reading an index once."""
        return nbytes / (2e6 * self.copy_gb_s)


def text_bytes(vocabulary):
    """Bytes a token of the text alone."""
    return 2 if vocabulary < SMALL_VOCABULARY else 4
