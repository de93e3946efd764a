"""Where a block of emitted tokens ends: EOS, a stop string, or the room that is left."""

import torch
from transformers import StopStringCriteria


class Stopping:
    """Cuts emitted blocks; holds the tokens of one request.

    eos_ids: set of ids, possibly empty. limit: number of new tokens at most; limit_reason: what is reported when it is
    reached ("length" or "context"). Stop strings are found by Hugging Face's own criterion, token by token, so that
    they end a text exactly where `generate` ends it.
    """

    def __init__(self, prompt, eos_ids, limit, limit_reason, stop_strings=None, tokenizer=None):
        self.tokens = []
        self.finish_reason = None
        self._eos_ids = eos_ids
        self._limit = limit
        self._limit_reason = limit_reason
        self._criterion = None
        if stop_strings:
            self._criterion = StopStringCriteria(tokenizer, stop_strings)
            self._tail = torch.as_tensor(prompt[-self._criterion.maximum_token_len :], dtype=torch.long)[None]

    @property
    def room(self):
        """How deep a draft can be: the tokens still to come, less the target's own."""
        return max(self._limit - len(self.tokens) - 1, 0)

    def take(self, emitted):
        """Add the emitted tokens up to the first stop; return those taken, and set `finish_reason` if it is reached."""
        taken = []
        for token in emitted:
            taken.append(token)
            self.tokens.append(token)
            self.finish_reason = self._reason(token)
            if self.finish_reason:
                break
        return taken

    def _reason(self, token):
        if token in self._eos_ids:
            return "eos"
        if self._criterion is not None and self._completes_stop_string(token):
            return "stop"
        return self._limit_reason if len(self.tokens) >= self._limit else None

    def _completes_stop_string(self, token):
        """The criterion looks at no more than the last tokens, so these alone are kept."""
        tail = torch.cat([self._tail, torch.tensor([[token]])], dim=1)
        self._tail = tail[:, -self._criterion.maximum_token_len :]
        return bool(self._criterion(self._tail, None).all())
