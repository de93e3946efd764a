"""Profiles: which model, which data, how long. One YAML file a profile in `samlib/bench/profiles/`."""

import dataclasses
import difflib
from pathlib import Path

from samlib.errors import SetupError

FOLDER = Path(__file__).resolve().parent / "profiles"

_ADAPTIVE = {"draft_size": 40, "l_bias": 5, "l_threshold": 5}
_EAGLE = {"tree_size": 25, "vocabulary": None}
_EAGLE2 = {"tree_size": 59, "depth": 6, "top_k": 10, "vocabulary": None}

#: The settings behind a method's name in the paper (suffix_decoding's: its own authors'; sam_auto, which is not in it,
#: has a limit only); every size counts speculated tokens, never the root. vocabulary: the ids drafted, None for all.
PAPER_SETTINGS = {
    "pld": {"draft_size": 10, "max_ngram": 3},
    "rest": {"draft_size": 64, "max_ngram": 16, "min_ngram": 2, "continuation": 10},
    "lookahead": {"window": 7, "ngram": 5, "guesses": 7},
    "token_recycling": {"tree_size": 60, "k": 8},
    "eagle": _EAGLE,
    "eagle2": _EAGLE2,
    "sam": {"draft_size": 40, "l_bias": 0, "l_threshold": 1},
    "sam[t]": _ADAPTIVE | {"tree_size": 60, "k": 8},
    "sam[e]": _ADAPTIVE | _EAGLE,
    "sam[e2]": _ADAPTIVE | _EAGLE2,
    "suffix_decoding": {"draft_size": 64, "max_spec_factor": 1.0, "min_token_prob": 0.1, "max_match_length": 64},
    "sam_auto": {"draft_size": 64},
}


@dataclasses.dataclass(frozen=True)
class Profile:
    """Everything that a run depends on besides the code and the machine.

    `minutes` is the budget of Tables 1, 2 and 3 together. A *round* is one question of every task; `min_rounds` is the
    least number of them, by run (see tables.py). `datasets`: the benchmarks that are measured. `cpu_kernels`: samlib's
    own runs use CpuKernels. `threads` 0 means all cores, unless fewer are clearly faster (see threads.py),
    `static_documents` None the whole corpus. `automaton_tokens`: the size of the corpus for the automata at scale.
    `cost_contexts`: the tokens in the KV cache at which a forward's cost is measured; the first is the main one, which
    sets draft sizes. `paper` and `device_sized` list the methods of the tables' two blocks, `ablated` those that
    Table 3 takes apart, `references` transformers' own methods beside the oracle.
    """

    name: str
    model: str
    dtype: str
    attention: str
    cpu_kernels: bool
    device: str
    threads: int
    max_new_tokens: int
    warmup_tokens: int
    minutes: float
    min_rounds: dict[str, int]
    max_rounds: int
    seed: int
    datasets: tuple[str, ...]
    static_documents: int | None
    paper: tuple[str, ...]
    device_sized: tuple[str, ...]
    ablated: tuple[str, ...]
    references: tuple[str, ...]
    cost_widths: tuple[int, ...]
    cost_contexts: tuple[int, ...]
    cost_repeats: int
    automaton_tokens: int

    def parameters(self):
        """The fields as plain JSON types, for keys and manifests."""
        return {name: _plain(value) for name, value in dataclasses.asdict(self).items()}


def profile_names():
    """The names of the known profiles, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load_profile(profile="cpu"):
    """Return the Profile of that name (a Profile is returned as it is); SetupError names the known ones."""
    if isinstance(profile, Profile):
        return profile
    if profile not in profile_names():
        raise SetupError(_unknown_profile(profile))
    fields = _read(profile)
    known = {field.name for field in dataclasses.fields(Profile)} - {"name"}
    if set(fields) != known:
        wrong = ", ".join(sorted(known ^ set(fields)))
        raise SetupError(f"profile {profile!r}: fields missing or unknown: {wrong}; see {FOLDER / (profile + '.yaml')}")
    return Profile(name=profile, **{name: _frozen(value) for name, value in fields.items()})


def _read(name):
    """The fields of one YAML file laid over those of the profile that it extends."""
    import yaml

    fields = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    base = fields.pop("extends", None)
    return (_read(base) | fields) if base else fields


def _unknown_profile(name):
    near = difflib.get_close_matches(str(name), profile_names(), n=1, cutoff=0.5)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"unknown profile {name!r}{hint}; known profiles: {', '.join(profile_names())}"


def _frozen(value):
    return tuple(value) if isinstance(value, list) else value


def _plain(value):
    return list(value) if isinstance(value, tuple) else value
