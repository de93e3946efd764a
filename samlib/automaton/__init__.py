"""The suffix automata: what followed the longest match. Knows token ids only; no torch."""

from samlib.automaton.draft import Draft
from samlib.automaton.dynamic import DynamicAutomaton
from samlib.automaton.static import Cursor, StaticAutomaton

__all__ = ["Cursor", "Draft", "DynamicAutomaton", "StaticAutomaton"]
