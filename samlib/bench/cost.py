"""T(n): what a verification forward over n tokens costs, the number that decides which draft sizes pay on a device.

    python -m samlib.bench.cost --profile cpu

prints the curve; its last line is one line of JSON: {"T": {"1": seconds, …}, "T_plain": {…}, …}.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import statistics

from samlib import paths
from samlib.bench.forward import prefilled, time_forward
from samlib.bench.kernels import cpu_kernels
from samlib.bench.machine import device_words, machine
from samlib.bench.model import load_model, model_identity
from samlib.bench.profiles import load_profile
from samlib.bench.records import settings_key
from samlib.bench.threads import settle_threads


@dataclasses.dataclass(frozen=True)
class CostCurve:
    """Median seconds of a forward by its width in tokens (root included), with a tree mask, after `context` tokens.

    `T`: the target model as the profile runs it, `T_plain`: through plain layers, interleaved with it; where the
    profile runs plain layers, the two are one measurement.
    """

    T: dict
    T_plain: dict
    context: int
    repeats: int
    device: str

    def seconds(self, width):
        """T(width), linear between the measured widths and beyond the last two."""
        return _interpolate(sorted(self.T.items()), width)

    def ratio(self, width):
        """T(width) / T(1)."""
        return self.seconds(width) / self.seconds(1)

    def to_json(self):
        """One line of JSON, widths as strings."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text):
        """The inverse of `to_json`."""
        fields = json.loads(text)
        curves = {name: {int(n): t for n, t in fields[name].items()} for name in ("T", "T_plain")}
        return cls(**(fields | curves))


def measure_cost(
    model, *, widths=(1, 2, 4, 8, 16, 40, 60), context=300, repeats=15, kernels=None, device="", progress=False
):
    """Measure T(n) for each width, in `repeats` passes over all widths, and return the medians as a CostCurve.

    The passes interleave the widths, each starting at another one, so that a slow moment of the machine touches all.
    The first pass warms up and is dropped. Every forward has `context` tokens in the KV cache and is rolled back; the
    draft is a binary tree, so that the mask is never a plain causal one above width 2. kernels: the model's
    CpuKernels; each forward is then timed with and without them.
    """
    from tqdm import tqdm

    target = prefilled(model, context)
    ways = {"T": kernels or contextlib.nullcontext()} | ({"T_plain": contextlib.nullcontext()} if kernels else {})
    seconds = {(way, width): [] for way in ways for width in widths}
    for turn in tqdm(range(repeats + 1), desc="cost of a forward T(n)", unit="pass", disable=not progress):
        shift = turn % len(widths)
        for width in (*widths[shift:], *widths[:shift]):
            for way, how in ways.items():
                with how:
                    elapsed = time_forward(model, target, width)
                if turn > 0:
                    seconds[way, width].append(elapsed)
    curves = {way: {width: statistics.median(seconds[way, width]) for width in widths} for way in ways}
    return CostCurve(**({"T_plain": curves["T"]} | curves), context=context, repeats=repeats, device=device)


def cached_cost(profile, model, *, progress=True):
    """The profile's CostCurve on this machine, from `runs/<profile>/cost.json`, or measured now and kept there."""
    path = paths.runs_dir(profile.name) / "cost.json"
    facts = machine()
    model_settings = [model_identity(profile), profile.dtype, profile.attention, profile.cpu_kernels]
    key = settings_key([*model_settings, facts, *_settings(profile).values()])
    if path.exists():
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["key"] == key:
            return CostCurve.from_json(kept["curve"])
    kernels = cpu_kernels(profile, model) if profile.cpu_kernels else None
    curve = measure_cost(model, kernels=kernels, device=device_words(profile), progress=progress, **_settings(profile))
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".tmp")
    partial.write_text(json.dumps({"key": key, "curve": curve.to_json()}), encoding="utf-8")
    os.replace(partial, path)
    return curve


def main(arguments=None):
    """The command line: measure afresh, print a small table, then the JSON line."""
    parser = argparse.ArgumentParser(prog="python -m samlib.bench.cost", description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="cpu")
    parser.add_argument("--context", type=int, help="tokens in the KV cache (default: the profile's)")
    parser.add_argument("--repeats", type=int, help="forwards of each width (default: the profile's)")
    args = parser.parse_args(arguments)
    given = {name: value for name, value in (("context", args.context), ("repeats", args.repeats)) if value is not None}
    profile = load_profile(args.profile)
    model, _ = load_model(profile)
    settle_threads(model, profile)
    kernels = cpu_kernels(profile, model) if profile.cpu_kernels else None
    settings = _settings(profile) | given
    curve = measure_cost(model, kernels=kernels, device=device_words(profile), progress=True, **settings)
    for width, seconds in curve.T.items():
        plain, base = curve.T_plain[width], curve.T_plain[1]
        print(
            f"T({width:2d}) {1e3 * seconds:7.1f} ms {curve.ratio(width):5.2f} T(1)"
            f"   plain {1e3 * plain:7.1f} ms {plain / base:5.2f} T(1)"
        )
    print(curve.to_json())


def _settings(profile):
    return {"widths": profile.cost_widths, "context": profile.cost_context, "repeats": profile.cost_repeats}


def _interpolate(points, x):
    """Piecewise linear through sorted (x, y) points, the end segments prolonged; constant through a single point."""
    if len(points) == 1:
        return points[0][1]
    right = next((i for i in range(1, len(points) - 1) if x <= points[i][0]), len(points) - 1)
    (x0, y0), (x1, y1) = points[right - 1], points[right]
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


if __name__ == "__main__":
    main()
