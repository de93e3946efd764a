"""Who proposes: one module a system of the paper, all behind one small protocol."""

from samlib.drafters.protocol import Drafter, Verified
from samlib.drafters.registry import METHODS, make_drafter

__all__ = ["METHODS", "Drafter", "Verified", "make_drafter"]
