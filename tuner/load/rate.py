"""Searches the highest load that still meets the gates, through noise.

A measurement at a level gives a margin: by how much the worst gate is met, as a part of its limit
(above 0 it is met, below 0 it is missed). Margins are noisy, so a level counts as met or missed only
when its mean margin is further from 0 than the noise explains; otherwise it is measured again, a
few times at most. What is then still open counts as missed: the level that is found is one that was
seen to hold.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, variance


@dataclass(frozen=True, slots=True)
class RateSearch:
    """What is searched.

    Attributes:
        low: The lowest level, and where the search begins: requests a second, or a concurrency.
        high: The highest level that is tried.
        whole: Whether levels are whole numbers, as concurrencies are.
        tolerance: The search ends when the lowest missed level is at most this part above the
            highest met one; of whole levels, when they are neighbours.
        noise: Standard deviation of one margin, from an A/A run where there is one. It is replaced
            by what the repeated measurements show once they show more.
        confidence: How sure a level must be met or missed.
        repeats: The most measurements of one level.
    """

    low: float
    high: float
    whole: bool = False
    tolerance: float = 0.05
    noise: float = 0.05
    confidence: float = 0.95
    repeats: int = 4

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high:
            raise ValueError(f"levels must rise from above 0, not from {self.low} to {self.high}")
        if self.whole and (self.low != int(self.low) or self.high != int(self.high)):
            raise ValueError("whole levels have whole bounds")
        if self.repeats < 1 or not self.tolerance > 0 or not 0.5 < self.confidence < 1:
            raise ValueError("repeats, tolerance and confidence must be sensible")


@dataclass(frozen=True, slots=True)
class Measured:
    """One measurement: a level and its margin. ``-inf`` is a load that could not be finished."""

    level: float
    margin: float

    def __post_init__(self) -> None:
        if math.isnan(self.margin) or self.margin == math.inf:
            raise ValueError(f"{self.margin} is no margin")


class Outcome(enum.StrEnum):
    """What is known of a level."""

    MET = "met"
    MISSED = "missed"
    OPEN = "open"  # measured, and too near to 0 to say


@dataclass(frozen=True, slots=True)
class Level:
    """What the measurements of one level say.

    Attributes:
        level: The level.
        margins: Its margins, in the order of measurement.
        outcome: What they say together.
        settled: Whether nothing more is measured there; what is open then counts as missed.
    """

    level: float
    margins: tuple[float, ...]
    outcome: Outcome
    settled: bool


@dataclass(frozen=True, slots=True)
class Found:
    """The end of a search.

    Attributes:
        level: The highest level that was seen to hold; None where not even the lowest was.
        missed: The lowest level above it that was missed or stayed open; None where the highest
            level of the search held.
        levels: All that was measured, in rising order.
        measurements: How many measurements it took.
    """

    level: float | None
    missed: float | None
    levels: tuple[Level, ...]
    measurements: int


def next_level(search: RateSearch, measured: Sequence[Measured]) -> float | Found:
    """The level to measure next, or the result. Pure: the same measurements, the same answer.

    Args:
        search: What is searched.
        measured: All measurements so far, in any order.
    """
    levels = levels_of(search, measured)
    for level in levels:
        if not level.settled:
            return level.level
    met = [level.level for level in levels if level.outcome is Outcome.MET]
    missed = [level.level for level in levels if level.outcome is not Outcome.MET]
    lowest_missed = min(missed, default=None)
    below = [level for level in met if lowest_missed is None or level < lowest_missed]
    highest_met = max(below, default=None)
    following = _following(search, highest_met, lowest_missed)
    if following is not None:
        return following
    return Found(highest_met, lowest_missed, levels, len(measured))


def search_rate(search: RateSearch, measure: Callable[[float], float]) -> Found:
    """Search by measuring.

    Args:
        search: What is searched.
        measure: Runs the load at a level; the margin of the worst gate, ``-inf`` where the load
            could not be finished. An exception of it ends the search.
    """
    measured: list[Measured] = []
    while not isinstance(following := next_level(search, measured), Found):
        measured.append(Measured(following, measure(following)))
    return following


def levels_of(search: RateSearch, measured: Sequence[Measured]) -> tuple[Level, ...]:
    """What is known of each level that was measured, in rising order."""
    margins: dict[float, list[float]] = {}
    for one in measured:
        margins.setdefault(one.level, []).append(one.margin)
    noise = _noise(search, list(margins.values()))
    return tuple(_judge(search, level, tuple(margins[level]), noise) for level in sorted(margins))


def _judge(search: RateSearch, level: float, margins: tuple[float, ...], noise: float) -> Level:
    if -math.inf in margins:
        return Level(level, margins, Outcome.MISSED, settled=True)
    mean = fmean(margins)
    # Each look at a level is a test of its own, so each is held to a share of the error.
    share = (1 - search.confidence) / search.repeats
    reach = NormalDist().inv_cdf(1 - share) * noise / math.sqrt(len(margins))
    if mean > reach:
        outcome = Outcome.MET
    elif mean < -reach:
        outcome = Outcome.MISSED
    else:
        outcome = Outcome.OPEN
    settled = outcome is not Outcome.OPEN or len(margins) >= search.repeats
    return Level(level, margins, outcome, settled=settled)


def _noise(search: RateSearch, groups: Sequence[Sequence[float]]) -> float:
    """The assumed noise, or what repeats show within levels, whichever is more."""
    repeated = [group for group in groups if len(group) > 1 and -math.inf not in group]
    freedom = sum(len(group) - 1 for group in repeated)
    if freedom < 3:
        return search.noise
    pooled = sum(variance(group) * (len(group) - 1) for group in repeated) / freedom
    return max(search.noise, math.sqrt(pooled))


def _following(search: RateSearch, met: float | None, missed: float | None) -> float | None:
    """The next level between what holds and what does not; None where they are near enough."""
    if met is None:
        return search.low if missed is None else None
    if missed is None:
        if met >= search.high:
            return None
        return min(2 * met, search.high)
    if search.whole:
        return None if missed - met <= 1 else float((int(met) + int(missed)) // 2)
    return None if missed <= met * (1 + search.tolerance) else math.sqrt(met * missed)
