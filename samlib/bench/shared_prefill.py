"""One prefill a prompt: it is the same forward for every method of samlib's, so that it is made once.

Its time counts for each of them, as if each had made it. This saves a third of a run's time, which goes into more
questions, and takes the noise of the longest forward out of the ratios between methods.
"""

import time

import numpy as np

from samlib.decoding import TargetModel, served_by
from samlib.decoding.forward import synchronise


class SharedPrefill(TargetModel):
    """The TargetModel of one request after the other; a prompt that it has just served is not run again.

    A request only appends to the KV cache of its prompt, so that cutting it back restores it. saved: the seconds that
    the present request did not need, 0.0 where it made its own prefill. hidden: keep the hidden states of every prompt,
    so that one forward also serves the requests that ask for them. Not thread-safe.
    """

    def __init__(self, model, hidden=False):
        super().__init__(model)
        self.saved = 0.0
        self._keeps_hidden = hidden
        self._prompt, self._verification, self._seconds = None, None, 0.0

    def serving(self):
        """A context in which all requests to the model are served by this one target."""
        return served_by(self.model, lambda _: self)

    def forget(self):
        """Make the next prefill in any case."""
        self._prompt = None

    def prefill(self, ids, top_k=0, hidden=False):
        """As TargetModel's; from the second request with the same prompt (and no `top_k`) without a forward."""
        hidden = hidden or self._keeps_hidden
        known = self._prompt is not None and np.array_equal(ids, self._prompt)
        if top_k or not known or (hidden and self._verification.hidden is None):
            self._prompt = None  # should the forward fail, the cache holds nothing to go back to
            return self._run(ids, top_k, hidden)
        self._cache.truncate(len(ids))
        self.saved = self._seconds
        return self._verification

    def _run(self, ids, top_k, hidden):
        synchronise(self.model)
        start = time.perf_counter()
        self._verification = super().prefill(ids, top_k, hidden)
        synchronise(self.model)
        self._prompt, self._seconds, self.saved = np.array(ids), time.perf_counter() - start, 0.0
        return self._verification
