"""The target model: the one place that knows Hugging Face's forward pass."""

import contextlib
import inspect
import weakref

import torch

from samlib.decoding.cache import KVCache
from samlib.decoding.hidden import check_hidden, watched
from samlib.decoding.inputs import Inputs
from samlib.decoding.support import check_supported
from samlib.decoding.verification import read

_makers = weakref.WeakKeyDictionary()  # model -> what makes the TargetModel of a request to it, just now


def target_for(model):
    """The TargetModel of one request: a new one, unless the model is within a `served_by` context.

    Raises ValueError for a model that cannot be decoded losslessly here.
    """
    return _makers.get(model, TargetModel)(model)


def is_served(model):
    """Is the model within a `served_by` context?"""
    return model in _makers


@contextlib.contextmanager
def served_by(model, maker):
    """Within the context requests to the model get the TargetModel that `maker(model)` returns. Not thread-safe.

    Raises RuntimeError where the model is within such a context already.
    """
    if model in _makers:
        raise RuntimeError("the model's requests are served in another way already: leave that with block first")
    _makers[model] = maker
    try:
        yield
    finally:
        del _makers[model]


class TargetModel:
    """A Hugging Face causal LM that verifies drafts, for one request at a time. Not thread-safe.

    model, device, dtype: the model's own. max_length: tokens of a request at most, prompt and new ones; None where
    there is no limit. num_forwards: forwards made so far, prefills included. On a GPU, `verify`
    waits for the device once, to read the choices, and `keep` does not wait.

    Raises ValueError for a model that cannot be decoded losslessly here (see support.py).
    """

    def __init__(self, model):
        num_layers = check_supported(model)
        self.model = model
        self.device = model.device
        self.dtype = model.dtype
        self.num_forwards = 0
        self.max_length = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        parameters = inspect.signature(model.forward).parameters
        self._cache_argument = "cache" if "cache" in parameters else "past_key_values"
        self._keeps_logits = "logits_to_keep" in parameters
        self._cache = KVCache(num_layers)
        # Without a mask transformers builds one; but for one token in sdpa, which then takes its quicker way.
        eager = model.config._attn_implementation == "eager"
        self._inputs = Inputs(self.device, self.dtype, masks_one_token=eager)
        self._verified = 0

    @property
    def num_cached(self):
        """Number of tokens in the KV cache."""
        return self._cache.get_seq_length()

    def check_room(self, num_tokens):
        """Raise ValueError unless a request of `num_tokens`, prompt and new ones, fits; here all do."""

    def check_hidden(self):
        """Raise ValueError for a model that cannot give its final hidden states."""
        check_hidden(self.model)

    @torch.inference_mode()
    def prefill(self, ids, top_k=0, hidden=False):
        """Begin a request: run the prompt (int32 array of shape (n,)); return the Verification of its last token.

        hidden: with the final hidden states of all its tokens? ValueError for a model that cannot give them.
        """
        self._cache.reset()
        ids = torch.as_tensor(ids, dtype=torch.long, device=self.device)[None]
        logits, states = self._forward(ids, positions=None, mask=None, logits_to_keep=1, hidden=hidden)
        return read(logits, top_k, states)

    @torch.inference_mode()
    def verify(self, root, draft, top_k=0, hidden=False):
        """Run the last emitted token and a Draft below it; return the Verification of all 1 + len(draft).

        top_k: how many of the largest logits to name. hidden: with the final hidden states? The KV cache then holds all
        inputs: call `keep` before the next forward.
        """
        ids, positions, mask = self._inputs.place(root, draft, self.num_cached)
        logits, states = self._forward(ids, positions, mask, logits_to_keep=0, hidden=hidden)
        return read(logits, top_k, states)

    @torch.inference_mode()
    def keep(self, path):
        """Of the last verification's inputs keep `path` in the KV cache: ascending indices, 0 (the root) first.

        A path through a tree is moved together; what is behind it is cut off.
        """
        start = self.num_cached - self._verified
        gap = next((place for place, index in enumerate(path) if index != place), len(path))
        if gap < len(path):
            self._cache.move(self._inputs.indices([start + index for index in path[gap:]]), start + gap)
        if len(path) < self._verified:
            self._cache.truncate(start + len(path))
        self._verified = len(path)

    def _forward(self, ids, positions, mask, logits_to_keep, hidden):
        """(logits, final hidden states or None) of the inputs."""
        inputs = {"input_ids": ids, "position_ids": positions, self._cache_argument: self._cache}
        if self._keeps_logits:
            inputs["logits_to_keep"] = logits_to_keep
        with watched(self.model, hidden) as seen:
            output = self.model(attention_mask=mask, use_cache=True, **inputs)
        self.num_forwards += 1
        self._verified = ids.shape[1]
        logits = output.logits[0, -1:] if logits_to_keep else output.logits[0]
        return logits, seen[0] if hidden else None
