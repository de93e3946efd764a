"""SAM-Decoding: lossless speculative decoding with suffix automata (arXiv 2411.10666).

The automata and drafters load at once; what needs torch and transformers (`generate`, `stream`) loads on first use.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from samlib.automaton import Cursor, Draft, DynamicAutomaton, StaticAutomaton
from samlib.drafters import METHODS, Drafter, make_drafter
from samlib.errors import FingerprintError, IndexFormatError, MissingAssetError, SetupError

try:
    __version__ = version("samlib")
except PackageNotFoundError:  # a source tree that was built in place but not installed
    __version__ = "unknown"

_LAZY = {
    name: "samlib.decoding" for name in ("CapturedForwards", "CpuKernels", "Generation", "Step", "generate", "stream")
}

__all__ = [
    "METHODS",
    "CapturedForwards",
    "CpuKernels",
    "Cursor",
    "Draft",
    "Drafter",
    "DynamicAutomaton",
    "FingerprintError",
    "Generation",
    "IndexFormatError",
    "MissingAssetError",
    "SetupError",
    "StaticAutomaton",
    "Step",
    "generate",
    "make_drafter",
    "stream",
]


def __getattr__(name):
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'samlib' has no attribute {name!r}")
