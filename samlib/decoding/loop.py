"""The decode loop: draft, verify, accept, update, until a stop. Greedy: the output is that of `model.generate`.

Paper: Algorithm 3. Prefill emits the first token and is not a step; every later forward is one.
"""

import time

import numpy as np
import torch

from samlib.automaton import Draft
from samlib.decoding.request import MODEL_EOS, check_request
from samlib.decoding.result import Generation, Step
from samlib.decoding.stopping import Stopping
from samlib.decoding.target import TargetModel
from samlib.drafters import Verified, make_drafter


def generate(
    model,
    input_ids,
    *,
    attention_mask=None,
    method="sam",
    drafter=None,
    static=None,
    max_new_tokens=128,
    eos_token_id=MODEL_EOS,
    stop_strings=None,
    tokenizer=None,
    **drafter_options,
):
    """Continue a prompt as greedy `model.generate` would, in fewer forwards; returns a Generation.

    model: a Hugging Face causal LM with full attention, `sdpa` or `eager`. input_ids: one prompt, a one-dimensional
    sequence or a [1, n] tensor, not padded. method: one of samlib.METHODS, made with `static` and the
    `drafter_options` by make_drafter; or give a `drafter`, which keeps what it learnt from request to request.
    eos_token_id: an id, a list of ids or None; by default the model's. stop_strings: need `tokenizer`.

    In float32 the ids are those of greedy decoding; in half precision, near-ties between two logits can fall either
    way, as they do between any two ways of running the model.

    Raises ValueError or TypeError, before any work, for a model, prompt or option that cannot be honoured.
    """
    tokens = stream(
        model,
        input_ids,
        attention_mask=attention_mask,
        method=method,
        drafter=drafter,
        static=static,
        max_new_tokens=max_new_tokens,
        eos_token_id=eos_token_id,
        stop_strings=stop_strings,
        tokenizer=tokenizer,
        **drafter_options,
    )
    for _ in tokens:
        pass
    return tokens.generation


def stream(
    model,
    input_ids,
    *,
    attention_mask=None,
    method="sam",
    drafter=None,
    static=None,
    max_new_tokens=128,
    eos_token_id=MODEL_EOS,
    stop_strings=None,
    tokenizer=None,
    **drafter_options,
):
    """As `generate`, but returns an iterator over the Steps, each given as soon as it is verified.

    The iterator's `.generation` grows with it; the first token, which the prefill emits before any step, is in
    `.generation.tokens` from the first step on (or at the end, where there is no step).
    """
    if drafter is None:
        drafter = make_drafter(method, model=model, static=static, **drafter_options)
    elif drafter_options or static is not None:
        wrong = ", ".join(["static"] * (static is not None) + list(drafter_options))
        raise TypeError(f"{wrong}: options belong to make_drafter where a drafter is given")
    target = TargetModel(model)
    request = check_request(
        model,
        input_ids,
        attention_mask=attention_mask,
        max_new_tokens=max_new_tokens,
        eos_token_id=eos_token_id,
        stop_strings=stop_strings,
        tokenizer=tokenizer,
    )
    return Stream(target, drafter, request)


class Stream:
    """Iterator over the Steps of one request; `generation` holds all there is so far."""

    def __init__(self, target, drafter, request):
        self.generation = Generation()
        self._steps = decode(target, drafter, request, self.generation)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._steps)


def decode(target, drafter, request, generation):
    """Run a checked request; yield each Step, and keep `generation` up to date."""
    if request.limit == 0:
        return
    stopping = Stopping(
        request.prompt, request.eos_ids, request.limit, request.limit_reason, request.stop_strings, request.tokenizer
    )
    clock = Clock(generation.timings, target.device)
    generation.tokens = stopping.tokens

    # 1. prefill: the prompt's forward emits the first token
    drafter.begin(request.prompt)
    clock.lap("draft")
    root = int(target.prefill(request.prompt).argmax())
    clock.lap("prefill")
    stopping.take([root])
    drafter.observe(np.array([root], dtype=np.int32))
    generation.num_target_forwards = 1
    generation.finish_reason = stopping.finish_reason
    clock.lap("update")

    while stopping.finish_reason is None:
        # 2. draft
        draft = drafter.propose(stopping.room).clipped(stopping.room)
        if len(draft) == 0:
            draft = Draft.empty()  # where there is no room, too, nobody drafted
        clock.lap("draft")

        # 3. verify: one forward over the root and the draft
        logits = target.verify(root, draft)
        choices = logits.argmax(dim=-1).tolist()
        clock.lap("verify")

        # 4. accept the path that the target would have taken, and its own next token
        path = accepted_path(draft, choices)
        emitted = stopping.take([*draft.tokens[path].tolist(), choices[path[-1] + 1 if path else 0]])
        target.keep([0, *(node + 1 for node in path)])

        # 5. update: the drafter learns what was emitted
        drafter.observe(np.array(emitted, dtype=np.int32), verified(root, draft, logits, drafter.top_k))
        root = emitted[-1]
        step = Step(emitted, len(draft), min(len(path), len(emitted)), draft.source, draft.match_length)
        generation.steps.append(step)
        generation.num_target_forwards += 1
        generation.finish_reason = stopping.finish_reason
        clock.lap("update")
        yield step


def accepted_path(draft, choices):
    """Nodes of the draft that greedy decoding would have emitted, from the root down.

    choices: the target's next id after the root and after each node, 1 + len(draft) of them. Parents precede children,
    so one pass finds the path.
    """
    path = []
    current = -1
    for node, (token, parent) in enumerate(zip(draft.tokens.tolist(), draft.parents.tolist(), strict=True)):
        if parent == current and token == choices[current + 1]:
            path.append(node)
            current = node
    return path


def verified(root, draft, logits, top_k):
    """What the drafter may learn from: the verified tokens and, if it asked, the top of their logits."""
    tokens = np.concatenate([np.array([root], dtype=np.int32), draft.tokens])
    if top_k == 0:
        return Verified(tokens, None)
    top = torch.topk(logits, min(top_k, logits.shape[-1]), dim=-1).indices
    return Verified(tokens, top.cpu().numpy().astype(np.int32))


class Clock:
    """Adds the seconds since the last lap to a phase, and to the total; waits for a GPU first."""

    def __init__(self, timings, device):
        self._timings = timings
        self._on_gpu = device.type == "cuda"
        self._last = time.perf_counter()

    def lap(self, phase):
        if self._on_gpu:
            torch.cuda.synchronize()
        now = time.perf_counter()
        self._timings[phase] += now - self._last
        self._timings["total"] += now - self._last
        self._last = now
