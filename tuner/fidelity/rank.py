"""How well one ranking agrees with another. Pure functions; higher is better throughout.

Where lower is better, both columns are negated first: every figure here is then the same.

The order itself is judged by Kendall's tau-b, the choice that follows from it by the selection
regret. Neither stands for the other: a proxy may order hundreds of poor points rightly and miss the
best one, and it may hit the best one by luck.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Signs = npt.NDArray[np.int8]
"""``signs[i, j]`` is the sign of ``value[i] - value[j]``."""
Mask = npt.NDArray[np.bool_]
"""``mask[i, j]`` says whether a pair counts; symmetric, false on the diagonal."""

INFORMATIVE = 2.0
"""A pair is told apart when its difference is over this many of its own standard deviations.

Of two single measurements with deviation sigma that is 2 * sqrt(2) * sigma = 2.83 sigma.
"""


@dataclass(frozen=True, slots=True)
class TauB:
    """Kendall's tau-b of two columns.

    Attributes:
        value: From -1 to 1; 0 where one column is tied throughout and tau-b is not defined.
        ceiling: The highest value that the ties of the two columns allow.
        concordant: Pairs that both columns order alike.
        discordant: Pairs that they order against each other.
        tied_real: Pairs that the real column ties.
        tied_proxy: Pairs that the proxy ties.
        pairs: All pairs that counted.
    """

    value: float
    ceiling: float
    concordant: int
    discordant: int
    tied_real: int
    tied_proxy: int
    pairs: int


@dataclass(frozen=True, slots=True)
class Regret:
    """What is lost by taking what the proxy holds for best.

    Attributes:
        worst: The loss when chance picks the worst of the proxy's best, as a part of the real best.
        best: The loss when chance picks the best of them.
        chosen: Indices of the proxy's best: more than one where it ties them.
    """

    worst: float
    best: float
    chosen: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Agreement:
    """How many pairs have the same sign in both columns.

    Attributes:
        right: Pairs with the same sign; a pair that both tie is one of them.
        pairs: All pairs that counted.
    """

    right: int
    pairs: int

    @property
    def rate(self) -> float | None:
        """The part that is right; None where there is no pair."""
        return self.right / self.pairs if self.pairs else None


def column(values: Sequence[float] | Floats) -> Floats:
    """A column of figures as an array.

    Raises:
        ValueError: When there is a figure that is not finite, or none at all.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all():
        raise ValueError("a ranking needs one column of at least one figure, all of them finite")
    return array


def signs(values: Sequence[float] | Floats) -> Signs:
    """The sign of every pairwise difference."""
    array = column(values)
    above = array[:, None] > array[None, :]
    return above.astype(np.int8) - above.T.astype(np.int8)


def all_pairs(count: int) -> Mask:
    """The mask in which every pair counts."""
    return ~np.eye(count, dtype=np.bool_)


def informative_pairs(real: Sequence[float] | Floats, deviation: float | Floats) -> Mask:
    """The pairs whose real difference is larger than what noise alone makes.

    Args:
        real: Measured values.
        deviation: Standard deviation of each value: of a single measurement sigma, of a mean of r
            repeats sigma / sqrt(r).
    """
    array = column(real)
    own = np.broadcast_to(np.asarray(deviation, dtype=np.float64), array.shape)
    if not np.isfinite(own).all() or (own < 0).any():
        raise ValueError("a deviation is finite and at least 0")
    limit = INFORMATIVE * np.hypot(own[:, None], own[None, :])
    apart: Mask = np.abs(array[:, None] - array[None, :]) > limit
    return apart


def tau_b(
    real: Sequence[float] | Floats, proxy: Sequence[float] | Floats, mask: Mask | None = None
) -> TauB:
    """Kendall's tau-b, ``(C - D) / sqrt((n0 - n1) (n0 - n2))``, over all pairs or over some.

    Args:
        real: Measured values.
        proxy: What the proxy says of the same points, in any unit.
        mask: The pairs that count; n0, n1 and n2 are then counted among them alone.
    """
    first, second = column(real), column(proxy)
    if first.size != second.size:
        raise ValueError(f"{first.size} real values and {second.size} of the proxy")
    counted = all_pairs(first.size) if mask is None else mask
    value, counts = tau_of_signs(signs(first), signs(second), counted)
    order = np.argsort(first, kind="stable")
    arranged = np.empty_like(second)
    arranged[order] = np.sort(second)
    ceiling, _ = tau_of_signs(signs(first), signs(arranged), counted)
    return TauB(value, ceiling, *counts)


def tau_of_signs(
    real: Signs, proxy: Signs, mask: Mask
) -> tuple[float, tuple[int, int, int, int, int]]:
    """tau-b from signs that are known already.

    Returns:
        The value, and the counts of :class:`TauB` from ``concordant`` on.
    """
    first, second = real[mask], proxy[mask]
    product = first * second
    agree, against = int((product > 0).sum()) // 2, int((product < 0).sum()) // 2
    pairs = first.size // 2
    ties = [int((side == 0).sum()) // 2 for side in (first, second)]
    scale = math.sqrt((pairs - ties[0]) * (pairs - ties[1]))
    value = (agree - against) / scale if scale else 0.0
    return value, (agree, against, ties[0], ties[1], pairs)


def selection_regret(
    real: Sequence[float] | Floats, proxy: Sequence[float] | Floats, *, within: float = 0.0
) -> Regret:
    """What is lost by taking what the proxy holds for best.

    Args:
        real: Measured values.
        proxy: What the proxy says of the same points.
        within: Part of the proxy's best value by which another may fall short and still be a tie.

    Raises:
        ValueError: When the best real value is 0, of which nothing is a part.
    """
    first, second = column(real), column(proxy)
    top = float(second.max())
    chosen = np.flatnonzero(second >= top - within * abs(top))
    best = float(first.max())
    if best == 0:
        raise ValueError("the regret is a part of the best real value, and that is 0")
    loss = (best - first[chosen]) / abs(best)
    return Regret(float(loss.max()), float(loss.min()), tuple(int(i) for i in chosen))


def top_k_overlap(real: Sequence[float] | Floats, proxy: Sequence[float] | Floats, k: int) -> float:
    """The part of the real best k that is among the proxy's best k.

    Where ties leave it open which points are among the best k, they are broken in the way that
    gives the smallest overlap.
    """
    first, second = column(real), column(proxy)
    if not 1 <= k <= first.size:
        raise ValueError(f"the best {k} of {first.size} are not defined")
    sure_a, edge_a, open_a = _best(first, k)
    sure_b, edge_b, open_b = _best(second, k)
    both = edge_a & edge_b
    # Places at the edge are filled first with points that the other side cannot have at all.
    need_a = max(0, open_a - len(edge_a - sure_b - both))
    need_b = max(0, open_b - len(edge_b - sure_a - both))
    return (len(sure_a & sure_b) + max(0, need_a + need_b - len(both))) / k


def _best(values: Floats, k: int) -> tuple[set[int], set[int], int]:
    """Points surely among the best k, those tied at the edge, and how many of these are taken."""
    edge = np.sort(values)[::-1][k - 1]
    sure = set(np.flatnonzero(values > edge).tolist())
    return sure, set(np.flatnonzero(values == edge).tolist()), k - len(sure)


def pair_agreement(
    real: Sequence[float] | Floats, proxy: Sequence[float] | Floats, mask: Mask | None = None
) -> Agreement:
    """How many pairs have the same sign in both columns.

    Over all pairs, a tie agrees with a tie and with nothing else. Over informative pairs the real
    sign is never 0, so a tie of the proxy is a miss.
    """
    first, second = signs(real), signs(proxy)
    counted = all_pairs(len(first)) if mask is None else mask
    return Agreement(int((first == second)[counted].sum()) // 2, int(counted.sum()) // 2)


def levels(proxy: Sequence[float] | Floats) -> int:
    """How many different values a proxy gives: one that gives few cannot order many points."""
    return int(np.unique(column(proxy)).size)
