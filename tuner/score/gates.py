"""Gates: what a deployment has to reach before its score counts."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tuner.score.figures import FIGURES


class Outcome(enum.StrEnum):
    """What a gate says."""

    PASSED = "passed"
    FAILED = "failed"
    UNMEASURED = "unmeasured"  # the figure could not be had; the gate is not passed


@dataclass(frozen=True, slots=True)
class Gate:
    """A limit on one figure. A gate that is off is simply not in the list.

    Attributes:
        figure: Name of the figure, one of :data:`tuner.score.figures.FIGURES`.
        limit: The limit itself is still allowed.
        at_least: True when the figure must be at least the limit, false when at most.

    Raises:
        ValueError: When no such figure exists, or the limit is negative or not finite.
    """

    figure: str
    limit: float
    at_least: bool

    def __post_init__(self) -> None:
        if self.figure not in FIGURES:
            raise ValueError(f"there is no figure called {self.figure!r}")
        if not math.isfinite(self.limit) or self.limit < 0:
            raise ValueError(f"the limit of {self.figure} must be 0 or more, not {self.limit}")

    @property
    def name(self) -> str:
        """The gate's name: the figure with the way the limit lies."""
        return f"{self.figure}_{'min' if self.at_least else 'max'}"

    def __str__(self) -> str:
        return f"{self.figure} {'>=' if self.at_least else '<='} {self.limit:g}"


@dataclass(frozen=True, slots=True)
class GateResult:
    """A gate and what became of it.

    Attributes:
        gate: The gate.
        value: The figure; None where it could not be had.
        outcome: Passed, failed or unmeasured.
        margin: How far the figure lies on the good side of the limit, as a part of the limit:
            0.1 is 10 % better than asked, -0.1 is 10 % worse. None where there is no figure. For a
            limit of 0 it is the plain difference.
        constraint: The same for a sampler: at most 0 when passed, in [-1, 1], smooth at the limit.
            A figure half as good as asked gives 0.5, twice as good -0.5. 1 where there is no figure.
    """

    gate: Gate
    value: float | None
    outcome: Outcome
    margin: float | None
    constraint: float


def judge(gates: Iterable[Gate], figures: Mapping[str, float | None]) -> tuple[GateResult, ...]:
    """Hold the figures of a load against its gates, in the order of the gates."""
    return tuple(_judge(gate, figures.get(gate.figure)) for gate in gates)


def _judge(gate: Gate, value: float | None) -> GateResult:
    if value is None:
        return GateResult(gate, None, Outcome.UNMEASURED, None, 1.0)
    difference = value - gate.limit if gate.at_least else gate.limit - value
    margin = difference / gate.limit if gate.limit > 0 else difference
    outcome = Outcome.PASSED if difference >= 0 else Outcome.FAILED
    return GateResult(gate, value, outcome, margin, _constraint(gate, value))


def _constraint(gate: Gate, value: float) -> float:
    """The shortfall against the limit, in [-1, 1]: see :class:`GateResult`."""
    good, bad = (value, gate.limit) if gate.at_least else (gate.limit, value)
    larger = max(good, bad)
    if larger <= 0:
        return 0.0
    if gate.limit == 0:
        return (bad - good) / (1 + larger)
    return (bad - good) / larger


OFFICIAL = (
    Gate("success_rate", 0.99, at_least=True),
    Gate("cache_hit_rate", 0.50, at_least=True),
    Gate("ttft_p90_s", 5.0, at_least=False),
    Gate("output_tps_p10", 20.0, at_least=True),
    Gate("weighted", 8000.0, at_least=True),
)
"""The official platform's published gates."""
