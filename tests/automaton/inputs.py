"""Forms in which callers hand over ids, good and bad; shared by the tests of everything that takes tokens."""

import numpy as np
import pytest
import torch


def _read_only(ids):
    array = np.array(ids, dtype=np.int32)
    array.flags.writeable = False
    return array


def _strided(ids):
    spaced = np.full(2 * len(ids), 9, dtype=np.int32)
    spaced[::2] = ids
    return spaced[::2]


GOOD_FORMS = [
    pytest.param(list, id="list"),
    pytest.param(tuple, id="tuple"),
    pytest.param(lambda ids: range(ids[0], ids[-1] + 1), id="range"),
    pytest.param(lambda ids: [np.int64(i) for i in ids], id="numpy-scalars"),
    pytest.param(lambda ids: np.array(ids, dtype=np.uint8), id="uint8"),
    pytest.param(lambda ids: np.array(ids, dtype=np.int32), id="int32"),
    pytest.param(lambda ids: np.array(ids, dtype=np.uint32), id="uint32"),
    pytest.param(lambda ids: np.array(ids, dtype=np.int64), id="int64"),
    pytest.param(lambda ids: np.array(ids, dtype=">i4"), id="big-endian"),
    pytest.param(_read_only, id="read-only"),
    pytest.param(_strided, id="strided"),
    pytest.param(lambda ids: np.array(ids[::-1], dtype=np.int32)[::-1], id="reversed-view"),
    pytest.param(lambda ids: torch.tensor(ids), id="torch-int64"),
    pytest.param(lambda ids: torch.tensor(ids, dtype=torch.int32), id="torch-int32"),
]

# Every bad sequence begins with good ids: the error must come before any of them is taken.
BAD_FORMS = [
    pytest.param(-1, ValueError, id="negative"),
    pytest.param(2**31, ValueError, id="too-large"),
    pytest.param(2**70, ValueError, id="beyond-int64"),
    pytest.param([1, 2, -1], ValueError, id="negative-inside"),
    pytest.param([1, 2, 2**31], ValueError, id="too-large-inside"),
    pytest.param([1, 2, 2**70], ValueError, id="beyond-int64-inside"),
    pytest.param([1, 2, 2**63], ValueError, id="beyond-int64-by-one-inside"),
    pytest.param(np.array([1, 2, 2**32 + 3]), ValueError, id="would-wrap-to-3"),
    pytest.param(np.array([1, 2**32 - 1], dtype=np.uint32), ValueError, id="uint32-above"),
    pytest.param(np.array([1, 2**64 - 1], dtype=np.uint64), ValueError, id="uint64-above"),
    pytest.param(np.array([[1, 2], [1, 2]]), ValueError, id="two-rows"),
    pytest.param([[1, 2], [1, 2]], ValueError, id="nested-lists"),
    pytest.param(1.0, TypeError, id="float"),
    pytest.param([1, 2, 3.0], TypeError, id="floats-inside"),
    pytest.param(np.array([1.0, 2.0]), TypeError, id="float-array"),
    pytest.param(torch.tensor([1.0, 2.0]), TypeError, id="float-tensor"),
    pytest.param("12", TypeError, id="string"),
    pytest.param(b"12", TypeError, id="bytes"),
    pytest.param(["1", "2"], TypeError, id="strings-inside"),
    pytest.param([1, None], TypeError, id="none-inside"),
    pytest.param(None, TypeError, id="none"),
    pytest.param({1: 2}, TypeError, id="mapping"),
]
