"""What a trial is ranked by: one number made of its figures, better when higher."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from tuner.score.figures import FIGURES
from tuner.score.gates import Gate
from tuner.score.goodput import Limits
from tuner.score.pareto import Figures, Objectives, benefit


@dataclass(frozen=True, slots=True)
class Objective:
    """How figures become a score.

    Attributes:
        figure: The figure that is the score, where there is no pair.
        limits: What a request must keep to count in the goodput; None where nobody asks for it.
        pair: Two objectives and the rule for their winner.

    Raises:
        ValueError: When the figure is not known, or the goodput is asked for without limits.
    """

    figure: str = "weighted"
    limits: Limits | None = None
    pair: Objectives | None = None

    def __post_init__(self) -> None:
        if self.figure not in FIGURES:
            raise ValueError(f"there is no figure called {self.figure!r}")
        if "goodput_rps" in self.figures and self.limits is None:
            raise ValueError("goodput_rps needs limits")

    @property
    def figures(self) -> tuple[str, ...]:
        """The figures that the score is made of."""
        return (self.figure,) if self.pair is None else self.pair.figures

    @property
    def leading(self) -> str:
        """The figure without which a load has no score at all."""
        return self.figures[0]

    @property
    def usual(self) -> bool:
        """Whether the score is the weighted score."""
        return self.pair is None and self.figure == "weighted"

    @property
    def gate(self) -> Gate | None:
        """A gate that belongs to the rule for the winner, beside those of the study."""
        return None if self.pair is None else self.pair.gate

    def score(self, found: Figures) -> float | None:
        """The score of a load with these figures; None where one that it needs is not known."""
        if self.pair is not None:
            return self.pair.score(found)
        return benefit(self.figure, found.get(self.figure))

    @property
    def words(self) -> str:
        """What the score is, in a sentence's part."""
        kept = (
            "" if self.limits is None else f", counting requests that keep {_limits(self.limits)}"
        )
        if self.pair is None:
            return f"{_said(self.figure)}{kept}"
        pair, gate = self.pair, self.pair.gate
        if gate is not None and pair.best is not None:
            word = "at least" if gate.at_least else "at most"
            rate = "" if FIGURES[pair.best].better == "higher" else ", as its reciprocal"
            return (
                f"{_said(pair.best)}{rate}, with {_said(gate.figure)} {word} {gate.limit:g}{kept}"
            )
        powers = zip(pair.figures, (pair.balance or 0.0, 1 - (pair.balance or 0.0)), strict=True)
        return " · ".join(f"{name}^{_power(name, power):g}" for name, power in powers) + kept


WEIGHTED = Objective()
"""The weighted score, which is the objective where none is declared."""


def mean_figures(
    loads: Iterable[tuple[float, Mapping[str, float | None]]], names: Iterable[str]
) -> dict[str, float | None]:
    """The mean of figures over workloads, by weight; None where one workload lacks the figure.

    Args:
        loads: The weight and the figures of each workload.
        names: Which figures.
    """
    known = list(loads)
    total = sum(weight for weight, _ in known)
    found: dict[str, float | None] = {}
    for name in names:
        values = [(weight, figures.get(name)) for weight, figures in known]
        sums = [weight * value for weight, value in values if value is not None]
        found[name] = sum(sums) / total if len(sums) == len(known) and total else None
    return found


def _power(name: str, power: float) -> float:
    return round(power if FIGURES[name].better == "higher" else -power, 6)


def _said(name: str) -> str:
    figure = FIGURES[name]
    return f"{figure.label} ({figure.unit})" if figure.unit else figure.label


def _limits(limits: Limits) -> str:
    given = {f.name: getattr(limits, f.name) for f in fields(limits)}
    return ", ".join(
        f"{name} {'at least' if name == 'output_tps' else 'at most'} {value:g}"
        for name, value in given.items()
        if value is not None
    )
