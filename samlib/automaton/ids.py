"""Token ids as they cross into the automata: checked once, here, with readable errors."""

import numpy as np

MAX_TOKEN_ID = 2**31 - 1


def as_ids(tokens):
    """Return `tokens` as a contiguous int32 array of shape (n,).

    Accepts one integer, or a one-dimensional sequence, array or tensor of integers.

    Raises:
        TypeError: if the ids are not integers.
        ValueError: if the input has more than one dimension, or an id lies outside [0, 2**31 - 1].
    """
    if isinstance(tokens, np.ndarray) and tokens.dtype == np.int32 and tokens.ndim == 1:
        ids = np.ascontiguousarray(tokens)
    else:
        ids = _as_integers(tokens)
    if ids.size and (int(ids.min()) < 0 or int(ids.max()) > MAX_TOKEN_ID):
        wrong = ids[(ids < 0) | (ids > MAX_TOKEN_ID)][0]
        raise ValueError(f"token id {wrong} is outside [0, 2**31 - 1]")
    return ids.astype(np.int32, copy=False)


def _as_integers(tokens):
    if isinstance(tokens, (str, bytes, bool)):
        raise TypeError(f"token ids must be integers, not {type(tokens).__name__}: tokenize the text first")
    try:
        ids = np.asarray(tokens)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"token ids must form a one-dimensional sequence ({error})") from None
    if ids.ndim == 0:
        ids, tokens = ids.reshape(1), [tokens]
    if ids.ndim != 1:
        raise ValueError(f"token ids must be one-dimensional, not of shape {ids.shape}")
    if ids.size == 0 and not isinstance(tokens, np.ndarray):
        return np.empty(0, dtype=np.int32)
    if ids.dtype.kind in "iu":
        return np.ascontiguousarray(ids)
    if not isinstance(tokens, np.ndarray) and all(type(i) is int for i in tokens):
        return np.array(tokens, dtype=object)  # integers too large for int64: out of range, but integers
    raise TypeError(f"token ids must be integers, not {ids.dtype}")


def check_draft_size(n):
    """Return `n` as an int; a negative one is a ValueError, a non-integer a TypeError."""
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise TypeError(f"the draft size must be an integer, not {type(n).__name__}")
    n = n.__index__()
    if n < 0:
        raise ValueError(f"the draft size must not be negative: {n}")
    return n
