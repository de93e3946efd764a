"""Whether a profile's samlib runs use CpuKernels, and the one set of them that a model has."""

import contextlib
import weakref

_kernels = weakref.WeakKeyDictionary()


def cpu_kernels(profile, model):
    """A context in which the model runs as the profile says: on its CpuKernels, or just as it is.

    They are made on first use (a second or two) and live as long as the model.
    """
    if not profile.cpu_kernels:
        return contextlib.nullcontext()
    if model not in _kernels:
        from samlib.decoding import CpuKernels

        _kernels[model] = CpuKernels(model)
    return _kernels[model]
