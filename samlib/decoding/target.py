"""The target model: the one place that knows Hugging Face's forward pass, masks and KV cache."""

import inspect

import numpy as np
import torch
from transformers import DynamicCache

from samlib.decoding.support import check_supported


class TargetModel:
    """A Hugging Face causal LM that verifies drafts, for one request at a time. Not thread-safe.

    Raises ValueError for a model that cannot be decoded losslessly here (see support.py).
    """

    def __init__(self, model):
        check_supported(model)
        self.model = model
        self.device = model.device
        self.dtype = model.dtype
        self.num_forwards = 0
        parameters = inspect.signature(model.forward).parameters
        self._cache_argument = "cache" if "cache" in parameters else "past_key_values"
        self._keeps_logits = "logits_to_keep" in parameters
        self._cache = DynamicCache()

    @property
    def num_cached(self):
        """Number of tokens in the KV cache."""
        return self._cache.get_seq_length()

    @torch.inference_mode()
    def prefill(self, ids):
        """Begin a request: run the prompt (int32 array of shape (n,)); return its last logits, shape (1, vocab)."""
        self._cache = DynamicCache()
        return self._forward(ids, positions=None, mask=None, logits_to_keep=1)

    @torch.inference_mode()
    def verify(self, root, draft):
        """Run the last emitted token and a Draft below it; return the logits of all, shape (1 + len(draft), vocab).

        The cache then holds them all: call `keep` before the next forward.
        """
        cached = self.num_cached
        ids = np.concatenate([[root], draft.tokens])
        if draft.is_chain:
            return self._forward(ids, np.arange(cached, cached + len(ids)), mask=None)
        positions = cached + np.concatenate([[0], draft.depths])
        return self._forward(ids, positions, self._tree_mask(draft.parents, cached))

    @torch.inference_mode()
    def keep(self, path):
        """Of the last verification's inputs keep `path` in the KV cache: ascending indices, 0 (the root) first.

        A path through a tree is moved together; what is behind it is cut off.
        """
        start = self.num_cached - self._verified
        end = start + len(path)
        moved = len(path) > 0 and path[-1] != len(path) - 1
        index = torch.tensor(path, device=self.device) + start if moved else None
        for layer in self._cache.layers:
            if moved:
                layer.keys[..., start:end, :] = layer.keys[..., index, :]
                layer.values[..., start:end, :] = layer.values[..., index, :]
            if len(path) < self._verified:
                layer.keys = layer.keys[..., :end, :]
                layer.values = layer.values[..., :end, :]
        self._verified = len(path)

    def _forward(self, ids, positions, mask, logits_to_keep=0):
        inputs = {"input_ids": torch.as_tensor(ids, dtype=torch.long, device=self.device)[None]}
        if positions is not None:
            inputs["position_ids"] = torch.as_tensor(positions, dtype=torch.long, device=self.device)[None]
        if self._keeps_logits:
            inputs["logits_to_keep"] = logits_to_keep
        inputs[self._cache_argument] = self._cache
        output = self.model(attention_mask=mask, use_cache=True, **inputs)
        self.num_forwards += 1
        self._verified = len(ids)
        return output.logits[0, -logits_to_keep:]

    def _tree_mask(self, parents, cached):
        """Additive mask, shape (1, 1, 1 + n, cached + 1 + n): a node sees the cache, the root, ancestors, itself."""
        n = len(parents) + 1
        sees = np.eye(n, dtype=bool)
        sees[:, 0] = True
        for node, parent in enumerate(parents.tolist(), start=1):
            sees[node] |= sees[parent + 1]
        mask = torch.zeros((1, 1, n, cached + n), dtype=self.dtype, device=self.device)
        hidden = torch.from_numpy(~sees).to(self.device)
        mask[0, 0, :, cached:].masked_fill_(hidden, torch.finfo(self.dtype).min)
        return mask
