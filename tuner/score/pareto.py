"""Two objectives: the trials that no other trial beats in both, and a declared rule for the winner.

The rule gives each trial a number of its own, whatever other trials there are. So a sampler can be
told that number, runs can be compared in it, and the trial with the best one is the trial that the
rule takes from the front.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tuner.score.figures import FIGURES
from tuner.score.gates import Gate

Figures = Mapping[str, float | None]


def benefit(name: str, value: float | None) -> float | None:
    """A figure as a number that is better when higher: its reciprocal where lower is better.

    Returns:
        The number; None where the figure is not known, or is 0 and has no reciprocal.
    """
    if value is None or FIGURES[name].better == "higher":
        return value
    return 1 / value if value > 0 else None


@dataclass(frozen=True, slots=True)
class Objectives:
    """Two figures and how the winner is taken from their front.

    Attributes:
        first: The first figure.
        second: The second figure.
        balance: The rule by weight: the best ``first ** balance * second ** (1 - balance)``, a
            figure that is better when lower counting as its reciprocal. It does not hang on units.
        best: The rule by limit: the best of this figure …
        limit: … among those whose other figure keeps this: at least, or at most where lower is better.

    Raises:
        ValueError: When a figure is not known, both are the same, or there is not exactly one rule.
    """

    first: str
    second: str
    balance: float | None = None
    best: str | None = None
    limit: float | None = None

    def __post_init__(self) -> None:
        for name in self.figures:
            if name not in FIGURES:
                raise ValueError(f"there is no figure called {name!r}")
        if self.first == self.second:
            raise ValueError(f"both objectives are {self.first}")
        if self.balance is not None and not 0 < self.balance < 1:
            raise ValueError(f"the balance of objectives must lie in (0, 1), not {self.balance}")
        by_limit = self.best in self.figures and self.limit is not None
        if by_limit == (self.balance is not None):
            raise ValueError("objectives need one rule: a balance, or the best of one and a limit")

    @property
    def figures(self) -> tuple[str, str]:
        """Both figures."""
        return self.first, self.second

    @property
    def gate(self) -> Gate | None:
        """The limit of the rule as a gate; None where the rule is a balance."""
        if self.limit is None:
            return None
        other = self.second if self.best == self.first else self.first
        return Gate(other, self.limit, at_least=FIGURES[other].better == "higher")

    def score(self, found: Figures) -> float | None:
        """What the rule makes of a trial's figures, better when higher; None where one is not known.

        By a limit it is the best figure alone, as the limit is a gate.
        """
        one, two = self._benefits(found)
        if one is None or two is None:
            return None
        if self.balance is None:
            return one if self.best == self.first else two
        return math.pow(one, self.balance) * math.pow(two, 1 - self.balance)

    def front(self, results: Mapping[str, Figures]) -> tuple[str, ...]:
        """The results that no other one beats in both figures.

        One that is as good in one figure and better in the other beats. The best first figure comes
        first; of results with equal figures all are told. Which of the results count is the caller's
        to say: those that passed their gates.
        """
        benefits: dict[str, tuple[float, float]] = {}
        for name, found in results.items():
            one, two = self._benefits(found)
            if one is not None and two is not None:
                benefits[name] = (one, two)
        front, best_second = [], -math.inf
        first_at_best = -math.inf
        for name in sorted(benefits, key=lambda n: (-benefits[n][0], -benefits[n][1])):
            first, second = benefits[name]
            if second > best_second or (second == best_second and first == first_at_best):
                front.append(name)
                best_second, first_at_best = second, first
        return tuple(front)

    def winner(self, results: Mapping[str, Figures]) -> str | None:
        """The result that the rule takes from the front; None where none keeps its limit."""
        kept = [name for name in self.front(results) if self._keeps(results[name])]
        return max(kept, key=lambda name: self.score(results[name]) or 0.0, default=None)

    def _keeps(self, found: Figures) -> bool:
        gate = self.gate
        value = None if gate is None else found.get(gate.figure)
        if gate is None or value is None:
            return gate is None
        return value >= gate.limit if gate.at_least else value <= gate.limit

    def _benefits(self, found: Figures) -> tuple[float | None, float | None]:
        one, two = (benefit(name, found.get(name)) for name in self.figures)
        return one, two
