"""How a method answers one prompt, and what is recorded of the answer."""

import contextlib
import dataclasses
import hashlib
import time

import numpy as np

from samlib.bench.tables import COLD, HF_OPTIONS, WITHOUT_STATIC
from samlib.decoding.forward import synchronise


@dataclasses.dataclass(frozen=True)
class Answer:
    """New ids, and the turn of a record that they make (all but its comparison with greedy decoding)."""

    ids: list
    turn: dict


class Contender:
    """One line of a table: a method of one block with its options, and what answers for it.

    Its drafter is made once and serves all questions, as in the paper's programs: what a drafter keeps by design
    (Token Recycling's adjacency matrix) stays warm from question to question; the variant COLD forgets it after each.
    context: entered around each answer of samlib's own methods, never around transformers' own. prefill: the
    SharedPrefill that serves samlib's methods; None to make every prefill. assets: options of make_drafter that name
    files of this machine, and so are no part of the line (see heads.py). Not safe for threads.
    """

    def __init__(self, line, *, model, static=None, context=None, prefill=None, assets=None):
        self.line = line
        self._model, self._drafter, self._prefill = model, None, prefill
        self._context = context or contextlib.nullcontext()
        self.questions_seen = 0
        if line.method not in HF_OPTIONS:
            from samlib import make_drafter

            static = None if line.variant == WITHOUT_STATIC else static
            self._drafter = make_drafter(line.method, model=model, static=static, **line.options, **assets or {})

    @property
    def needs_hidden(self):
        """Does it draft from the target's hidden states, which captured forwards do not give?"""
        return self._drafter is not None and self._drafter.needs_hidden

    def answer(self, prompt_ids, max_new_tokens):
        """Continue a prompt greedily; the time taken is in the answer's turn."""
        if self._drafter is None:
            return hf_answer(self._model, prompt_ids, max_new_tokens, **self.line.options)
        with self._context:
            return samlib_answer(self._model, prompt_ids, max_new_tokens, drafter=self._drafter, prefill=self._prefill)

    def end_question(self):
        """Count a question; a cold line forgets it."""
        self.questions_seen += 1
        if self.line.variant == COLD:
            self._drafter.reset()

    def reset(self):
        """Forget all questions so far."""
        self.questions_seen = 0
        if self._drafter is not None:
            self._drafter.reset()


def samlib_answer(model, prompt_ids, max_new_tokens, *, drafter, prefill=None):
    """Answer with samlib's decode loop. The total is taken from outside, as for transformers' own `generate`.

    prefill: the SharedPrefill that serves the request. A prefill that it had made before counts as if it were made now.
    """
    from samlib import generate

    with contextlib.nullcontext() if prefill is None else prefill.serving():
        synchronise(model)
        start = time.perf_counter()
        generation = generate(model, prompt_ids, drafter=drafter, max_new_tokens=max_new_tokens)
        synchronise(model)
        total = time.perf_counter() - start
    saved = 0.0 if prefill is None else prefill.saved
    timings = generation.timings | {"prefill": generation.timings["prefill"] + saved, "total": total + saved}
    steps = generation.steps
    turn = {
        "prompt_tokens": len(prompt_ids),
        "new_tokens": len(generation.tokens),
        "forwards": generation.num_target_forwards,
        "steps": len(steps),
        "drafted": sum(step.drafted for step in steps),
        "accepted": sum(step.accepted for step in steps),
        "mat_emitted": sum(len(step.tokens) for step in steps),
        "finish_reason": generation.finish_reason,
        "timings": timings,
        "prefill_saved": saved,
        "sources": _sources(steps),
        "output_sha256": _ids_sha256(generation.tokens),
    }
    return Answer(list(generation.tokens), turn)


def hf_answer(model, prompt_ids, max_new_tokens, **options):
    """Answer with transformers' own greedy `model.generate`; with `prompt_lookup_num_tokens`, its prompt lookup.

    The phases are taken from the model's forwards: the first is the prefill, the others count as verification; what
    transformers does between them is only in the total.
    """
    import torch

    batch = torch.tensor([prompt_ids], device=model.device)
    with forward_clock(model) as forwards:
        synchronise(model)
        start = time.perf_counter()
        output = model.generate(
            batch, attention_mask=torch.ones_like(batch), do_sample=False, max_new_tokens=max_new_tokens, **options
        )
        synchronise(model)
        total = time.perf_counter() - start
    ids = output[0, len(prompt_ids) :].tolist()
    return Answer(ids, _hf_turn(model, prompt_ids, ids, forwards, total))


@contextlib.contextmanager
def forward_clock(model):
    """Yield a list that receives (width in tokens, seconds) of each forward of the model while the context is open."""
    forwards, started = [], []

    def before(module, args, kwargs):
        synchronise(model)
        started.append(time.perf_counter())

    def after(module, args, kwargs, output):
        synchronise(model)
        forwards.append((kwargs["input_ids"].shape[1], time.perf_counter() - started.pop()))

    hooks = [
        model.register_forward_pre_hook(before, with_kwargs=True),
        model.register_forward_hook(after, with_kwargs=True),
    ]
    try:
        yield forwards
    finally:
        for hook in hooks:
            hook.remove()


def _hf_turn(model, prompt_ids, ids, forwards, total):
    steps, emitted = len(forwards) - 1, len(ids) - 1
    eos = model.generation_config.eos_token_id
    ended = bool(ids) and ids[-1] in (eos if isinstance(eos, list) else [eos])
    return {
        "prompt_tokens": len(prompt_ids),
        "new_tokens": len(ids),
        "forwards": len(forwards),
        "steps": steps,
        "drafted": sum(width - 1 for width, _ in forwards[1:]),
        "accepted": emitted - steps,
        "mat_emitted": emitted,
        "finish_reason": "eos" if ended else "length",
        "timings": {
            "prefill": forwards[0][1],
            "draft": 0.0,
            "verify": sum(seconds for _, seconds in forwards[1:]),
            "update": 0.0,
            "total": total,
        },
        "prefill_saved": 0.0,
        "sources": {},
        "output_sha256": _ids_sha256(ids),
    }


def _sources(steps):
    """{source: {"steps", "emitted"}} over the steps of a generation."""
    sources = {}
    for step in steps:
        entry = sources.setdefault(step.source, {"steps": 0, "emitted": 0})
        entry["steps"] += 1
        entry["emitted"] += len(step.tokens)
    return sources


def _ids_sha256(ids):
    return hashlib.sha256(np.asarray(ids, dtype="<i4").tobytes()).hexdigest()
