"""The decode loop: draft, verify, accept, update, until a stop. Greedy: the output is that of `model.generate`.

Paper: Algorithm 3. Prefill emits the first token and is not a step; every later forward is one.
"""

import inspect

import numpy as np

from samlib.automaton import Draft
from samlib.decoding.clock import clock_for
from samlib.decoding.cpu_kernels import serve_drafter
from samlib.decoding.request import MODEL_EOS, check_request
from samlib.decoding.result import Generation, Step
from samlib.decoding.step_cost import step_cost
from samlib.decoding.stopping import Stopping
from samlib.decoding.target import target_for
from samlib.drafters import Verified, make_drafter


def stream(
    model,
    input_ids,
    *,
    attention_mask=None,
    method="sam_auto",
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
    `.generation.tokens` from the first step on (or at the end, where there is no step). On a GPU, `.generation.timings`
    are filled in at the end.
    """
    if drafter is None:
        drafter = make_drafter(method, model=model, static=static, **drafter_options)
    elif drafter_options or static is not None:
        wrong = ", ".join(["static"] * (static is not None) + list(drafter_options))
        raise TypeError(f"{wrong}: options belong to make_drafter where a drafter is given")
    target = target_for(model)
    if drafter.needs_hidden:
        target.check_hidden()
    request = check_request(
        model,
        input_ids,
        attention_mask=attention_mask,
        max_new_tokens=max_new_tokens,
        eos_token_id=eos_token_id,
        stop_strings=stop_strings,
        tokenizer=tokenizer,
    )
    target.check_room(len(request.prompt) + request.limit)
    serve_drafter(model, drafter)
    if drafter.needs_cost and request.limit:
        drafter.cost = step_cost(model)
    return Stream(target, drafter, request)


def generate(model, input_ids, **options):
    """Continue a prompt as greedy `model.generate` would, in fewer forwards; returns a Generation.

    model: a Hugging Face causal LM with full attention, `sdpa` or `eager`. input_ids: one prompt, a one-dimensional
    sequence or a [1, n] tensor, not padded. method: one of samlib.METHODS, made with `static` and the
    `drafter_options` by make_drafter; or give a `drafter`, which keeps what it learnt from request to request. The
    default, sam_auto, weighs drafts by what forwards cost here, which is measured before its first request to a model,
    in about the time of fifty forwards.
    eos_token_id: an id, a list of ids or None; by default the model's. stop_strings: need `tokenizer`.

    In float32 the ids are those of greedy decoding; in half precision, near-ties between two logits can fall either
    way, as they do between any two ways of running the model.

    Raises ValueError or TypeError, before any work, for a model, prompt or option that cannot be honoured.
    """
    steps = stream(model, input_ids, **options)
    for _ in steps:
        pass
    return steps.generation


generate.__signature__ = inspect.signature(stream)  # the arguments and their defaults are stated once


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
    generation.tokens = stopping.tokens

    with clock_for(target.device, generation.timings) as clock:
        # 1. prefill: the prompt's forward emits the first token
        drafter.begin(request.prompt)
        clock.lap("draft")
        prefill = target.prefill(request.prompt, hidden=drafter.needs_hidden)
        root = prefill.choices[0]
        clock.lap("prefill")
        states = prefill.hidden if drafter.needs_hidden else None
        drafter.observe(np.array(stopping.take([root]), dtype=np.int32), prefilled(request.prompt, states))
        generation.num_target_forwards = 1
        generation.finish_reason = stopping.finish_reason
        clock.lap("update")

        while stopping.finish_reason is None:
            # 2. draft
            draft = proposal(drafter, stopping.room)
            clock.lap("draft")

            # 3. verify: one forward over the root and the draft
            verification = target.verify(root, draft, drafter.top_k, drafter.needs_hidden)
            clock.lap("verify")

            # 4. accept the path that the target would have taken, and its own next token
            path = accepted_path(draft, verification.choices)
            last = path[-1] + 1 if path else 0
            emitted = stopping.take([*draft.tokens[path].tolist(), verification.choices[last]])
            kept = [0, *(node + 1 for node in path)]
            target.keep(kept)

            # 5. update: the drafter learns what was emitted
            drafter.observe(np.array(emitted, dtype=np.int32), verified(root, draft, verification, kept))
            root = emitted[-1]
            step = Step(emitted, len(draft), min(len(path), len(emitted)), draft.source, draft.match_length)
            generation.steps.append(step)
            generation.num_target_forwards += 1
            generation.finish_reason = stopping.finish_reason
            clock.lap("update")
            yield step
            clock.resume()  # what is done between two steps is the caller's time


def proposal(drafter, room):
    """What the drafter proposes, cut here and nowhere else to the room; a draft of no tokens is nobody's."""
    draft = drafter.propose(room).clipped(room) if room else None
    return draft or Draft.empty()


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


def prefilled(prompt, hidden):
    """What the drafter may learn from the prefill: the prompt's hidden states, if it asked for them, else None."""
    places = np.arange(len(prompt), dtype=np.int32)
    return None if hidden is None else Verified(prompt, None, hidden, places, places - 1)


def verified(root, draft, verification, kept):
    """What the drafter may learn from: the verified tokens and, if it asked, the top of their logits, hidden states."""
    tokens = np.concatenate([np.array([root], dtype=np.int32), draft.tokens])
    parents = np.concatenate([np.array([-1], dtype=np.int32), draft.parents + 1])
    return Verified(tokens, verification.top, verification.hidden, np.array(kept), parents)
