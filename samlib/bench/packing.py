"""Whether a profile's samlib runs use packed linear layers, and the one set of them that a model has."""

import contextlib
import weakref

_packed = weakref.WeakKeyDictionary()


def packing(profile, model):
    """A context in which the model runs as the profile says: on packed linear layers, or just as it is.

    The packed layers are made on first use (a second or two) and live as long as the model.
    """
    if not profile.packed:
        return contextlib.nullcontext()
    if model not in _packed:
        from samlib.decoding import PackedLinears

        _packed[model] = PackedLinears(model)
    return _packed[model]
