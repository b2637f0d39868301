"""Two objectives: the trials that no other trial beats in both, and a declared rule for the winner."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tuner.score.figures import FIGURES
from tuner.score.rank import Standing, Tier


@dataclass(frozen=True, slots=True)
class Objectives:
    """Two figures and how the winner is taken from their front.

    Attributes:
        first: The first figure.
        second: The second figure.
        rule: ``within``: among those that lose at most ``part`` of the best first figure, the best
            second figure. ``product``: the best ``first ** part * second ** (1 - part)``, a figure
            that is better when lower counting as its reciprocal; it does not hang on units.
        part: The rule's number: 0.05 with ``within`` is 5 %, 0.5 with ``product`` weighs both alike.

    Raises:
        ValueError: When a figure is not known, both are the same, or the part is out of range.
    """

    first: str
    second: str
    rule: Literal["within", "product"] = "within"
    part: float = 0.05

    def __post_init__(self) -> None:
        for name in (self.first, self.second):
            if name not in FIGURES:
                raise ValueError(f"there is no figure called {name!r}")
        if self.first == self.second:
            raise ValueError(f"both objectives are {self.first}")
        if not 0 <= self.part <= 1:
            raise ValueError(f"the rule's part must lie in [0, 1], not {self.part}")

    def _gains(self, standing: Standing) -> tuple[float, float] | None:
        """Both figures on the log scale, higher is better; None where one is not above 0."""
        values = [standing.figures.get(name) for name in (self.first, self.second)]
        if any(value is None or value <= 0 for value in values):
            return None
        signs = [1 if FIGURES[n].better == "higher" else -1 for n in (self.first, self.second)]
        one, two = (s * math.log(v) for s, v in zip(signs, values, strict=True) if v is not None)
        return one, two

    def front(self, standings: Mapping[str, Standing]) -> tuple[str, ...]:
        """The feasible trials that no other feasible trial beats in both figures.

        One that is as good in one figure and better in the other beats. The best first figure comes
        first; of trials with equal figures all are told.
        """
        gains = {
            name: found
            for name, standing in standings.items()
            if standing.tier is not Tier.INCOMPLETE
            and all(result.constraint <= 0 for result in standing.gates)
            and (found := self._gains(standing)) is not None
        }
        front, best_second = [], -math.inf
        first_at_best = -math.inf
        for name in sorted(gains, key=lambda n: (-gains[n][0], -gains[n][1])):
            first, second = gains[name]
            if second > best_second or (second == best_second and first == first_at_best):
                front.append(name)
                best_second, first_at_best = second, first
        return tuple(front)

    def winner(self, standings: Mapping[str, Standing]) -> str | None:
        """The trial that the rule takes from the front; None where the front is empty."""
        front = self.front(standings)
        if not front:
            return None
        gains = {name: found for name in front if (found := self._gains(standings[name]))}
        if self.rule == "product":
            return max(front, key=lambda n: self.part * gains[n][0] + (1 - self.part) * gains[n][1])
        floor = gains[front[0]][0] + (math.log1p(-self.part) if self.part < 1 else -math.inf)
        slack = 1e-12  # a trial that lies on the limit is still within it
        return max((n for n in front if gains[n][0] >= floor - slack), key=lambda n: gains[n][1])
