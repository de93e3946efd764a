"""The methods by name, and the settings behind each name."""

import difflib
import inspect
import math

from samlib.automaton.ids import check_number
from samlib.drafters.acceptance import LEARNING_RATE
from samlib.drafters.adaptive import AdaptiveDrafter
from samlib.drafters.auto import MAX_SIZE as MAX_AUTO_SIZE
from samlib.drafters.auto import SamAuto
from samlib.drafters.lookahead import Lookahead
from samlib.drafters.pld import PromptLookup
from samlib.drafters.protocol import Drafter
from samlib.drafters.rest import Rest
from samlib.drafters.suffix_decoding import SuffixDecoding
from samlib.drafters.token_recycling import TokenRecycling


def _autoregressive(static, model):
    return Drafter()


def _pld(static, model, draft_size=10, max_ngram=3):
    return PromptLookup(_size("draft_size", draft_size), _size("max_ngram", max_ngram))


def _rest(static, model, draft_size=64, max_ngram=16, min_ngram=2, continuation=10):
    sizes = {"draft_size": draft_size, "max_ngram": max_ngram, "min_ngram": min_ngram, "continuation": continuation}
    return Rest(static, **{name: _size(name, value) for name, value in sizes.items()})


def _lookahead(static, model, window=7, ngram=5, guesses=7):
    return Lookahead(_size("window", window), _integer("ngram", ngram), _size("guesses", guesses))


def _token_recycling(static, model, tree_size=60, k=8):
    return TokenRecycling(_size("tree_size", tree_size), _size("k", k))


def _eagle(static, model, head=None, tree_size=25, vocabulary=None):
    from samlib.drafters.eagle import Eagle  # loads torch

    return Eagle(model, head, _size("tree_size", tree_size), vocabulary)


def _eagle2(static, model, head=None, tree_size=59, depth=6, top_k=10, vocabulary=None):
    from samlib.drafters.eagle import Eagle2  # loads torch

    size, depth, top_k = _size("tree_size", tree_size), _size("depth", depth), _size("top_k", top_k)
    return Eagle2(model, head, size, depth, top_k, vocabulary)


def _sam(static, model, draft_size=40, l_bias=0, l_threshold=1):
    size = _size("draft_size", draft_size)
    l_bias, l_threshold = _integer("l_bias", l_bias), _integer("l_threshold", l_threshold)
    return AdaptiveDrafter(static, draft_size=size, l_bias=l_bias, l_threshold=l_threshold, scaled=True)


def _sam_token_recycling(static, model, draft_size=40, l_bias=5, l_threshold=5, tree_size=60, k=8):
    return _adaptive(static, _token_recycling(static, model, tree_size, k), draft_size, l_bias, l_threshold)


def _sam_eagle(static, model, draft_size=40, l_bias=5, l_threshold=5, head=None, tree_size=25, vocabulary=None):
    return _adaptive(static, _eagle(static, model, head, tree_size, vocabulary), draft_size, l_bias, l_threshold)


def _sam_eagle2(
    static,
    model,
    draft_size=40,
    l_bias=5,
    l_threshold=5,
    head=None,
    tree_size=59,
    depth=6,
    top_k=10,
    vocabulary=None,
):
    auxiliary = _eagle2(static, model, head, tree_size, depth, top_k, vocabulary)
    return _adaptive(static, auxiliary, draft_size, l_bias, l_threshold)


def _adaptive(static, auxiliary, draft_size, l_bias, l_threshold):
    size = _size("draft_size", draft_size)
    l_bias, l_threshold = _integer("l_bias", l_bias), _integer("l_threshold", l_threshold)
    return AdaptiveDrafter(static, auxiliary, draft_size=size, l_bias=l_bias, l_threshold=l_threshold)


def _suffix_decoding(static, model, draft_size=64, max_spec_factor=1.0, min_token_prob=0.1, max_match_length=64):
    size, length = _size("draft_size", draft_size), _size("max_match_length", max_match_length)
    factor = check_number("max_spec_factor", max_spec_factor, 0, math.inf)
    return SuffixDecoding(static, size, factor, check_number("min_token_prob", min_token_prob, 0, 1), length)


def _sam_auto(static, model, draft_size=MAX_AUTO_SIZE, cost=None, rate=LEARNING_RATE):
    if _size("draft_size", draft_size) > MAX_AUTO_SIZE:
        raise ValueError(f"draft_size must lie in 1 … {MAX_AUTO_SIZE}, not {draft_size}")
    return SamAuto(static, draft_size.__index__(), cost, check_number("rate", rate, 0, math.inf))


_FACTORIES = {
    "autoregressive": _autoregressive,
    "pld": _pld,
    "rest": _rest,
    "lookahead": _lookahead,
    "token_recycling": _token_recycling,
    "eagle": _eagle,
    "eagle2": _eagle2,
    "sam": _sam,
    "sam[t]": _sam_token_recycling,
    "sam[e]": _sam_eagle,
    "sam[e2]": _sam_eagle2,
    "suffix_decoding": _suffix_decoding,
    "sam_auto": _sam_auto,
}
METHODS = tuple(_FACTORIES)


def needs_head(name):
    """True of a method that drafts with an EAGLE head: it has the option `head`. False for what is no method."""
    return name in _FACTORIES and "head" in inspect.signature(_FACTORIES[name]).parameters


def make_drafter(name, *, model=None, static=None, **options):
    """A new drafter of the method `name` (one of METHODS), at the paper's settings unless `options` say otherwise.

    static: a StaticAutomaton, which rest needs; without one the sam methods and suffix_decoding draft from the dynamic
    automaton only. model: the target model, for methods that need to know it.

    Options, all sizes in speculated tokens (the root is never counted):
    pld: draft_size=10, max_ngram=3. rest: draft_size=64, max_ngram=16, min_ngram=2, continuation=10 (levels of the
    tree). lookahead: window=7, ngram=5, guesses=7 (a draft has at most (window + guesses) * (ngram - 1) tokens).
    token_recycling: tree_size=60, k=8. eagle: head=None (the folder of an EAGLE head in the official format; None for
    the one that is shipped for the model), tree_size=25, vocabulary=None (the ids that are drafted, or how many of the
    most frequent ones, as the head's vocabulary.json ranks them; None for all). eagle2: head=None, tree_size=59,
    depth=6 (levels of the tree), top_k=10, vocabulary=None. sam: draft_size=40, l_bias=0, l_threshold=1. sam[t],
    sam[e], sam[e2]: draft_size=40, l_bias=5, l_threshold=5, and the options of token_recycling, eagle or eagle2.
    suffix_decoding: draft_size=64, max_spec_factor=1.0 (tokens drafted at most for each token of the match),
    min_token_prob=0.1 (of a node's path), max_match_length=64. sam_auto: draft_size=64 (at most), cost=None (what says
    how long a forward over n tokens takes, with a method `seconds(n, context)`; None: measured at the model's first
    request, in about the time of fifty forwards), rate=0.1 (of learning; 0 for none).

    Raises ValueError for an unknown method or a value out of range, TypeError for an unknown option or a value of the
    wrong type, MissingAssetError where the method needs what is not there.
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
