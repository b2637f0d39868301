"""Cheaper levels of the same question: candidates climb, and a level that misleads is retired.

A search space may declare levels: a shorter load, fewer conversations, a smaller context, one load
of several. Many candidates are measured on the cheapest, the promising ones on the next, finalists
on the real one. The baseline and a few anchors are measured on all levels, so that this study
itself shows by how much a level is off and whether it orders as the real one does. Until that is
shown, and for good once it is refuted, a level rejects nobody.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from scipy import stats

from tuner.fidelity import rank
from tuner.fidelity.agreement import Agreement, Ladder, agree, means
from tuner.fidelity.assess import noise

Verdict = Literal["climb", "hold", "finish"]
_FROZEN = ConfigDict(extra="forbid", frozen=True)


class LevelResult(BaseModel):
    """What a point came to on one level; None where it failed there."""

    model_config = _FROZEN

    point: str
    level: str
    value: float | None = Field(gt=0, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a point after a level.

    Attributes:
        verdict: ``climb`` to the next level, ``hold`` it where it is, or ``finish``: it has its
            answer.
        why: One sentence.
    """

    verdict: Verdict
    why: str


class Climb(BaseModel):
    """The state of a study with levels. Every step gives a new one; all of it goes through JSON.

    Attributes:
        ladder: The levels and rules.
        anchors: Points that are measured on all levels, the baseline first.
        results: What was measured, in order.
        retired: Levels that were refuted, with the reason; they reject nobody any more.
    """

    model_config = _FROZEN

    ladder: Ladder
    anchors: tuple[str, ...] = ()
    results: tuple[LevelResult, ...] = ()
    retired: Mapping[str, str] = Field(default_factory=dict)

    @property
    def entry(self) -> str:
        """The level on which a new candidate begins: the cheapest that was not refuted."""
        return next(
            entry.name
            for entry in self.ladder.levels
            if entry.name == self.ladder.real or entry.name not in self.retired
        )

    def record(self, point: str, level: str, value: float | None) -> Climb:
        """Learn what a point came to on a level, and retire the levels that this refutes."""
        seen = LevelResult(point=point, level=level, value=value)
        after = self.model_copy(update={"results": (*self.results, seen)})
        if level != self.ladder.real:
            return after
        retired = dict(self.retired)
        for entry in self.ladder.levels[:-1]:
            found = after.agreement(entry.name)
            if found.standing == "misleads":
                retired.setdefault(entry.name, found.why)
        return after.model_copy(update={"retired": retired})

    def decide(self, point: str, level: str) -> Decision:
        """What becomes of a point that was measured on a level.

        Args:
            point: The point.
            level: The level on which it was measured last.
        """
        return self._decide(point, level, self.values(level), self.agreement(level))

    def _decide(
        self, point: str, level: str, values: Mapping[str, float], found: Agreement
    ) -> Decision:
        if level == self.ladder.real:
            return Decision("finish", "it has its real value")
        if point not in values:
            return Decision("hold", f"it failed on {level}")
        if point in self.anchors:
            return Decision("climb", "it is an anchor and is measured on all levels")
        if level in self.retired:
            return Decision("climb", f"{level} rejects nobody any more: {self.retired[level]}")
        if found.standing != "agrees":
            return Decision("climb", f"{level} has not shown that it may reject: {found.why}")
        return self._by_rank(point, level, values)

    def _by_rank(self, point: str, level: str, values: Mapping[str, float]) -> Decision:
        place = sum(value > values[point] for value in values.values())
        seats = max(self.ladder.at_least, math.ceil(self.ladder.keep * len(values)))
        if place < seats:
            return Decision("climb", f"number {place + 1} of {len(values)} on {level}")
        edge = sorted(values.values(), reverse=True)[seats - 1]
        # A measurement that is this close to the edge may be on either side of it.
        slack = rank.INFORMATIVE * math.sqrt(2) * (self.sigma(level) or 0.0)
        if values[point] >= edge * (1 - slack):
            return Decision("climb", f"within the noise of the best {seats} on {level}")
        return Decision("hold", f"number {place + 1} of {len(values)} on {level}")

    def waiting(self) -> list[tuple[str, str]]:
        """Held points that deserve to climb by now, with the level that they climb to.

        Anchors come first, then the best. A level that is refuted frees all that it held; others
        climb as the measure moves.
        """
        highest: dict[str, str] = {}
        order = [entry.name for entry in self.ladder.levels]
        for seen in self.results:
            old = highest.get(seen.point, order[0])
            highest[seen.point] = max(old, seen.level, key=order.index)
        below = order[:-1]
        values = {level: self.values(level) for level in below}
        found = {level: self.agreement(level) for level in below}
        climbing = [
            (point, level)
            for point, level in highest.items()
            if level in found
            and self._decide(point, level, values[level], found[level]).verdict == "climb"
        ]
        climbing.sort(key=lambda pair: (pair[0] not in self.anchors, -values[pair[1]][pair[0]]))
        return [(point, self.ladder.above(level)) for point, level in climbing]

    def agreement(self, level: str) -> Agreement:
        """How a level stands to the real one."""
        real = self.ladder.real
        return agree(
            level,
            self._measured(level),
            self._measured(real),
            (self.sigma(level), self.sigma(real)),
            self.ladder,
        )

    def values(self, level: str) -> dict[str, float]:
        """The value of each point on a level: the geometric mean of its measurements."""
        return means(self._measured(level))

    def sigma(self, level: str) -> float | None:
        """Relative deviation of one measurement on a level; None where nothing was repeated.

        Few repeats are more often too alike than too different, so this is the estimate that is
        too low with a chance of one in three, by the chi-squared distribution of their variance.
        """
        measured = self._measured(level)
        found = noise(measured)
        if found is None:
            return None
        freedom = sum(len(values) - 1 for values in measured.values())
        return found * math.sqrt(freedom / float(stats.chi2.ppf(1 / 3, freedom)))

    def _measured(self, level: str) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        for seen in self.results:
            if seen.level == level and seen.value is not None:
                found.setdefault(seen.point, []).append(seen.value)
        return found

    def report(self) -> list[dict[str, Any]]:
        """One row a level, as JSON-ready data: what it costs, leaves out, shows and rejected."""
        rows = []
        for entry in self.ladder.levels:
            seen = [r for r in self.results if r.level == entry.name]
            row: dict[str, Any] = {
                "level": entry.name,
                "cost": entry.cost,
                "leaves_out": entry.leaves_out,
                "measured": len(seen),
                "points": len({r.point for r in seen}),
                "sigma": self.sigma(entry.name),
                "retired_because": self.retired.get(entry.name),
            }
            if entry.name != self.ladder.real:
                found = self.agreement(entry.name)
                row |= {
                    name: getattr(found, name)
                    for name in ("standing", "why", "pairs", "tau", "regret", "bias", "spread")
                }
            rows.append(row)
        return rows


def spread_anchors(points: Sequence[str], count: int) -> tuple[str, ...]:
    """Anchors spread evenly over points in their own order, the first and the last among them.

    Anchors must differ for pairs of them to show anything, so they are taken from the whole range
    of the space and not from around its middle.
    """
    if count < 1 or not points:
        return ()
    last = len(points) - 1
    steps = max(1, count - 1)
    return tuple(dict.fromkeys(points[round(i * last / steps)] for i in range(count)))
