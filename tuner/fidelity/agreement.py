"""The declared levels of a question, and how a cheaper one stands to the real one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from tuner.fidelity import rank
from tuner.score.rank import Tier

Agrees = Literal["agrees", "misleads", "unproven"]
_FROZEN = ConfigDict(extra="forbid", frozen=True)


class Level(BaseModel):
    """One level of the question.

    Attributes:
        name: Its name.
        cost: What it costs to answer, in the unit of the others; seconds where they are known.
        leaves_out: What it does not show, for the report.
    """

    model_config = _FROZEN

    name: str
    cost: float = Field(gt=0)
    leaves_out: str = ""


class Ladder(BaseModel):
    """The declared levels and the rules by which candidates climb.

    Attributes:
        levels: From the cheapest to the real one, which is the last.
        keep: Part of the candidates of a level that climbs.
        at_least: How many candidates climb in any case.
        pairs: Informative pairs that show whether a level orders as the real one does.
        tau_b: The least tau-b with which it does.
        refuted: A tau-b below this refutes it; between the two it may not reject, and is not
            retired either.
        regret: The highest worst-tie regret with which it does.
    """

    model_config = _FROZEN

    levels: tuple[Level, ...] = Field(min_length=1)
    keep: float = Field(default=0.1, gt=0, le=1)
    at_least: int = Field(default=3, ge=1)
    pairs: int = Field(default=6, ge=1)
    tau_b: float = Field(default=0.7, ge=-1, le=1)
    refuted: float = Field(default=0.4, ge=-1, le=1)
    regret: float = Field(default=0.05, ge=0)

    @property
    def real(self) -> str:
        """The last level, whose answer is the question's."""
        return self.levels[-1].name

    def above(self, level: str) -> str:
        """The next level up."""
        names = [entry.name for entry in self.levels]
        return names[names.index(level) + 1]


@dataclass(frozen=True, slots=True)
class Agreement:
    """How a level stands to the real one, by the points that were measured on both.

    Attributes:
        level: The level.
        standing: ``agrees``, ``misleads``, or ``unproven`` where too little was measured on both.
        why: One sentence.
        points: Points with a value on both.
        pairs: Pairs that the real level tells apart.
        tau: tau-b over these pairs.
        regret: Worst-tie regret of choosing by this level, among these points.
        bias: The real value over this level's, the median; None without points.
        spread: Half the range of that ratio between its 16th and 84th percentile, as a part of it.
        fallen: Points that came to less on the real level than on this one: dead there, or past a
            gate that they had kept.
    """

    level: str
    standing: Agrees
    why: str
    points: int
    pairs: int = 0
    tau: float = 0.0
    regret: float | None = None
    bias: float | None = None
    spread: float | None = None
    fallen: int = 0


Tiers = Mapping[str, Tier]
"""What became of points on a level. One with a value that is not named here is feasible."""


def agree(
    level: str,
    cheap: Mapping[str, Sequence[float]],
    real: Mapping[str, Sequence[float]],
    sigma: tuple[float | None, float | None],
    ladder: Ladder,
    tiers: tuple[Tiers, Tiers] = ({}, {}),
) -> Agreement:
    """How a level stands to the real one.

    A point that died or failed a gate lies below all that did not, on either level: a level whose
    favourites die on the real load does not order as that does. What its choice loses is counted
    among the points that can be deployed, as those that fall hold no seat on the level.

    Args:
        level: The level's name.
        cheap: Each point's measurements on the level.
        real: Each point's measurements on the real one.
        sigma: Relative deviation of one measurement on the level and on the real one; None where
            nobody knows. A level whose noise is not known is taken to be as noisy as the real one.
        ladder: What is asked of a level.
        tiers: What became of the points on the level and on the real one.
    """
    both = [point for point in real if point in cheap]
    if len(both) < 2:
        why = f"{len(both)} points were measured on both"
        return Agreement(level, "unproven", why, len(both))
    of_cheap, of_real = means(cheap), means(real)
    ratios = np.array([of_real[p] / of_cheap[p] for p in both])
    low, middle, high = (float(q) for q in np.quantile(ratios, [0.16, 0.5, 0.84]))
    own, noise = sigma
    if noise is None:
        why = f"the noise of {ladder.real} is not known: no point was measured twice"
        return Agreement(level, "unproven", why, len(both), bias=middle)
    of_level = {**dict.fromkeys(cheap, Tier.FEASIBLE), **tiers[0]}
    of_load = {**dict.fromkeys(real, Tier.FEASIBLE), **tiers[1]}
    points = [p for p in of_load if p in of_level]
    mine = _Side.of(points, cheap, of_level, noise if own is None else own)
    theirs = _Side.of(points, real, of_load, noise)
    tau = rank.tau_b(theirs.order, mine.order, theirs.apart)
    fallen = theirs.tiers > mine.tiers
    stayed = rank.tau_b(
        theirs.order, mine.order, theirs.apart & ~(fallen[:, None] | fallen[None, :])
    )
    regret, lost = _choice(mine, theirs, ladder)
    # One that falls may be an accident: it can unsettle a level, and not refute it.
    least = tau.value if fallen.sum() > 1 else max(tau.value, stayed.value)
    standing, why = _standing(tau, least, regret, ladder, lost=lost)
    return Agreement(
        level=level,
        standing=standing,
        why=why if not fallen.any() else f"{why}; {fallen.sum()} points fell on {ladder.real}",
        points=len(both),
        pairs=tau.pairs,
        tau=tau.value,
        regret=regret,
        bias=middle,
        spread=(high - low) / 2 / middle,
        fallen=int(fallen.sum()),
    )


@dataclass(frozen=True, slots=True)
class _Side:
    """Points as one level has them.

    Attributes:
        values: Their values; 0 for what died.
        tiers: Their tiers.
        order: Their places, the lowest first: by tier, then by value.
        apart: The pairs that it tells apart.
    """

    values: rank.Floats
    tiers: npt.NDArray[np.int64]
    order: rank.Floats
    apart: rank.Mask

    @classmethod
    def of(
        cls,
        points: Sequence[str],
        measured: Mapping[str, Sequence[float]],
        known: Tiers,
        sigma: float,
    ) -> _Side:
        tiers = np.array([known[p] for p in points], dtype=np.int64)
        alive = [known[p] is not Tier.INCOMPLETE and p in measured for p in points]
        mean = means({p: measured[p] for p, lives in zip(points, alive, strict=True) if lives})
        values = np.array([mean.get(p, 0.0) for p in points])
        counts = [len(measured.get(p, ())) or 1 for p in points]
        apart = rank.informative_pairs(values, sigma * values / np.sqrt(np.array(counts)))
        other = tiers[:, None] != tiers[None, :]
        keys = list(zip(-tiers, values, strict=True))
        places = {key: place for place, key in enumerate(sorted(set(keys)))}
        order = np.array([float(places[key]) for key in keys])
        return cls(values, tiers, order, apart | other)


def _choice(mine: _Side, theirs: _Side, ladder: Ladder) -> tuple[float, bool]:
    """What is lost by choosing by a level, and whether that is surely too much.

    Among the points that came furthest on the real level: those that keep its gates, if any do.
    """
    top = np.flatnonzero((theirs.tiers == theirs.tiers.min()) & (theirs.values > 0))
    if not top.size:
        return 0.0, False
    choice = rank.selection_regret(theirs.values[top], mine.order[top])
    worst = top[min(choice.chosen, key=lambda i: theirs.values[top[i]])]
    best = top[int(np.argmax(theirs.values[top]))]
    # Both levels must be sure, else the choice was a matter of luck and not of the level.
    sure = bool(theirs.apart[worst, best] and mine.apart[worst, best])
    return choice.worst, choice.worst > ladder.regret and sure


def _standing(
    tau: rank.TauB, least: float, regret: float, ladder: Ladder, *, lost: bool
) -> tuple[Agrees, str]:
    if lost:
        return "misleads", f"its choice is {regret:.1%} below the best, which is more than noise"
    if tau.pairs < ladder.pairs:
        return "unproven", f"{tau.pairs} of {ladder.pairs} pairs differ by more than the noise"
    why = f"tau-b {tau.value:.2f} over {tau.pairs} pairs"
    if least < ladder.refuted:
        return "misleads", f"{why} is below {ladder.refuted:g}"
    if tau.value < ladder.tau_b:
        return "unproven", f"{why} is below {ladder.tau_b:g}"
    return "agrees", why


def means(measured: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The geometric mean of each point's measurements."""
    return {
        point: math.exp(sum(math.log(v) for v in values) / len(values))
        for point, values in measured.items()
    }
