"""What the loads of one cheaper level come to, for one trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tuner.load.plan import Plan
from tuner.load.run import LoadResult
from tuner.score.gates import Gate
from tuner.score.measure import measure
from tuner.score.objective import WEIGHTED, Objective
from tuner.score.official import Weights
from tuner.score.rank import Standing, stand
from tuner.spec.space import Load
from tuner.trial.outcome import Measured, weights_of_loads
from tuner.trial.settled import SettledWatch


@dataclass(slots=True)
class LevelLoad:
    """Takes the loads of a level in, one after the other.

    Attributes:
        gates: What figures are held against.
        weights: What a token is worth.
        objective: What the score is.
        settles: Whether its loads end as soon as they have settled.
        seconds: How long they took together.
        settled: Why loads ended before their end, by name.
    """

    gates: Sequence[Gate]
    weights: Weights
    settles: bool
    objective: Objective = WEIGHTED
    seconds: float = 0.0
    settled: dict[str, str] = field(default_factory=dict)
    _standings: dict[str, Standing] = field(default_factory=dict)

    def watch(self, plan: Plan) -> SettledWatch | None:
        """What ends a load of this level early; None where nothing does."""
        if not self.settles:
            return None
        return SettledWatch(plan, self.gates, self.weights, self.objective)

    def take(self, result: LoadResult, watch: SettledWatch | None) -> None:
        """Take in a load that is over."""
        if watch is not None and watch.why is not None:
            self.settled[result.workload] = watch.why
            self.seconds += watch.wall_s
            self._standings[result.workload] = watch.standing()
            return
        self.seconds += result.wall_s
        limits, leading = self.objective.limits, self.objective.leading
        found = measure(result.records, wall_s=result.wall_s, since=result.since, limits=limits)
        self._standings[result.workload] = stand(found, self.gates, self.weights, objective=leading)

    def measured(self, loads: Sequence[Load]) -> Measured:
        """All loads of the level together.

        Args:
            loads: The workloads that are asked on it.
        """
        return Measured(self._standings, weights_of_loads(loads), self.objective)

    def as_json(self, measured: Measured) -> dict[str, Any]:
        """What the ledger keeps of it with the trial."""
        return {
            "score": measured.comparable,
            "seconds": round(self.seconds, 3),
            "settled": dict(self.settled),
            "workloads": measured.as_json()["workloads"],
        }
