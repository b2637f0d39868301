"""Lengths that are fixed or drawn: of prompts, turns and answers, in tokens."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

_P90 = NormalDist().inv_cdf(0.9)


@dataclass(frozen=True, slots=True)
class Uniform:
    """Drawn evenly between two bounds, both included.

    Attributes:
        low: The smallest length.
        high: The largest length.
        log: Even over the logarithms instead: many short, few long.
    """

    low: int
    high: int
    log: bool = False


@dataclass(frozen=True, slots=True)
class Skewed:
    """Log-normal through the median and the 90th percentile, cut at two bounds.

    Attributes:
        median: Half of the lengths are at most this.
        p90: Nine in ten are at most this.
        low: Shorter ones are raised to it.
        high: Longer ones are lowered to it.
    """

    median: int
    p90: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Bucket:
    """One range of lengths.

    Attributes:
        low: The smallest length.
        high: The largest length.
        weight: How often it is drawn, relative to the other buckets.
        reuse: Part of such a prompt that an earlier one has in common with it.
    """

    low: int
    high: int
    weight: float
    reuse: float = 0.0


@dataclass(frozen=True, slots=True)
class Buckets:
    """Drawn from weighted ranges, evenly over the logarithms within each."""

    buckets: tuple[Bucket, ...]


Length = int | Uniform | Skewed | Buckets
"""A length, fixed or drawn."""


def draw(rng: random.Random, length: Length) -> int:
    """One length. Only ``rng.random()`` is drawn from, whose values Python promises to keep."""
    if isinstance(length, int):
        return length
    if isinstance(length, Uniform):
        return _between(rng, length.low, length.high, log=length.log)
    if isinstance(length, Skewed):
        sigma = math.log(length.p90 / length.median) / _P90
        z = NormalDist().inv_cdf(max(rng.random(), 1e-12))
        return min(max(round(length.median * math.exp(sigma * z)), length.low), length.high)
    bucket = draw_bucket(rng, length)
    return _between(rng, bucket.low, bucket.high, log=True)


def draw_bucket(rng: random.Random, length: Buckets) -> Bucket:
    """One of the ranges, by weight."""
    left = rng.random() * sum(bucket.weight for bucket in length.buckets)
    for bucket in length.buckets:
        left -= bucket.weight
        if left < 0:
            return bucket
    return length.buckets[-1]


def scaled(length: Length, factor: float) -> Length:
    """A length with all its figures multiplied and rounded, each at least 1."""

    def times(tokens: int) -> int:
        return max(1, round(tokens * factor))

    if isinstance(length, int):
        return times(length)
    if isinstance(length, Uniform):
        return Uniform(times(length.low), times(length.high), log=length.log)
    if isinstance(length, Skewed):
        return Skewed(*map(times, (length.median, length.p90, length.low, length.high)))
    return scaled_buckets(length, times)


def scaled_buckets(length: Buckets, times: Callable[[int], int]) -> Buckets:
    """Ranges with their bounds put through a function."""
    return Buckets(
        tuple(
            Bucket(times(bucket.low), times(bucket.high), bucket.weight, bucket.reuse)
            for bucket in length.buckets
        )
    )


def _between(rng: random.Random, low: int, high: int, *, log: bool) -> int:
    if not log:
        return low + int(rng.random() * (high - low + 1))
    drawn = math.exp(math.log(low) + rng.random() * (math.log(high + 1) - math.log(low)))
    return min(max(int(drawn), low), high)
