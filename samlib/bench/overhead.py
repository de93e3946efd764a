"""What the decode loop costs beside the model's forwards, and how it compares with transformers' own loop.

    python -m samlib.bench.overhead --profile cpu

prints a table; its last line is one line of JSON: {"overhead": [{"method": …, "forward": seconds, …}, …], "left_out":
[…], "loop": {…}, "kernels": {…}}.
"""

import argparse
import contextlib
import json
import statistics
import time

from samlib.bench.answers import forward_clock
from samlib.bench.data import load_questions
from samlib.bench.heads import head_options
from samlib.bench.kernels import cpu_kernels
from samlib.bench.machine import device_words
from samlib.bench.model import load_model
from samlib.bench.profiles import load_profile
from samlib.bench.prompts import prompt_ids
from samlib.bench.static import load_static
from samlib.bench.threads import settle_threads
from samlib.decoding.forward import synchronise
from samlib.errors import MissingAssetError

PARTS = ("draft", "verify", "update")


def measure_overhead(model, prompt, method, static=None, max_new_tokens=64, **options):
    """Seconds that one request spends in the model's forwards and in everything else, the prefill's forward left out.

    prompt: a sequence of ids. The request is made at the method's default settings but for `options` of make_drafter,
    without EOS, after one that warms up and fills what the drafter keeps. Returns a dict: method, tokens, steps,
    forward, other (the sum of the next three), draft (proposing, an EAGLE head's own forwards included), verify
    (inputs, reading the result), update (accepting, rollback, learning), share (other / (forward + other)). On a GPU a
    forward is timed until the device is done with it.
    """
    from samlib import generate, make_drafter

    drafter = make_drafter(method, model=model, static=static, **options)
    request = {"drafter": drafter, "max_new_tokens": max_new_tokens, "eos_token_id": None}
    generate(model, prompt, **request)
    with forward_clock(model) as forwards:
        generation = generate(model, prompt, **request)
    forward = sum(seconds for _, seconds in forwards[1:])
    parts = {name: generation.timings[name] for name in PARTS}
    parts["verify"] -= forward
    other = sum(parts.values())
    counts = {"method": method, "tokens": len(generation.tokens), "steps": len(generation.steps)}
    return counts | {"forward": forward, "other": other} | parts | {"share": other / (forward + other)}


def compare_loops(model, prompt, max_new_tokens=64, repeats=9, context=None):
    """Time greedy decoding by samlib's loop and by `model.generate`, in turn; the first turn of each warms up.

    context: entered around samlib's requests alone, for example the model's CpuKernels; without one, both run the model
    as it is, and what differs is the loops.

    Returns a dict: samlib and transformers, the median seconds of a whole request; ratio, the median over the repeats
    of samlib's time by transformers'; repeats.
    """
    ways = {"samlib": _samlib_loop, "transformers": _transformers_loop}
    contexts = {"samlib": context or contextlib.nullcontext(), "transformers": contextlib.nullcontext()}
    seconds = {name: [] for name in ways}
    for turn in range(repeats + 1):
        for name in sorted(ways, reverse=turn % 2 == 1):
            with contexts[name]:
                elapsed = _seconds(model, ways[name], prompt, max_new_tokens)
            if turn > 0:
                seconds[name].append(elapsed)
    ratios = [ours / theirs for ours, theirs in zip(*seconds.values(), strict=True)]
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return medians | {"ratio": statistics.median(ratios), "repeats": repeats}


def prompt_near(tokenizer, profile, size):
    """The ids of the profile's question whose prompt is nearest to `size` tokens."""
    prompts = [
        prompt_ids(tokenizer, [{"role": "user", "content": question.turns[0]}]) for question in load_questions(profile)
    ]
    return min(prompts, key=lambda ids: abs(len(ids) - size))


def main(arguments=None):
    """The command line: measure every method, with the profile's static index, print a table, then the JSON line."""
    parser = argparse.ArgumentParser(prog="python -m samlib.bench.overhead", description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="cpu")
    parser.add_argument("--context", type=int, default=300, help="tokens in the prompt, about (default: 300)")
    parser.add_argument("--tokens", type=int, default=64, help="new tokens (default: 64)")
    parser.add_argument("--repeats", type=int, default=9, help="pairs of requests in the comparison (default: 9)")
    args = parser.parse_args(arguments)
    profile = load_profile(args.profile)
    model, tokenizer = load_model(profile)
    settle_threads(model, profile)
    prompt = prompt_near(tokenizer, profile, args.context)
    static = load_static(profile, tokenizer=tokenizer, progress=False)
    print(f"{device_words(profile)}; a prompt of {len(prompt)} tokens, {args.tokens} new ones")
    with cpu_kernels(profile, model):
        rows, left_out = _measure_all(profile, model, prompt, static, args.tokens)
    print("\n".join([*_table(rows), *left_out]))
    loop = compare_loops(model, prompt, args.tokens, args.repeats)
    print(_comparison("autoregressive, both on plain layers", loop))
    kernels = None
    if profile.cpu_kernels:
        kernels = compare_loops(model, prompt, args.tokens, args.repeats, cpu_kernels(profile, model))
        print(_comparison("autoregressive, samlib on its kernels", kernels))
    print(json.dumps({"overhead": rows, "left_out": left_out, "loop": loop, "kernels": kernels}))


def _measure_all(profile, model, prompt, static, max_new_tokens):
    """(what measure_overhead finds, method by method, words on each method that lacks its assets)."""
    from samlib import METHODS

    rows, left_out = [], []
    for method in METHODS:
        try:
            options = head_options(profile, model, method)
            rows.append(measure_overhead(model, prompt, method, static, max_new_tokens, **options))
        except MissingAssetError as error:
            left_out.append(f"{method} left out ({error})")
    return rows, left_out


def _comparison(what, found):
    """One line of a comparison of loops."""
    return (
        f"{what}: samlib {1e3 * found['samlib']:.0f} ms, model.generate {1e3 * found['transformers']:.0f} ms, "
        f"ratio {found['ratio']:.3f} (median of {found['repeats']} pairs)"
    )


def _samlib_loop(model, prompt, max_new_tokens):
    from samlib import generate

    generate(model, prompt, method="autoregressive", max_new_tokens=max_new_tokens)


def _transformers_loop(model, prompt, max_new_tokens):
    import torch

    batch = torch.tensor([list(prompt)], device=model.device)
    model.generate(batch, attention_mask=torch.ones_like(batch), do_sample=False, max_new_tokens=max_new_tokens)


def _seconds(model, loop, prompt, max_new_tokens):
    synchronise(model)
    start = time.perf_counter()
    loop(model, prompt, max_new_tokens)
    synchronise(model)
    return time.perf_counter() - start


def _table(rows):
    """Lines of text: milliseconds of a step by part, and the share of all that is not the forward."""
    yield f"{'ms a step':<16}{'steps':>6}{'forward':>9}{'draft':>8}{'verify':>8}{'update':>8}{'other':>8}{'share':>8}"
    for row in rows:
        steps = max(row["steps"], 1)
        parts = "".join(f"{1e3 * row[name] / steps:8.3f}" for name in (*PARTS, "other"))
        forward = f"{1e3 * row['forward'] / steps:9.2f}"
        yield f"{row['method']:<16}{row['steps']:>6}{forward}{parts}{100 * row['share']:7.2f}%"


if __name__ == "__main__":
    main()
