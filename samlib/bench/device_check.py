"""One prepared check of a CUDA device: is the output right there, what does a forward cost, what speed-ups come of it?

    python -m samlib.bench.device_check [--out DIR] [--minutes 8] [--profile NAME] [--small]

Four parts, each within what time is left: equality of captured and plain forwards; how often a step waits for the
device; T(n) for a Llama of Vicuna-7B's shape with random weights in float16; speed-ups of every method with SmolLM2.
Plain forwards and captured ones (see CapturedForwards) stand side by side. What had to be shortened or left out is
said. It writes `device_check.json` and `device_check.md`, each replaced in one piece after every part.

`--profile smoke` needs no download; the speeds of its tiny random model mean nothing, all else holds.
`--small` takes the same way in seconds on the CPU, with tiny random models; its numbers mean nothing.
Exit status: 0, or 1 where a part failed or an output is wrong, or 2 without a CUDA device.
"""

import argparse
import contextlib
import dataclasses
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from samlib import paths
from samlib.bench.answers import Contender
from samlib.bench.data import load_questions, rounds
from samlib.bench.device_check_table import device_check_markdown
from samlib.bench.heads import head_options
from samlib.bench.losslessness import compare
from samlib.bench.machine import device_words
from samlib.bench.manifest import write_manifest
from samlib.bench.metrics import BASELINE, MIN_QUESTIONS, identical_words, speedup, speedup_interval
from samlib.bench.model import load_model
from samlib.bench.profiles import PAPER_SETTINGS, load_profile
from samlib.bench.prompts import prompt_ids
from samlib.bench.records import write_whole
from samlib.bench.static import load_static
from samlib.bench.tables import ORACLE, Line
from samlib.decoding.forward import binary_tree
from samlib.errors import MissingAssetError

MINUTES = 8.0
RESERVE = 20.0  # seconds kept for leaving: writing, freeing memory
COST_SHARE = 0.5  # of the time left, at most, for T(n): the speed-ups follow it
PLAIN, CAPTURED = "plain", "captured"
NO_HIDDEN = "with plain forwards only: they draft from hidden states, which captured forwards do not give"
SOME_METHODS = (BASELINE, "token_recycling", "sam")  # single tokens, trees, chains
HEAD_METHODS = ("eagle", "eagle2", "sam[e]", "sam[e2]")  # from hidden states, which captured forwards do not give
VICUNA_7B = {
    "vocab_size": 32_000,
    "hidden_size": 4096,
    "intermediate_size": 11_008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "max_position_embeddings": 2048,
}


@dataclasses.dataclass(frozen=True)
class Sizes:
    """How large a check is.

    shape: of the model whose T(n) is measured, in `dtype`, after each of `contexts`. rounds: questions of each task.
    prompt_tokens: the last so many of a prompt are used, None for all.
    """

    profile: str
    device: str
    dtype: str
    shape: dict
    contexts: tuple[int, ...]
    widths: tuple[int, ...]
    repeats: int
    rounds: int
    prompt_tokens: int | None
    new_tokens: int


FULL = Sizes(
    profile="cpu-full",
    device="cuda",
    dtype="float16",
    shape=VICUNA_7B,
    contexts=(300, 900),
    widths=(1, 2, 4, 8, 16, 24, 32, 41, 61),
    repeats=15,
    rounds=2,
    prompt_tokens=None,
    new_tokens=96,
)
SMALL = Sizes(
    profile="smoke",
    device="cpu",
    dtype="bfloat16",
    shape=VICUNA_7B
    | {"vocab_size": 320, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    | {"num_attention_heads": 4, "num_key_value_heads": 4},
    contexts=(20, 40),
    widths=(1, 2, 8),
    repeats=2,
    rounds=1,
    prompt_tokens=48,
    new_tokens=8,
)


class Check:
    """One run of the check: its sizes, its clock, and what was found so far."""

    def __init__(self, sizes, folder, minutes=MINUTES):
        self.sizes, self.folder = sizes, Path(folder)
        self._start, self._seconds = time.perf_counter(), 60 * minutes
        self.profile = dataclasses.replace(
            load_profile(sizes.profile), device=sizes.device, dtype=sizes.dtype, cpu_kernels=False
        )
        self.results, self.failures, self.seconds, self.notes = {}, {}, {}, []

    def run(self):
        """Run the parts that there is time for, and keep the files up to date; returns whether all was well."""
        for name, part in PARTS.items():
            if self.left() <= 0:
                self.note(f"{name}: left out, the time was used up")
            else:
                self._run_part(name, part)
            self._write()
        return not self.failures and not any(self.results.get(name, {}).get("wrong") for name in ("equality", "speed"))

    def left(self):
        """Seconds left for measuring."""
        return self._seconds - RESERVE - self.elapsed()

    def elapsed(self):
        """Seconds since the start."""
        return time.perf_counter() - self._start

    def note(self, text):
        """Say something that a reader of the numbers must know."""
        print(text, flush=True)
        self.notes.append(text)

    def model(self, dtype):
        """(model, tokenizer) of the profile on the check's device."""
        return load_model(dataclasses.replace(self.profile, dtype=dtype))

    def questions(self, tokenizer):
        """The ids of the questions' first turns, one of each task a round."""
        groups = rounds(load_questions(self.profile), self.profile.seed)[: self.sizes.rounds]
        chats = [[{"role": "user", "content": question.turns[0]}] for group in groups for question in group]
        return [prompt_ids(tokenizer, chat)[-(self.sizes.prompt_tokens or 0) :] for chat in chats]

    def facts(self):
        """All that was found, as JSON types."""
        return {
            "device": device_words(self.profile),
            "cuda": _cuda_facts(self.sizes.device),
            "sizes": dataclasses.asdict(self.sizes),
            "part_seconds": self.seconds,
            "notes": self.notes,
            "failures": self.failures,
            "results": self.results,
        }

    def _run_part(self, name, part):
        start = time.perf_counter()
        print(f"{name} …", flush=True)
        try:
            self.results[name] = part(self)
        except Exception as error:  # the other parts are worth having
            self.failures[name] = " ".join(f"{type(error).__name__}: {error}".split())
            print(f"{name} failed: {self.failures[name]}", flush=True)
        _free_memory(self.sizes.device)
        self.seconds[name] = round(time.perf_counter() - start, 1)

    def _write(self):
        wall = round(self.elapsed(), 1)
        content = write_manifest(self.folder / "device_check.json", self.profile, wall_seconds=wall, **self.facts())
        write_whole(self.folder / "device_check.md", device_check_markdown(content).encode())


# ---- the parts, in the order in which they run ----------------------------------------------------------------------


def equality(check):
    """In float32: how far captured logits are from plain ones, and whether captured answers are greedy decoding's."""
    from samlib.decoding import CapturedForwards

    model, tokenizer = check.model("float32")
    prompts = check.questions(tokenizer)[:3]
    tokens = check.sizes.new_tokens
    forwards = CapturedForwards(model, max_length=max(map(len, prompts)) + tokens, widths=check.sizes.widths)
    differences = {width: _largest_difference(model, forwards, prompts[0], width) for width in check.sizes.widths}
    oracle = Contender(Line("reference", ORACLE, {}), model=model)
    references = [oracle.answer(ids, tokens).ids for ids in prompts]
    found = []
    for method in SOME_METHODS:
        contender = Contender(Line(CAPTURED, method, {}), model=model, context=forwards)
        for ids, reference in zip(prompts, references, strict=True):
            comparison = compare(model, ids, reference, contender.answer(ids, tokens).ids)
            found.append(dataclasses.asdict(comparison))
    return {
        "is_captured": forwards.is_captured,
        "largest_difference": differences,
        "identical": identical_words([(one,) for one in found]),
        "wrong": any(one["kind"] == "different" for one in found),
        "comparisons": found,
    }


def synchronisations(check):
    """How often decoding waits for the device, by way and method: waits in all, and forwards."""
    from samlib.decoding import CapturedForwards

    model, tokenizer = check.model(check.sizes.dtype)
    ids = check.questions(tokenizer)[0]
    ways = {
        PLAIN: contextlib.nullcontext(),
        CAPTURED: CapturedForwards(model, max_length=len(ids) + check.sizes.new_tokens),
    }
    rows = [_waits(check, model, ids, way, method, context) for way, context in ways.items() for method in SOME_METHODS]
    for method in HEAD_METHODS:  # with plain forwards only
        try:
            rows.append(_waits(check, model, ids, PLAIN, method, ways[PLAIN]))
        except MissingAssetError as error:
            check.note(f"synchronisations: {method} left out ({error})")
    return rows


def cost(check):
    """T(n) of the large model, plain and captured, after each context: {context: {way: {width: seconds}}}."""
    from samlib.decoding import CapturedForwards

    sizes, deadline = check.sizes, COST_SHARE * check.left()
    needed, free = _bytes_of(sizes), _free_bytes(sizes.device)
    if free is not None and 1.2 * needed > free:
        check.note(f"cost: left out, the model takes {needed / 1e9:.1f} GB and {free / 1e9:.1f} GB are free")
        return {}
    model, found, start, slowest = _random_model(sizes), {}, time.perf_counter(), 0.0
    for context in sizes.contexts:
        for way in (PLAIN, CAPTURED):
            begun = time.perf_counter()
            if begun - start + 1.2 * slowest > deadline:
                check.note(f"cost: {way} forwards at context {context} left out, the time would not have sufficed")
                continue
            captured = CapturedForwards(model, max_length=context + 1, widths=sizes.widths) if way == CAPTURED else None
            with captured or contextlib.nullcontext():
                found.setdefault(context, {})[way] = _cost_curve(model, sizes, context)
            slowest = max(slowest, time.perf_counter() - begun)
    return found


def speed(check):
    """Every method, plain and captured, beside greedy `model.generate`, interleaved question by question."""
    from samlib.decoding import CapturedForwards

    model, tokenizer = check.model(check.sizes.dtype)
    prompts, tokens = check.questions(tokenizer), check.sizes.new_tokens
    static = load_static(check.profile, tokenizer=tokenizer, progress=False)
    forwards = CapturedForwards(model, max_length=max(map(len, prompts)) + tokens)
    contenders = _contenders(check, model, static, forwards)
    for contender in contenders:
        contender.answer(prompts[0], min(tokens, 16))
        contender.reset()
    answers, slowest = [], 0.0
    for index, ids in enumerate(prompts):
        start = time.perf_counter()
        if 1.2 * slowest > check.left():
            check.note(f"speed: {index} of {len(prompts)} questions measured, the time did not suffice for more")
            break
        answers.append(_answer_all(model, contenders, ids, tokens, shift=index))
        slowest = max(slowest, time.perf_counter() - start)
    rows = [_speed_row(contender, answers) for contender in contenders]
    return {"rows": rows, "questions": len(answers), "wrong": any(row["wrong"] for row in rows)}


PARTS = {"equality": equality, "synchronisations": synchronisations, "cost": cost, "speed": speed}


# ---- what the parts are made of -------------------------------------------------------------------------------------


@contextlib.contextmanager
def counted_waits(device):
    """Yield a dict that receives how often the code inside waited for the device.

    "read": operations that wait by themselves, such as reading a value (None on the CPU, where nothing waits);
    "synchronize": calls of `torch.cuda.synchronize`.
    """
    import torch

    waits, original = {"read": None, "synchronize": 0}, torch.cuda.synchronize

    def synchronize(*args, **kwargs):
        waits["synchronize"] += 1
        return original(*args, **kwargs)

    torch.cuda.synchronize = synchronize
    try:
        with warnings.catch_warnings(record=True) as caught, _sync_warnings(device):
            warnings.simplefilter("always")
            yield waits
    finally:
        torch.cuda.synchronize = original
    if device == "cuda":
        waits["read"] = sum("synchronizing CUDA operation" in str(warning.message) for warning in caught)


@contextlib.contextmanager
def _sync_warnings(device):
    """Let torch warn of every operation that waits for the GPU."""
    import torch

    if device != "cuda":
        yield
        return
    torch.cuda.set_sync_debug_mode("warn")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def _waits(check, model, ids, way, method, context):
    """The row of one request: its forwards, and how often it waited for the device."""
    from samlib import generate, make_drafter

    drafter = make_drafter(method, model=model, **head_options(check.profile, model, method))
    with context, counted_waits(check.sizes.device) as waits:
        generation = generate(model, ids, drafter=drafter, max_new_tokens=check.sizes.new_tokens)
    return {"way": way, "method": method, "forwards": generation.num_target_forwards, **waits}


def _largest_difference(model, forwards, ids, width):
    """The largest difference of any logit, captured from plain, over a tree of `width` inputs behind `ids`."""
    from samlib.decoding import target_for

    tree, logits = binary_tree(width - 1), []
    for context in (contextlib.nullcontext(), forwards):
        with context:
            target = target_for(model)
            target.prefill(np.asarray(ids, dtype=np.int32))
            logits.append(target.verify(1, tree).logits)
    return float((logits[0] - logits[1]).abs().max())


def _cost_curve(model, sizes, context):
    """{width: median seconds} of the model as it now runs: the one place that calls the cost model."""
    from samlib.bench.cost import measure_cost

    return measure_cost(model, widths=sizes.widths, context=context, repeats=sizes.repeats).T


def _random_model(sizes):
    """A Llama with random weights, made on the device itself in its final dtype."""
    import torch
    from transformers import LlamaForCausalLM

    with torch.device(sizes.device):
        return LlamaForCausalLM._from_config(_config(sizes), dtype=getattr(torch, sizes.dtype)).eval()


def _bytes_of(sizes):
    """Bytes of the large model's weights, counted on a model without any."""
    import torch
    from transformers import LlamaForCausalLM

    with torch.device("meta"):
        parameters = sum(p.numel() for p in LlamaForCausalLM(_config(sizes)).parameters())
    return parameters * getattr(torch, sizes.dtype).itemsize


def _config(sizes):
    from transformers import LlamaConfig

    return LlamaConfig(**sizes.shape, tie_word_embeddings=False, attn_implementation="sdpa")


def _contenders(check, model, static, forwards):
    """The oracle, then every method plain and captured, the baseline first; what cannot be run is noted."""
    from samlib import METHODS

    contenders, plain_only = [Contender(Line("reference", ORACLE, {}), model=model)], []
    for method in sorted(METHODS, key=lambda name: name != BASELINE):
        options = PAPER_SETTINGS.get(method, {}) | head_options(check.profile, model, method)
        try:
            plain = Contender(Line(PLAIN, method, options), model=model, static=static)
        except MissingAssetError as error:
            check.note(f"speed: {method} left out ({error})")
            continue
        contenders.append(plain)
        if plain.needs_hidden:
            plain_only.append(method)
        else:
            line = Line(CAPTURED, method, options)
            contenders.append(Contender(line, model=model, static=static, context=forwards))
    if plain_only:
        check.note(f"speed: {', '.join(plain_only)} {NO_HIDDEN}")
    return contenders


def _answer_all(model, contenders, ids, tokens, shift):
    """{(way, method): turn} of one question, the oracle first, the others in an order that `shift` rotates."""
    oracle, *others = contenders
    shift %= len(others)
    reference = oracle.answer(ids, tokens)
    answers = {id(oracle): reference}
    for contender in [*others[shift:], *others[:shift]]:
        answers[id(contender)] = contender.answer(ids, tokens)
    turns = {}
    for contender in contenders:
        answer = answers[id(contender)]
        comparison = dataclasses.asdict(compare(model, ids, reference.ids, answer.ids))
        turns[contender.line.block, contender.line.method] = answer.turn | {"comparison": comparison}
    return turns


def _speed_row(contender, answers):
    """One line of the table of speeds, against plain autoregressive decoding on the same questions."""
    own = [turns[contender.line.block, contender.line.method] for turns in answers]
    rates = [_rate(turn) for turn in own]
    baseline = [_rate(turns[PLAIN, BASELINE]) for turns in answers]
    low, high = speedup_interval(rates, baseline) if len(own) >= MIN_QUESTIONS else (None, None)
    steps = sum(turn["steps"] for turn in own)
    return {
        "way": contender.line.block,
        "method": contender.line.method,
        "n": len(own),
        "mat": sum(turn["mat_emitted"] for turn in own) / steps if steps else None,
        "tokens_per_s": float(np.mean(rates)) if rates else None,
        "speedup": speedup(rates, baseline) if rates else None,
        "speedup_low": low,
        "speedup_high": high,
        "identical": identical_words([(turn["comparison"],) for turn in own]),
        "wrong": any(turn["comparison"]["kind"] == "different" for turn in own),
        "comparisons": [turn["comparison"] for turn in own],
    }


def _rate(turn):
    return turn["new_tokens"] / turn["timings"]["total"]


def _cuda_facts(device):
    """Versions and sizes that only a CUDA device has, or None."""
    import torch

    if device != "cuda":
        return None
    properties = torch.cuda.get_device_properties(0)
    return {
        "name": properties.name,
        "cuda": torch.version.cuda,
        "memory_bytes": properties.total_memory,
        "multiprocessors": properties.multi_processor_count,
        "compute_capability": f"{properties.major}.{properties.minor}",
    }


def _free_bytes(device):
    import torch

    return torch.cuda.mem_get_info()[0] if device == "cuda" else None


def _free_memory(device):
    """Give back what a part has left behind."""
    import gc

    import torch

    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()


def main(arguments=None):
    """The command line; returns the exit status."""
    import torch

    parser = argparse.ArgumentParser(prog="python -m samlib.bench.device_check", description=__doc__.splitlines()[0])
    parser.add_argument("--out", metavar="DIR", type=Path, default=paths.RUNS / "device_check", help="for the files")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="at most (default: %(default)s)")
    parser.add_argument("--profile", help="whose model and questions serve, but for T(n) (default: SmolLM2's)")
    parser.add_argument("--small", action="store_true", help="tiny models on the CPU: checks the check itself")
    args = parser.parse_args(arguments)
    if not args.small and not torch.cuda.is_available():
        print("no CUDA device here: run this on a machine with one, or with --small on the CPU", file=sys.stderr)
        return 2
    sizes = SMALL if args.small else FULL
    check = Check(dataclasses.replace(sizes, profile=args.profile or sizes.profile), args.out, args.minutes)
    well = check.run()
    print((args.out / "device_check.md").read_text(encoding="utf-8"))
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
