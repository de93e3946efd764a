"""The methods by name, and the settings behind each name."""

import difflib
import inspect

from samlib.drafters.adaptive import AdaptiveDrafter
from samlib.drafters.pld import PromptLookup
from samlib.drafters.protocol import Drafter
from samlib.drafters.token_recycling import TokenRecycling


def _autoregressive(static, model):
    return Drafter()


def _pld(static, model, draft_size=10, max_ngram=3):
    return PromptLookup(_size("draft_size", draft_size), _size("max_ngram", max_ngram))


def _token_recycling(static, model, tree_size=60, k=8):
    return TokenRecycling(_size("tree_size", tree_size), _size("k", k))


def _sam(static, model, draft_size=40, l_bias=0, l_threshold=1):
    size = _size("draft_size", draft_size)
    l_bias, l_threshold = _integer("l_bias", l_bias), _integer("l_threshold", l_threshold)
    return AdaptiveDrafter(static, draft_size=size, l_bias=l_bias, l_threshold=l_threshold, scaled=True)


def _sam_token_recycling(static, model, draft_size=40, l_bias=5, l_threshold=5, tree_size=60, k=8):
    auxiliary = _token_recycling(static, model, tree_size, k)
    size = _size("draft_size", draft_size)
    l_bias, l_threshold = _integer("l_bias", l_bias), _integer("l_threshold", l_threshold)
    return AdaptiveDrafter(static, auxiliary, draft_size=size, l_bias=l_bias, l_threshold=l_threshold)


_FACTORIES = {
    "autoregressive": _autoregressive,
    "pld": _pld,
    "token_recycling": _token_recycling,
    "sam": _sam,
    "sam[t]": _sam_token_recycling,
}
METHODS = tuple(_FACTORIES)


def make_drafter(name, *, model=None, static=None, **options):
    """A new drafter of the method `name` (one of METHODS), at the paper's settings unless `options` say otherwise.

    static: a StaticAutomaton for the sam methods; without one they draft from the dynamic automaton only. model: the
    target model, for methods that need to know it.

    Options, all sizes in speculated tokens (the root is never counted): pld: draft_size=10, max_ngram=3.
    token_recycling: tree_size=60, k=8. sam: draft_size=40, l_bias=0, l_threshold=1. sam[t]: draft_size=40, l_bias=5,
    l_threshold=5, tree_size=60, k=8.

    Raises ValueError for an unknown method or a value out of range, TypeError for an unknown option.
    """
    if name not in _FACTORIES:
        raise ValueError(f"unknown method {name!r}{_nearest(name, METHODS)}; known: {', '.join(METHODS)}")
    factory = _FACTORIES[name]
    known = list(inspect.signature(factory).parameters)[2:]
    for option in options:
        if option not in known:
            raise TypeError(
                f"{name} has no option {option!r}{_nearest(option, known)}; its options: {', '.join(known) or 'none'}"
            )
    return factory(static, model, **options)


def _integer(name, value):
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}")
    return value.__index__()


def _size(name, value):
    if _integer(name, value) < 1:
        raise ValueError(f"{name} must be at least 1, not {value}")
    return _integer(name, value)


def _nearest(name, known):
    close = difflib.get_close_matches(str(name), known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
