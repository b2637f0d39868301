"""Cheaper levels of the same question: candidates climb, and a level that misleads is retired.

A search space may declare levels: a shorter load, fewer conversations, a smaller context, one load
of several. Many candidates are measured on the cheapest, the promising ones on the next, finalists
on the real one. The baseline and a few anchors are measured on all levels, so that this study
itself shows by how much a level is off and whether it orders as the real one does. Until that is
shown, and for good once it is refuted, a level rejects nobody.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from scipy import stats

from tuner.fidelity import rank
from tuner.fidelity.agreement import Agreement, Ladder, agree, means
from tuner.fidelity.assess import noise
from tuner.score.rank import Tier

Verdict = Literal["climb", "hold", "finish"]
_FROZEN = ConfigDict(extra="forbid", frozen=True)
_SHOWN = ("standing", "why", "pairs", "tau", "regret", "bias", "spread", "fallen")


class LevelResult(BaseModel):
    """What a point came to on one level.

    Attributes:
        point: The point.
        level: The level.
        value: Its value; None where it has none.
        tier: What became of it there; None where nobody knows, as it was ended for another reason.
    """

    model_config = _FROZEN

    point: str
    level: str
    value: float | None = Field(gt=0, allow_inf_nan=False)
    tier: Tier | None = Tier.FEASIBLE


@dataclass(frozen=True, slots=True)
class _Field:
    """The points of one level, as a seat on it is given.

    Attributes:
        values: The value of each point that has one.
        tiers: What became of each point.
        fallen: Points that died or failed a gate on the real level: they hold no seat.
        found: How the level stands to the real one.
    """

    values: Mapping[str, float]
    tiers: Mapping[str, Tier]
    fallen: frozenset[str]
    found: Agreement

    def key(self, point: str) -> tuple[Tier, float]:
        """The better a point, the lower."""
        return self.tiers.get(point, Tier.INCOMPLETE), -self.values.get(point, 0.0)


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

    def record(
        self,
        point: str,
        level: str,
        value: float | None,
        *,
        feasible: bool = True,
        cut: bool = False,
    ) -> Climb:
        """Learn what a point came to on a level, and retire the levels that this refutes.

        Args:
            point: The point.
            level: The level.
            value: Its value; None where it failed there.
            feasible: Whether it kept all gates.
            cut: Whether it was ended there for a reason that says nothing of it.
        """
        tier = Tier.FEASIBLE if feasible else Tier.INFEASIBLE
        came = None if cut else Tier.INCOMPLETE if value is None else tier
        seen = LevelResult(point=point, level=level, value=value, tier=came)
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
        return self._decide(point, level, self._field(level))

    def _decide(self, point: str, level: str, field: _Field) -> Decision:
        if level == self.ladder.real:
            return Decision("finish", "it has its real value")
        if level in self.retired:
            return Decision("climb", f"{level} rejects nobody any more: {self.retired[level]}")
        if point in self.anchors:
            return Decision("climb", "it is an anchor and is measured on all levels")
        if field.found.standing != "agrees":
            return Decision("climb", f"{level} has not shown that it may reject: {field.found.why}")
        if point not in field.values:
            return Decision("hold", f"it failed on {level}")
        return self._by_rank(point, level, field)

    def _by_rank(self, point: str, level: str, field: _Field) -> Decision:
        running = [p for p in field.values if p == point or p not in field.fallen]
        place = sum(field.key(other) < field.key(point) for other in running)
        seats = max(self.ladder.at_least, math.ceil(self.ladder.keep * len(field.values)))
        if place < seats:
            return Decision("climb", f"number {place + 1} of {len(running)} on {level}")
        tier, edge = sorted(map(field.key, running))[seats - 1]
        # A measurement that is this close to the edge may be on either side of it.
        slack = rank.INFORMATIVE * math.sqrt(2) * (self.sigma(level) or 0.0)
        if field.tiers[point] is tier and field.values[point] >= -edge * (1 - slack):
            return Decision("climb", f"within the noise of the best {seats} on {level}")
        return Decision("hold", f"number {place + 1} of {len(running)} on {level}")

    def _field(self, level: str) -> _Field:
        real = self.ladder.real
        fallen = {p for p, tier in self.tiers(real).items() if tier is not Tier.FEASIBLE}
        return _Field(
            self.values(level), self.tiers(level), frozenset(fallen), self.agreement(level)
        )

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
        fields = {level: self._field(level) for level in order[:-1]}
        climbing = [
            (point, level)
            for point, level in highest.items()
            if level in fields and self._decide(point, level, fields[level]).verdict == "climb"
        ]
        climbing.sort(key=lambda pair: (pair[0] not in self.anchors, fields[pair[1]].key(pair[0])))
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
            (self.tiers(level), self.tiers(real)),
        )

    def tiers(self, level: str) -> dict[str, Tier]:
        """What became of each point on a level, where that is known: most of the time, when repeated."""
        found: dict[str, list[Tier]] = {}
        for seen in self.results:
            if seen.level == level and seen.tier is not None:
                found.setdefault(seen.point, []).append(seen.tier)
        return {point: statistics.median_low(tiers) for point, tiers in found.items()}

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
                row |= {name: getattr(found, name) for name in _SHOWN}
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
