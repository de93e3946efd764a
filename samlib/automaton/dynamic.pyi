from collections.abc import Sequence
from typing import Literal, overload

import numpy as np
from numpy.typing import NDArray

from samlib.automaton.draft import Draft

class DynamicAutomaton:
    def __init__(self, *, occurrences: bool = False) -> None: ...
    def extend(self, tokens: int | Sequence[int] | NDArray[np.integer]) -> None: ...
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
    def __len__(self) -> int: ...
    @property
    def num_states(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def states(self) -> list[dict]: ...
