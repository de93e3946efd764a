"""The target's final hidden states, taken out of the forward that is made anyway.

Asking transformers for `output_hidden_states` would keep every layer's; calling the base model and the LM head apart
would pass by what a model does besides. A hook on the base model sees its output, all positions of a prompt included,
while the LM head still runs over the last one alone. Nothing is hooked but for the time of one forward.
"""

import threading
from contextlib import contextmanager


@contextmanager
def watched(model, wanted):
    """Yield a list that receives the final hidden states, shape (m, hidden), of this thread's forward; if `wanted`.

    They are those that the LM head reads. Raises ValueError for a model whose LM head reads something else than the
    base model's output, so that a drafter's predictions would not be of use to it.
    """
    seen = []
    if not wanted:
        yield seen
        return
    check_hidden(model)
    name, base, language_head = type(model).__name__, model.base_model, model.get_output_embeddings()
    thread = threading.get_ident()

    def after_base(module, args, output):
        if threading.get_ident() == thread:
            seen.append(output[0][0])

    def before_head(module, args):
        if threading.get_ident() == thread and not (seen and _shares_memory(args[0], seen[-1])):
            raise ValueError(
                f"{name} changes its hidden states before the LM head reads them: use a method without a head on them"
            )

    hooks = [base.register_forward_hook(after_base), language_head.register_forward_pre_hook(before_head)]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def check_hidden(model):
    """Raise ValueError for a model without a base model below an LM head; what its LM head reads, a forward shows."""
    if model.base_model is model or model.get_output_embeddings() is None:
        raise ValueError(
            f"{type(model).__name__} has no base model below an LM head, so that its hidden states cannot be given: "
            f"use a method without a head on them"
        )


def _shares_memory(a, b):
    """True for a view of the same numbers, without reading any."""
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
