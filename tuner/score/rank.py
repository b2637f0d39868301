"""Ranking: gates first, then the score, and never a part of the population above the whole.

A server that dies early or refuses most requests at once is scored over a short wall time and can
come out high (run 168 of the platform answered 11 % of its requests and has the highest score of
all). So the population comes before the gates, and the gates before the score.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.score.figures import FIGURES, figures
from tuner.score.gates import Gate, GateResult, Outcome, judge
from tuner.score.metrics import Metrics
from tuner.score.official import PUBLISHED, Weights

COMPLETE_AT = 0.99
"""The success rate from which a population counts as complete where no gate says otherwise."""


class Tier(enum.IntEnum):
    """Where a result stands before its score is looked at; lower is better."""

    FEASIBLE = 0  # complete, and every gate passed
    INFEASIBLE = 1  # complete, but a gate failed or could not be measured
    INCOMPLETE = 2  # too much of the planned population did not succeed


@dataclass(frozen=True, slots=True)
class Standing:
    """One load's figures, held against gates, ready to be ranked.

    Attributes:
        figures: Every figure by name.
        gates: What became of each gate.
        complete_at: The success rate from which the population counts as complete.
        objective: Name of the figure that ranks feasible results.
    """

    figures: Mapping[str, float | None]
    gates: tuple[GateResult, ...]
    complete_at: float
    objective: str = "weighted"

    @property
    def success_rate(self) -> float:
        """The success rate over the planned population; 0 where nothing was planned."""
        return self.figures.get("success_rate") or 0.0

    @property
    def score(self) -> float | None:
        """The objective's value."""
        return self.figures.get(self.objective)

    @property
    def tier(self) -> Tier:
        """Feasible, infeasible or incomplete."""
        if self.success_rate < self.complete_at:
            return Tier.INCOMPLETE
        passed = all(result.outcome is Outcome.PASSED for result in self.gates)
        return Tier.FEASIBLE if passed and self.score is not None else Tier.INFEASIBLE

    @property
    def shortfall(self) -> float:
        """How much the failed gates lack in all: the sum of their constraints above 0."""
        return sum(max(0.0, result.constraint) for result in self.gates)

    @property
    def key(self) -> tuple[float, ...]:
        """What results are sorted by; the smallest is the best.

        Feasible results by score; infeasible ones by shortfall, then score; incomplete ones by the
        part of the population that succeeded, then shortfall. The score never lifts a result over
        a tier.
        """
        score = self.score
        sign = -1.0 if FIGURES[self.objective].better == "higher" else 1.0
        rank = float("inf") if score is None else sign * score
        if self.tier is Tier.FEASIBLE:
            return (self.tier, rank)
        if self.tier is Tier.INFEASIBLE:
            return (self.tier, self.shortfall, rank)
        return (self.tier, -self.success_rate, self.shortfall, rank)

    @property
    def constraints(self) -> dict[str, float]:
        """Values for a sampler, at most 0 where fulfilled; always the same names for the same gates.

        The first is the population's. See :class:`tuner.score.gates.GateResult` for the others.
        """
        lack = (self.complete_at - self.success_rate) / max(
            self.complete_at, self.success_rate, 1e-9
        )
        return {"population": lack} | {r.gate.name: r.constraint for r in self.gates}


def stand(
    metrics: Metrics,
    gates: Sequence[Gate],
    weights: Weights = PUBLISHED,
    *,
    complete_at: float | None = None,
    objective: str = "weighted",
) -> Standing:
    """Hold a load's metrics against gates.

    Args:
        metrics: The load's metrics.
        gates: The gates that apply.
        weights: The weights of the score.
        complete_at: From which success rate the population counts as complete. By default the limit
            of the gate on the success rate, and :data:`COMPLETE_AT` where there is none.
        objective: The figure that ranks feasible results.
    """
    found = figures(metrics, weights)
    return standing(found, gates, complete_at=complete_at, objective=objective)


def standing(
    found: Mapping[str, float | None],
    gates: Sequence[Gate],
    *,
    complete_at: float | None = None,
    objective: str = "weighted",
) -> Standing:
    """The same for figures that come from elsewhere, a platform's log for example.

    Raises:
        ValueError: When there is no such objective or ``complete_at`` is not in (0, 1].
    """
    if objective not in FIGURES:
        raise ValueError(f"there is no figure called {objective!r}")
    limit = _complete_at(gates) if complete_at is None else complete_at
    if not 0 < limit <= 1:
        raise ValueError(f"a population is complete at a success rate in (0, 1], not at {limit}")
    return Standing(found, judge(gates, found), limit, objective)


def _complete_at(gates: Sequence[Gate]) -> float:
    limits = [g.limit for g in gates if g.figure == "success_rate" and g.at_least and g.limit > 0]
    return min(limits, default=COMPLETE_AT)


def rank(standings: Mapping[str, Standing]) -> tuple[str, ...]:
    """The names of results, best first; equal ones in the order in which they came."""
    return tuple(sorted(standings, key=lambda name: standings[name].key))


def pessimistic_constraints(gates: Sequence[Gate]) -> dict[str, float]:
    """The constraints of a result that was never measured: everything lacks all of it.

    The names are those of :attr:`Standing.constraints` for the same gates.
    """
    return {"population": 1.0} | {gate.name: 1.0 for gate in gates}
