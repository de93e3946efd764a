"""T(n): what a verification forward over n tokens costs, the number that decides which draft sizes pay on a device.

    python -m samlib.bench.cost --profile cpu

prints T(n) at each context length beside the machine's limits; its last line is one line of JSON for the profile's main
context, further ones under their own key: {"T": {"1": seconds, …}, "T_plain": {…}, …, "further": {"900": {…}}, …}.

For a drafter that weighs draft sizes, a CostCurve is enough: `seconds(width, context)` and `ratio(width, context)`.
"""

import argparse
import contextlib
import dataclasses
import json
import time
from importlib import metadata

import numpy as np

from samlib import paths
from samlib.bench.cost_table import cost_rows, cost_text
from samlib.bench.kernels import cpu_kernels
from samlib.bench.machine import device_words, machine
from samlib.bench.manifest import manifest_name, write_manifest
from samlib.bench.model import load_model, model_identity
from samlib.bench.profiles import load_profile
from samlib.bench.records import settings_key, sources_key, write_whole
from samlib.bench.roofline import ForwardLimits, MachineProbe
from samlib.bench.threads import settle_threads
from samlib.decoding.forward import prefilled, time_forward

RULE = 2  # part of every key: raise it where a measurement means something else than before
WAYS = ("T", "T_plain")


@dataclasses.dataclass(frozen=True)
class CostCurve:
    """Median seconds of a forward by its width in tokens (root included) and by the tokens in the KV cache before it.

    T, T_plain  {width: seconds} at `context`, the main one: the target model as the profile runs it, and through plain
                layers, interleaved with it; where the profile runs plain layers, the two are one measurement
    further     {context: {"T": {width: seconds}, "T_plain": {…}}}: the same at other contexts
    quartiles   {context: {"T": {width: [lower, upper]}, "T_plain": {…}}} of all contexts; may be empty
    repeats     forwards of each width, context and way
    kernels     whether T runs on CpuKernels
    limits      the machine's ForwardLimits for this model, or None

    Immutable by convention; safe to read from several threads.
    """

    T: dict
    T_plain: dict
    context: int
    repeats: int
    device: str
    kernels: bool = False
    further: dict = dataclasses.field(default_factory=dict)
    quartiles: dict = dataclasses.field(default_factory=dict)
    limits: ForwardLimits | None = None

    def seconds(self, width, context=None):
        """T(width) after `context` tokens (default: the main context).

        Linear in the width between the measured ones, then linear in the context between the measured ones. On both
        axes: below the smallest, as at the smallest; beyond the largest, with the slope of the last two points, but
        never falling, so that noise cannot make more work cheaper without end. A single point is constant.
        """
        if context is None or not self.further:
            return _interpolate(self.T, width)
        return _interpolate({at: _interpolate(curve, width) for at, curve in self.curves().items()}, context)

    def ratio(self, width, context=None):
        """T(width) / T(1), both after `context` tokens."""
        return self.seconds(width, context) / self.seconds(1, context)

    def curves(self, way="T"):
        """{context: {width: seconds}} of all measured contexts, the main one first; way: "T" or "T_plain"."""
        return {self.context: getattr(self, way)} | {context: ways[way] for context, ways in self.further.items()}

    def to_json(self):
        """One line of JSON, widths and contexts as strings."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text):
        """The inverse of `to_json`; ValueError where the text is not of that kind."""
        try:
            fields = json.loads(text)
            curves = {way: _by_width(fields[way], float) for way in WAYS}
            further = {int(at): _by_way(ways, float) for at, ways in fields["further"].items()}
            quartiles = {int(at): _by_way(ways, list) for at, ways in fields["quartiles"].items()}
            limits = fields["limits"] and ForwardLimits(**fields["limits"])
            return cls(**(fields | curves | {"further": further, "quartiles": quartiles, "limits": limits}))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a cost curve: {error!r}") from error


def measure_cost(
    model,
    *,
    widths=(1, 2, 4, 8, 16, 40, 60),
    context=300,
    further=(),
    repeats=15,
    kernels=None,
    device="",
    progress=False,
):
    """Measure T(n) for each width after `context` and each of the `further` contexts; return a CostCurve.

    `repeats` passes over all widths and contexts, each starting at another one, so that a slow moment of the machine
    touches all. The first pass warms up and is dropped. A context is prefilled once, and every forward after it is
    rolled back; the draft is a binary tree, so that the mask is never a plain causal one above width 2. kernels: the
    model's CpuKernels; each forward is then timed with and without them, back to back. The machine's limits are read in
    the same passes.
    """
    from tqdm import tqdm

    targets = {at: prefilled(model, at) for at in (context, *further)}
    plain = contextlib.nullcontext()
    ways = {"T": plain} if kernels is None else {"T": kernels, "T_plain": plain}
    times = {at: {way: {width: [] for width in widths} for way in ways} for at in targets}
    probe = MachineProbe(model)
    for turn in tqdm(range(repeats + 1), desc="cost of a forward T(n)", unit="pass", disable=not progress):
        for width, at, way in order_of_pass(turn, widths, tuple(targets), tuple(ways)):
            with ways[way]:
                elapsed = time_forward(model, targets[at], width)
            if turn > 0:
                times[at][way][width].append(elapsed)
        probe.measure()
    facts = {"repeats": repeats, "device": device, "kernels": kernels is not None, "limits": probe.limits()}
    return _curve_of(times, context, facts)


def order_of_pass(turn, widths, contexts, ways):
    """(width, context, way) of every forward of a pass, in order.

    Contexts alternate within a width, ways within a context; each pass starts one forward further on, and every second
    one takes the ways in the other order.
    """
    cells = [(width, context) for width in widths for context in contexts]
    shift = turn % len(cells)
    ways = ways if turn % 2 == 0 else ways[::-1]
    return [(width, context, way) for width, context in cells[shift:] + cells[:shift] for way in ways]


def cached_cost(profile, model, *, progress=True):
    """The profile's CostCurve on this machine, from `runs/<profile>/cost.json`, or measured now and kept there.

    It is measured anew where profile, model, machine, threads, torch or the sources of samlib.decoding have changed,
    and where the file is damaged or not one of these. A run that measures leaves a manifest beside the file.
    """
    curve = _kept(profile)
    if curve is None:
        start = time.perf_counter()
        curve = _measure(profile, model, _settings(profile), progress)
        keep_cost(profile, curve, wall_seconds=round(time.perf_counter() - start, 1))
    return curve


def keep_cost(profile, curve, *, wall_seconds=None):
    """Keep a CostCurve as the profile's, in `runs/<profile>/cost.json`, replaced in one piece, and write a manifest."""
    key, manifest = cost_key(profile), manifest_name()
    facts = {"cost_key": key, "device": curve.device}
    write_manifest(paths.runs_dir(profile.name) / manifest, profile, wall_seconds=wall_seconds, **facts)
    content = {"key": key, "manifest": manifest, "curve": curve.to_json()}
    write_whole(cost_file(profile), json.dumps(content).encode())


def load_cost(profile, *, progress=True):
    """The profile's CostCurve and its frame (see `cost_rows`), read from `runs/<profile>/records/cost.csv`.

    Loads the model, settles the number of threads, and measures unless the curve is on file (a minute or two).
    """
    import pandas as pd

    profile = load_profile(profile)
    model, _ = load_model(profile)
    settle_threads(model, profile)
    curve = cached_cost(profile, model, progress=progress)
    path = paths.runs_dir(profile.name) / "records" / "cost.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, cost_rows(curve).to_csv(index=False).encode())
    return curve, pd.read_csv(path)


def cost_file(profile):
    """Where the profile's curve is kept."""
    return paths.runs_dir(profile.name) / "cost.json"


def cost_key(profile):
    """A hash of all that a profile's curve depends on, torch's present number of threads included."""
    model = [model_identity(profile), profile.dtype, profile.attention, profile.cpu_kernels]
    versions = [metadata.version(package) for package in ("torch", "transformers")]
    decoding = sources_key(paths.ROOT / "samlib" / "decoding")
    return settings_key([RULE, *model, machine(), versions, decoding, *_settings(profile).values()])


def main(arguments=None):
    """The command line: measure afresh, print the table, then the JSON line."""
    args = _parse(arguments)
    profile = load_profile(args.profile)
    model, _ = load_model(profile)
    settle_threads(model, profile)
    settings = _settings(profile)
    given = {} if args.context is None else {"context": args.context[0], "further": tuple(args.context[1:])}
    given |= {} if args.repeats is None else {"repeats": args.repeats}
    curve = _measure(profile, model, settings | given, progress=True)
    if not given:
        keep_cost(profile, curve)
    print(cost_text(cost_rows(curve)))
    print(curve.to_json())


def _parse(arguments):
    parser = argparse.ArgumentParser(
        prog="python -m samlib.bench.cost",
        description=__doc__.splitlines()[0],
        epilog="Measured with the profile's own settings, the curve is kept in runs/PROFILE/cost.json.",
    )
    parser.add_argument("--profile", default="cpu")
    contexts = "tokens in the KV cache, the main context first (default: the profile's)"
    parser.add_argument("--context", type=_positive, nargs="+", metavar="N", help=contexts)
    parser.add_argument("--repeats", type=_positive, metavar="N", help="forwards of each (default: the profile's)")
    return parser.parse_args(arguments)


def _positive(text):
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


def _settings(profile):
    main_context, *further = profile.cost_contexts
    sizes = {"widths": profile.cost_widths, "context": main_context, "further": tuple(further)}
    return sizes | {"repeats": profile.cost_repeats}


def _measure(profile, model, settings, progress):
    kernels = cpu_kernels(profile, model) if profile.cpu_kernels else None
    return measure_cost(model, kernels=kernels, device=device_words(profile), progress=progress, **settings)


def _kept(profile):
    """The CostCurve on file, or None where there is none, it is of another key, or the file is damaged."""
    try:
        kept = json.loads(cost_file(profile).read_text(encoding="utf-8"))
        return CostCurve.from_json(kept["curve"]) if kept["key"] == cost_key(profile) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _curve_of(times, context, facts):
    """The CostCurve of {context: {way: {width: [seconds, …]}}}."""
    medians = {at: {way: _quantiles(of_way, 0.5) for way, of_way in ways.items()} for at, ways in times.items()}
    medians = {at: {"T": ways["T"], "T_plain": ways.get("T_plain", ways["T"])} for at, ways in medians.items()}
    quartiles = {at: {way: _quantiles(of_way, (0.25, 0.75)) for way, of_way in w.items()} for at, w in times.items()}
    further = {at: ways for at, ways in medians.items() if at != context}
    return CostCurve(**medians[context], context=context, further=further, quartiles=quartiles, **facts)


def _quantiles(by_width, q):
    return {width: np.quantile(seconds, q).tolist() for width, seconds in by_width.items()}


def _by_width(curve, kind):
    """{"1": value, …} with numbers for keys and values of that kind; ValueError where there are none."""
    if not curve:
        raise ValueError("not a cost curve: no width in it")
    return {int(width): kind(value) for width, value in curve.items()}


def _by_way(curves, kind):
    return {way: _by_width(curve, kind) for way, curve in curves.items()}


def _interpolate(points, x):
    """Linear through {x: y}; below the first as at the first, beyond the last on the last slope where that rises."""
    xs, ys = zip(*sorted(points.items()), strict=True)
    if x <= xs[-1] or len(xs) == 1:
        return float(np.interp(x, xs, ys))
    slope = (ys[-1] - ys[-2]) / (xs[-1] - xs[-2])
    return ys[-1] + max(0.0, slope) * (x - xs[-1])


if __name__ == "__main__":
    main()
