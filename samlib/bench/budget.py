"""What fits the budget: how many rounds, and which lines; remembered, so that a second call resumes the same run.

The first round measures every line. If the least number of rounds then does not fit, the slowest lines are left out of
the others, and shown as not run.
"""

import dataclasses
import json

from samlib.bench.records import write_whole

MARGIN = 0.95  # of the budget: rounds differ in length


@dataclasses.dataclass
class Plan:
    """What was decided for a run: device-sized options at its start; after its first round the rest.

    seconds: {line: seconds of the first round}. rounds: how many rounds there are in all, the first included. left_out:
    the lines that the other rounds do without.
    """

    device_options: dict
    rounds: int | None = None
    minutes: float | None = None
    overhead_seconds: float | None = None
    seconds: dict | None = None
    left_out: list = dataclasses.field(default_factory=list)

    def decide(self, minutes, *, at_least, at_most, essential=()):
        """Set rounds and lines from the measured seconds, unless they were decided for the same budget before.

        essential: lines that are never left out.
        """
        if self.rounds is not None and self.minutes == minutes:
            return
        self.minutes = minutes
        left = minutes * 60 * MARGIN - self.overhead_seconds - sum(self.seconds.values())
        further = at_least - 1
        kept = lines_within(left / further, self.seconds, essential) if further else list(self.seconds)
        self.left_out = [line for line in self.seconds if line not in kept]
        self.rounds = max(at_least, min(at_most, 1 + int(left // self.seconds_per_round())))

    def seconds_per_round(self):
        """Seconds of a round after the first."""
        return max(1e-3, sum(seconds for line, seconds in self.seconds.items() if line not in self.left_out))

    def overrun(self):
        """One line that says by how much the least run exceeds its budget, or None where it fits."""
        further = (self.rounds - 1) * self.seconds_per_round()
        needed = (self.overhead_seconds + sum(self.seconds.values()) + further) / 60
        if needed <= self.minutes:
            return None
        least = f"{self.rounds} question{'s' if self.rounds > 1 else ''} of each task"
        return f"the least that is measured, {least}, takes about {needed:.0f} minutes here, not {self.minutes:g}"

    def not_run(self):
        """What was left out, as {line: words for a reader}."""
        further = self.rounds - 1
        return {line: f"needs about {self.seconds[line] * further / 60:.1f} minutes more" for line in self.left_out}


class PlanFile:
    """A JSON file of plans, one a settings key, with the key that the run's records belong to at present."""

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


def lines_within(budget_seconds, seconds, essential):
    """Those of the lines {name: seconds a round} that fit together: the essential ones, then the cheapest first."""
    kept = [line for line in seconds if line in essential]
    left = budget_seconds - sum(seconds[line] for line in kept)
    for line in sorted((line for line in seconds if line not in kept), key=seconds.get):
        left -= seconds[line]
        if left < 0:
            break
        kept.append(line)
    return kept
