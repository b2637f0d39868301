"""How surely two rankings agree: an exact p-value, and an interval over configurations.

The p-value answers "could a proxy that knows nothing do as well?", by all orders in which its
values could have fallen. The interval answers "would other configurations have said the same?", so
it resamples configurations and not repeats of one.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from tuner.fidelity.rank import Floats, Mask, Signs, all_pairs, column, signs

Indices = npt.NDArray[np.intp]
Method = Literal["exact", "sampled"]

_ENUMERATED = 8
_COUNTED = 60
_SAMPLES = 20_000
_CHUNK = 5_000
_RESAMPLES = 2_000


@dataclass(frozen=True, slots=True)
class PValue:
    """A one-sided p-value.

    Attributes:
        value: Chance that a proxy that knows nothing agrees at least as well.
        method: ``exact`` over all orders, or ``sampled`` from some of them.
    """

    value: float
    method: Method


@dataclass(frozen=True, slots=True)
class Interval:
    """A percentile interval.

    Attributes:
        low: Its lower end.
        high: Its upper end.
        level: The part of the resamples inside it.
    """

    low: float
    high: float
    level: float


def one_sided_p(
    real: Sequence[float] | Floats,
    proxy: Sequence[float] | Floats,
    mask: Mask | None = None,
    *,
    seed: int = 0,
) -> PValue:
    """The chance that C - D is as high as it is when the proxy's values fall in any order.

    Over all pairs, with ties in one column at most, the number of discordant pairs is distributed
    as the inversions of a multiset: the coefficients of a q-multinomial, counted exactly up to 60
    points. Else all orders are gone through up to 8 points, and drawn at random beyond.

    Args:
        real: Measured values.
        proxy: What the proxy says of the same points.
        mask: The pairs that count.
        seed: Seed of the draws.
    """
    first, second = signs(real), signs(proxy)
    count = len(first)
    if mask is None and count <= _COUNTED and not (_has_ties(first) and _has_ties(second)):
        return PValue(_counted(column(real), column(proxy)), "exact")
    return p_of_signs(first, second, all_pairs(count) if mask is None else mask, seed=seed)


def p_of_signs(
    real: Signs, proxy: Signs, mask: Mask, *, seed: int = 0, samples: int = _SAMPLES
) -> PValue:
    """The same from signs that are known already, by going through orders of the proxy's points.

    Args:
        real: Signs of the real differences.
        proxy: Signs of the proxy's differences.
        mask: The pairs that count.
        seed: Seed of the draws.
        samples: How many orders are drawn where there are too many to go through.
    """
    count = len(real)
    weights = np.where(mask, real, 0).astype(np.int32)
    observed = int((weights * proxy).sum())
    if count <= _ENUMERATED:
        orders = itertools.permutations(range(count))
        hits, total = _at_least(observed, weights, proxy, _chunks(orders))
        return PValue(hits / total, "exact")
    random = np.random.default_rng(seed)
    block = min(_CHUNK, samples)
    draws = (
        random.permuted(np.tile(np.arange(count), (block, 1)), axis=1)
        for _ in range(samples // block)
    )
    hits, total = _at_least(observed, weights, proxy, draws)
    return PValue((hits + 1) / (total + 1), "sampled")


def _has_ties(matrix: Signs) -> bool:
    return bool((matrix == 0).sum() > len(matrix))


def _chunks(orders: Iterator[tuple[int, ...]]) -> Iterator[Indices]:
    while block := list(itertools.islice(orders, _CHUNK)):
        yield np.array(block, dtype=np.intp)


def _at_least(
    observed: int, weights: npt.NDArray[np.int32], proxy: Signs, orders: Iterator[Indices]
) -> tuple[int, int]:
    """How many orders give at least the observed sum, and how many there were."""
    rows, columns = np.nonzero(np.triu(weights))
    known = weights[rows, columns]
    hits = total = 0
    for block in orders:
        sums = (proxy[block[:, rows], block[:, columns]] * known).sum(axis=1)
        hits += int((2 * sums >= observed).sum())
        total += len(block)
    return hits, total


def _counted(real: Floats, proxy: Floats) -> float:
    """P(D <= observed D) when at most one column has ties."""
    groups = max(
        (Counter(side.tolist()) for side in (real, proxy)), key=lambda c: max(c.values())
    ).values()
    discordant = int((signs(real) * signs(proxy) < 0).sum()) // 2
    ways = _inversions(len(real), groups)
    return sum(ways[: discordant + 1]) / sum(ways)


def _inversions(count: int, groups: Iterable[int]) -> list[int]:
    """How many arrangements of a multiset have each number of inversions, from 0 up."""
    ways = [1]
    for k in range(2, count + 1):
        ways = _times(ways, k)
    for size in groups:
        for k in range(2, size + 1):
            ways = _over(ways, k)
    return ways


def _times(ways: list[int], k: int) -> list[int]:
    """Multiply a polynomial by 1 + q + ... + q^(k-1)."""
    sums = [0, *itertools.accumulate(ways)]
    top = len(ways)
    return [sums[min(i + 1, top)] - sums[max(0, i + 1 - k)] for i in range(top + k - 1)]


def _over(ways: list[int], k: int) -> list[int]:
    """Divide a polynomial by 1 + q + ... + q^(k-1), which leaves no rest here."""
    quotient: list[int] = []
    for i in range(len(ways) - k + 1):
        quotient.append(ways[i] - sum(quotient[max(0, i - k + 1) : i]))
    return quotient


def bootstrap(
    statistic: Callable[[Indices], float | None],
    count: int,
    *,
    level: float = 0.95,
    resamples: int = _RESAMPLES,
    seed: int = 0,
) -> Interval | None:
    """A percentile interval over configurations drawn with replacement.

    Args:
        statistic: Takes the indices of the configurations drawn; None where it is not defined on
            them, which leaves the draw out.
        count: How many configurations there are.
        level: The part of the resamples that the interval holds.
        resamples: How many draws.
        seed: Seed of the draws.

    Returns:
        None where the statistic was defined on fewer than half of the draws.
    """
    random = np.random.default_rng(seed)
    found = [
        value
        for _ in range(resamples)
        if (value := statistic(random.integers(0, count, count))) is not None
    ]
    if 2 * len(found) < resamples:
        return None
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    if math.isnan(low) or math.isnan(high):
        raise ValueError("a statistic that is not defined on a draw is None, not NaN")
    return Interval(float(low), float(high), level)
