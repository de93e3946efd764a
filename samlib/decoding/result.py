"""What a request returns: the tokens, and how each step came by them."""

import math
from dataclasses import dataclass, field

PHASES = ("prefill", "draft", "verify", "update", "total")


@dataclass(frozen=True, slots=True)
class Step:
    """One verification forward.

    tokens: ids emitted. drafted, accepted: number of tokens proposed, and of those emitted. source: who proposed them
    ("dynamic", "static", "token_recycling", "pld", … or "none"). match_length: of the match behind the draft.
    """

    tokens: list[int]
    drafted: int
    accepted: int
    source: str
    match_length: int = 0


@dataclass(slots=True)
class Generation:
    """The result of a request.

    tokens: new ids only. steps: one for each forward after the prefill, so that len(tokens) == 1 + sum of the steps'
    tokens. finish_reason: "eos", "stop", "length" or "context". timings: seconds by phase (prefill, draft, verify,
    update, total).
    """

    tokens: list[int] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    num_target_forwards: int = 0
    finish_reason: str = "length"
    timings: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))

    @property
    def mean_accepted_tokens(self):
        """Tokens emitted a step, the bonus token included (the paper's MAT); nan without a step."""
        return sum(len(step.tokens) for step in self.steps) / len(self.steps) if self.steps else math.nan
