"""Token ids as they cross into the automata: checked once, here, with readable errors.

The usual forms, a list of ints and an int32 array, are checked in C; all others by numpy.
"""

cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t

import numpy as np

from samlib.automaton.arrays cimport ids_of, new_ids, small_int

cnp.import_array()

MAX_TOKEN_ID = 2**31 - 1
MAX_DRAFT = 2**31 - 1


def as_ids(tokens):
    """Return `tokens` as a contiguous int32 array of shape (n,).

    Accepts one integer, or a one-dimensional sequence, array or tensor of integers. A bool is not an id.

    Raises:
        TypeError: if the ids are not integers.
        ValueError: if the input has more than one dimension, or an id lies outside [0, 2**31 - 1].
    """
    ids = None
    if isinstance(tokens, (list, tuple)):
        ids = _from_ints(tokens)
    elif isinstance(tokens, np.ndarray) and tokens.dtype == np.int32 and tokens.ndim == 1:
        ids = np.ascontiguousarray(tokens, dtype=np.int32)
    if ids is None:
        ids = _as_integers(tokens)
    elif not _any_negative(ids):
        return ids
    if ids.size and (int(ids.min()) < 0 or int(ids.max()) > MAX_TOKEN_ID):
        wrong = ids[(ids < 0) | (ids > MAX_TOKEN_ID)][0]
        raise ValueError(f"token id {wrong} is outside [0, 2**31 - 1]")
    return ids.astype(np.int32, copy=False)


cdef _from_ints(tokens):
    """The ids of a list or tuple of plain ints in range; None for any other, which numpy is then to look at."""
    cdef Py_ssize_t i
    cdef Py_ssize_t n = len(tokens)
    cdef int64_t token
    cdef cnp.ndarray ids = new_ids(n)
    cdef int32_t* out = ids_of(ids)
    for i in range(n):
        token = small_int(tokens[i])
        if token < 0:
            return None
        out[i] = <int32_t>token
    return ids


cdef bint _any_negative(cnp.ndarray ids) noexcept:
    """Whether an id of a contiguous int32 array is negative."""
    cdef const int32_t* token = ids_of(ids)
    cdef int32_t signs = 0
    cdef int64_t i
    for i in range(cnp.PyArray_SIZE(ids)):
        signs |= token[i]
    return signs < 0


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
    if ids.dtype.kind in "iu" and not _holds_a_bool(tokens):
        return np.ascontiguousarray(ids)
    if not isinstance(tokens, np.ndarray) and all(type(i) is int for i in tokens):
        return np.array(tokens, dtype=object)  # integers too large for int64: out of range, but integers
    raise TypeError(f"token ids must be integers, not {'bool' if _holds_a_bool(tokens) else ids.dtype}")


def _holds_a_bool(tokens):
    """Whether a sequence that is no array holds a bool, which numpy would take for 0 or 1."""
    return not hasattr(tokens, "dtype") and not {bool, np.bool_}.isdisjoint(map(type, tokens))


def check_limit(name, value):
    """Return a limit as an int, clipped to 2**31 - 1, which also stands for None, no limit.

    Raises ValueError for one below 1, TypeError for one that is not an integer.
    """
    if value is None:
        return MAX_DRAFT
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer or None, not {type(value).__name__}")
    if value.__index__() < 1:
        raise ValueError(f"{name} must be at least 1, not {value}")
    return min(value.__index__(), MAX_DRAFT)


def check_number(name, value, low, high):
    """Return a number as a float; one outside low … high, or nan, is a ValueError, what is no number a TypeError."""
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}")
    if not low <= float(value) <= high:
        raise ValueError(f"{name} must lie in {low} … {high}, not {value}")
    return float(value)


def check_draft_size(n, *, exact=False):
    """Return the draft size `n` as an int; a negative one is a ValueError, a non-integer a TypeError.

    A size above MAX_DRAFT, longer than any text, is clipped to it; with `exact`, where that would change the draft, it
    is a ValueError.
    """
    if isinstance(n, (bool, np.bool_)) or not hasattr(n, "__index__"):
        raise TypeError(f"the draft size must be an integer, not {type(n).__name__}")
    n = n.__index__()
    if n < 0:
        raise ValueError(f"the draft size must not be negative: {n}")
    if exact and n > MAX_DRAFT:
        raise ValueError(f"a draft of {n} tokens is too long: ask for at most 2**31 - 1")
    return min(n, MAX_DRAFT)
