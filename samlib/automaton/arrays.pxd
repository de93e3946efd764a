"""Between Python's objects and arrays of token ids, without what np.empty, memoryviews and comparisons cost.

A module that cimports this must call `cimport numpy` and `numpy.import_array()` itself.
"""

cimport numpy as cnp
from cpython.long cimport PyLong_AsLongLongAndOverflow
from libc.stdint cimport int32_t, int64_t


cdef inline int64_t small_int(value) noexcept:
    """The value of an int in [0, 2**31 - 1]; negative for anything else, which is then to be looked at more closely."""
    cdef int overflow = 0
    cdef int64_t number
    if type(value) is not int:
        return -1
    number = PyLong_AsLongLongAndOverflow(value, &overflow)
    return number if overflow == 0 and number <= 2147483647 else -1


cdef inline cnp.ndarray new_ids(int64_t n):
    """An int32 array of shape (n,), uninitialised; the caller's own."""
    cdef cnp.npy_intp shape = n
    return cnp.PyArray_EMPTY(1, &shape, cnp.NPY_INT32, 0)


cdef inline int32_t* ids_of(cnp.ndarray array) noexcept:
    """Where the ids of a contiguous int32 array lie."""
    return <int32_t*>cnp.PyArray_DATA(array)


cdef inline void* address_of(cnp.ndarray array) noexcept:
    """Where the entries of a contiguous array lie."""
    return cnp.PyArray_DATA(array)
