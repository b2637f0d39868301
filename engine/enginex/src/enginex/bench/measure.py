"""How it is measured: warm, in rounds in which every variant runs once in another order, with medians.

In one round each variant computes a step of its own on a weight set of its own, so that none finds in a cache what
another has just read. The machine's read bandwidth is measured in every round too, over the same kind of memory:
a machine that slows down slows down all of them. The floor of a step is the time in which the distinct experts' bytes
can be read at that bandwidth.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch

from enginex.bench.contestants import Routing, WeightSet
from enginex.bench.shapes import Shape
from enginex.native import library

__all__ = ["Measured", "Row", "measure"]

_HOPELESS = 8.0
"""A variant that takes this many times as long as the best is not worth more than a few rounds."""
_FEW = 3
_SHORT = 16
"""Below so many tokens a step is over in a few milliseconds, which any other process of the machine can double: it is
run as often more as it has fewer tokens."""


@dataclass(slots=True)
class Row:
    """One variant at one number of tokens.

    Attributes:
        seconds: Of each round.
        bytes_read: The distinct experts' bytes of each round.
    """

    seconds: list[float] = field(default_factory=list)
    bytes_read: list[int] = field(default_factory=list)

    @property
    def median_s(self) -> float:
        """Median time of a step."""
        return statistics.median(self.seconds)

    @property
    def bytes_per_s(self) -> float:
        """Median rate at which the distinct experts' bytes went by."""
        return statistics.median(b / s for b, s in zip(self.bytes_read, self.seconds, strict=True))


@dataclass(frozen=True, slots=True)
class Measured:
    """All variants at one number of tokens.

    Attributes:
        tokens: T.
        rows: By variant.
        bandwidth: Median read bandwidth over the rounds, bytes/s.
    """

    tokens: int
    rows: dict[str, Row]
    bandwidth: float

    def share(self, name: str) -> float:
        """Say what share of the read bandwidth a variant reaches: floor over time."""
        return self.rows[name].bytes_per_s / self.bandwidth

    def fastest(self) -> str:
        """Name the variant of the smallest median time."""
        return min(self.rows, key=lambda name: self.rows[name].median_s)


def measure(
    shape: Shape,
    sets: Sequence[WeightSet],
    names: Sequence[str],
    tokens: int,
    *,
    rounds: int,
    seed: int = 0,
) -> Measured:
    """Measure variants at one number of tokens.

    Args:
        shape: The layer.
        sets: Weight sets to rotate through.
        names: Variants.
        tokens: T.
        rounds: How often each runs; with fewer than 16 tokens 16 / T times as often.
        seed: Of the steps' inputs and the orders.
    """
    made = torch.Generator().manual_seed(seed * 1009 + tokens)
    order = random.Random(seed)  # noqa: S311 - an order, not a secret
    rows = {name: Row() for name in names}
    rates: list[float] = []
    at = 0
    warm = {name: _timed(sets[0].run[name], Routing.random(shape, tokens, made)) for name in names}
    warm = {
        name: min(once, _timed(sets[-1].run[name], Routing.random(shape, tokens, made)))
        for name, once in warm.items()
    }
    best = min(warm.values())
    for turn in range(rounds * max(1, _SHORT // max(1, tokens))):
        in_turn = [name for name in names if turn < _FEW or warm[name] <= _HOPELESS * best]
        order.shuffle(in_turn)
        rates.append(_bandwidth(sets[at % len(sets)]))
        for name in in_turn:
            step = Routing.random(shape, tokens, made)
            rows[name].seconds.append(_timed(sets[at % len(sets)].run[name], step))
            rows[name].bytes_read.append(step.distinct * shape.expert_bytes)
            at += 1
    return Measured(tokens, rows, statistics.median(rates))


def _timed(run: Callable[[Routing], torch.Tensor], step: Routing) -> float:
    began = time.perf_counter()
    run(step)
    return time.perf_counter() - began


def _bandwidth(weights: WeightSet) -> float:
    """Read a weight set's memory once: bytes/s."""
    largest = max(weights.memory, key=lambda t: t.numel() * t.element_size())
    piece = largest.view(-1)[: (256 << 20) // largest.element_size()]
    size = piece.numel() * piece.element_size()
    try:
        read: Callable[[], object] = partial(library.load().read_all, piece)
    except library.NotBuilt:
        read = piece.view(torch.int32).sum
    began = time.perf_counter()
    read()
    return size / (time.perf_counter() - began)
