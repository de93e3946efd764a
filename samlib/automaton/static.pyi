from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Literal, overload

import numpy as np
from numpy.typing import NDArray

from samlib.automaton.draft import Draft

Ids = Sequence[int] | NDArray[np.integer]

class StaticAutomaton:
    vocab_size: int | None
    fingerprint: str | None
    path: str | None
    @staticmethod
    def build(
        documents: Iterable[Ids],
        *,
        vocab_size: int | None = None,
        fingerprint: str | None = None,
        progress: bool = False,
    ) -> StaticAutomaton: ...
    @classmethod
    def from_texts(cls, texts: Iterable[str], tokenizer, *, progress: bool = False) -> StaticAutomaton: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    @staticmethod
    def load(
        path: str | PathLike[str],
        *,
        mmap: bool = True,
        verify: bool = False,
        vocab_size: int | None = None,
        fingerprint: str | None = None,
    ) -> StaticAutomaton: ...
    def cursor(self, *, max_match_length: int | None = None) -> Cursor: ...
    def __len__(self) -> int: ...
    @property
    def num_documents(self) -> int: ...
    @property
    def num_states(self) -> int: ...
    @property
    def nbytes(self) -> int: ...

class Cursor:
    automaton: StaticAutomaton
    def __init__(self, automaton: StaticAutomaton, max_match_length: int | None = None) -> None: ...
    def advance(self, tokens: int | Ids) -> None: ...
    @property
    def match_length(self) -> int: ...
    def draft(self, n: int, *, choice: Literal["first", "latest", "frequent"] = "first") -> NDArray[np.int32]: ...
    @overload
    def draft_tree(
        self,
        n: int,
        *,
        max_depth: int | None = None,
        min_probability: float = 0.0,
        return_probabilities: Literal[False] = False,
    ) -> Draft: ...
    @overload
    def draft_tree(
        self,
        n: int,
        *,
        max_depth: int | None = None,
        min_probability: float = 0.0,
        return_probabilities: Literal[True],
    ) -> tuple[Draft, NDArray[np.float64]]: ...
    def reset(self) -> None: ...
