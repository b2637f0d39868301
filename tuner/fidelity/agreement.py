"""The declared levels of a question, and how a cheaper one stands to the real one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from tuner.fidelity import rank

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


def agree(
    level: str,
    cheap: Mapping[str, Sequence[float]],
    real: Mapping[str, Sequence[float]],
    sigma: tuple[float | None, float | None],
    ladder: Ladder,
) -> Agreement:
    """How a level stands to the real one.

    Args:
        level: The level's name.
        cheap: Each point's measurements on the level.
        real: Each point's measurements on the real one.
        sigma: Relative deviation of one measurement on the level and on the real one; None where
            nobody knows. A level whose noise is not known is taken to be as noisy as the real one.
        ladder: What is asked of a level.
    """
    both = [point for point in real if point in cheap]
    if len(both) < 2:
        why = f"{len(both)} points were measured on both"
        return Agreement(level, "unproven", why, len(both))
    of_cheap, of_real = means(cheap), means(real)
    mine = np.array([of_cheap[p] for p in both])
    theirs = np.array([of_real[p] for p in both])
    low, middle, high = (float(q) for q in np.quantile(theirs / mine, [0.16, 0.5, 0.84]))
    own, noise = sigma
    if noise is None:
        why = f"the noise of {ladder.real} is not known: no point was measured twice"
        return Agreement(level, "unproven", why, len(both), bias=middle)
    mask = _apart(theirs, [len(real[p]) for p in both], noise)
    sure = _apart(mine, [len(cheap[p]) for p in both], noise if own is None else own)
    tau = rank.tau_b(theirs, mine, mask)
    choice = rank.selection_regret(theirs, mine)
    worst = min(choice.chosen, key=lambda i: theirs[i])
    best = int(np.argmax(theirs))
    # Both levels must be sure, else the choice was a matter of luck and not of the level.
    lost = choice.worst > ladder.regret and bool(mask[worst, best] and sure[worst, best])
    standing, why = _standing(tau, choice.worst, ladder, lost=lost)
    return Agreement(
        level=level,
        standing=standing,
        why=why,
        points=len(both),
        pairs=tau.pairs,
        tau=tau.value,
        regret=choice.worst,
        bias=middle,
        spread=(high - low) / 2 / middle,
    )


def _apart(values: rank.Floats, counts: Sequence[int], sigma: float) -> rank.Mask:
    return rank.informative_pairs(values, sigma * values / np.sqrt(np.array(counts)))


def _standing(tau: rank.TauB, regret: float, ladder: Ladder, *, lost: bool) -> tuple[Agrees, str]:
    if lost:
        return "misleads", f"its choice is {regret:.1%} below the best, which is more than noise"
    if tau.pairs < ladder.pairs:
        return "unproven", f"{tau.pairs} of {ladder.pairs} pairs differ by more than the noise"
    why = f"tau-b {tau.value:.2f} over {tau.pairs} pairs"
    if tau.value < ladder.refuted:
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
