"""How many rounds fit the budget, and the memory of that decision, so that a second call resumes the same run."""

import dataclasses
import json

from samlib.bench.records import write_whole

MARGIN = 0.95  # of the budget: rounds differ in length


@dataclasses.dataclass
class Plan:
    """What was decided for a run: device-sized options at its start, the number of rounds after its first round."""

    device_options: dict
    rounds: int | None = None
    minutes: float | None = None
    overhead_seconds: float | None = None
    seconds_per_round: float | None = None

    def decide(self, minutes, profile, available):
        """Set the number of rounds from the measured seconds, unless it was decided for the same budget before."""
        if self.rounds is None or self.minutes != minutes:
            self.minutes = minutes
            self.rounds = rounds_within(
                minutes * 60,
                self.overhead_seconds,
                self.seconds_per_round,
                at_least=min(profile.min_rounds, available),
                at_most=min(profile.max_rounds, available),
            )

    def overrun(self):
        """One line that says by how much the least run exceeds its budget, or None where it fits."""
        needed = (self.overhead_seconds + self.rounds * self.seconds_per_round) / 60
        if needed <= self.minutes:
            return None
        least = f"{self.rounds} question{'s' if self.rounds > 1 else ''} of each task"
        return f"the least that is measured, {least}, takes about {needed:.0f} minutes here, not {self.minutes:g}"


class PlanFile:
    """A JSON file of plans, one a settings key, with the key that `table1.jsonl` belongs to at present."""

    def __init__(self, path):
        self.path = path
        content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        self.current = content.get("current")
        self._plans = content.get("plans", {})

    def get(self, key):
        """The Plan of these settings, or None."""
        return Plan(**self._plans[key]) if key in self._plans else None

    def save(self, key, plan):
        """Keep a plan and make its key the current one; atomic."""
        self.current = key
        self._plans[key] = dataclasses.asdict(plan)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path, json.dumps({"current": self.current, "plans": self._plans}, indent=1).encode())


def rounds_within(budget_seconds, overhead_seconds, seconds_per_round, *, at_least, at_most):
    """The number of rounds that fit the budget after the overhead, kept between `at_least` and `at_most`."""
    fitting = int((budget_seconds * MARGIN - overhead_seconds) // seconds_per_round)
    return max(at_least, min(at_most, fitting))
