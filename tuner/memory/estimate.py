"""The expected memory of a deployment, fitted to the starts that were seen.

Above the lower bound lies what no file tells: activations of a step of ``max_num_batched_tokens``
tokens, workspaces, the driver's context. It is taken to be ``peak = a * x + o`` with
``x = c * tokens * hidden * bytes``. The factors ``c`` are those that AIConfigurator uses (22, 13, 10,
10 for mixtures of experts at TP 1, 2, 4, 8; half of it for dense models; at least 70 MiB). ``a`` and
``o`` are fitted to real starts by Bayesian least squares, so that one start already helps and two
with different steps tell them apart.

The result is a signed margin with a band, for the sampler to steer by. It never rejects anything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuner.memory.bound import Capacity
from tuner.memory.layers import DTYPE_BYTES
from tuner.memory.model import ModelFacts
from tuner.memory.pool import plan_pool, sequence_length
from tuner.memory.request import MemoryRequest
from tuner.memory.weights import weights_per_rank

__all__ = ["Expectation", "PeakModel", "Start", "expect", "fit", "observed_peak"]

_GIB = 2**30
_FACTORS_MOE = {1: 22.0, 2: 13.0, 4: 10.0, 8: 10.0}
_FACTORS_DENSE = {1: 11.0, 2: 6.5, 4: 5.0, 8: 5.0}
_LEAST_ACTIVATION = 70 * 2**20
_STEP = 2048  # tokens of a step where nothing is said

_PRIOR = (1.0, 0.6 * _GIB)  # of a and o, before any start was seen
_PRIOR_SPREAD = (0.5, 0.6 * _GIB)
_NOISE = 64 * 2**20  # what two starts of the same deployment differ by
_MISFIT = 0.02  # of the peak: what the model itself is wrong by
_OUTLIER = 2.5  # residuals beyond so many deviations count less (Huber's rule)
_BAND = 2.0  # deviations on either side of the expectation


@dataclass(frozen=True, slots=True)
class Start:
    """One start of the engine that came up, as its log and the devices told it.

    At least one of ``blocks``, ``kv_tokens`` and ``kv_bytes`` must be known on a device; on the host
    ``used_bytes``.

    Attributes:
        request: What was asked.
        device_bytes: Memory of the smallest device.
        weights_bytes: Weights on a rank, as the engine says; None takes the computed ones.
        blocks: Number of blocks.
        kv_tokens: Tokens that the cache holds.
        kv_bytes: Bytes of cache on a rank.
        free_bytes: Free memory of the fullest device after warm-up.
        used_bytes: Memory of all the engine's processes after warm-up, on the host.
    """

    request: MemoryRequest
    device_bytes: int | None = None
    weights_bytes: float | None = None
    blocks: int | None = None
    kv_tokens: int | None = None
    kv_bytes: float | None = None
    free_bytes: int | None = None
    used_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class PeakModel:
    """What is known of the peak of one family of deployments: one engine, one model, one way to run.

    Attributes:
        scale: ``a``.
        overhead: ``o`` in bytes.
        covariance: Of the two, row by row.
        outside: Bytes used beyond the share that ``gpu_memory_utilization`` gives, such as captured
            graphs; None where no start told the free memory.
        outside_spread: How much that varied, in bytes.
        starts: How many starts it was fitted to.
    """

    scale: float
    overhead: float
    covariance: tuple[tuple[float, float], tuple[float, float]]
    outside: float | None
    outside_spread: float
    starts: int

    def predict(self, activation: float) -> tuple[float, float]:
        """The expected peak and its standard deviation, in bytes.

        Args:
            activation: ``x`` of the deployment, in bytes.
        """
        (aa, ao), (_, oo) = self.covariance
        mean = self.scale * activation + self.overhead
        variance = aa * activation**2 + 2 * ao * activation + oo
        return mean, math.sqrt(max(0.0, variance) + _NOISE**2 + (_MISFIT * mean) ** 2)


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a deployment is expected to do.

    Attributes:
        peak_bytes: Activations and overhead on a rank; on the host, of all processes together.
        kv_bytes: Cache on a rank.
        blocks: Blocks of it.
        margin: Bytes beyond what is needed in the tightest place; negative when it should not fit.
        relative: The margin as a share of the memory that may be used.
        low: The margin at the lower end of the band.
        high: The margin at the upper end of the band.
        starts: How many starts this rests on; 0 means on nothing but general experience.
    """

    peak_bytes: float
    kv_bytes: float
    blocks: int
    margin: float
    relative: float
    low: float
    high: float
    starts: int


def activation_bytes(facts: ModelFacts, request: MemoryRequest) -> float:
    """``x``: the activations of one step on one rank, by the general factors.

    Without chunked prefill a step holds a whole prompt.
    """
    tokens = request.max_num_batched_tokens or _STEP
    if request.chunked_prefill is False:
        tokens = max(tokens, sequence_length(facts, request))
    factors = _FACTORS_MOE if facts.config.experts else _FACTORS_DENSE
    factor = factors[max(known for known in factors if known <= request.tp)]
    dtype = facts.config.dtype if request.dtype == "auto" else request.dtype
    size = factor * tokens * facts.config.hidden * DTYPE_BYTES.get(dtype, 2)
    return max(float(_LEAST_ACTIVATION), size)


def observed_peak(facts: ModelFacts, start: Start) -> float | None:
    """The peak that a start shows: what is left of the engine's share after weights and cache.

    Args:
        facts: The model.
        start: A start that came up.

    Returns:
        Bytes, or None when the start does not tell enough.
    """
    request = start.request
    weights = _weights(facts, request) if start.weights_bytes is None else start.weights_bytes
    if request.device == "cpu":
        if start.used_bytes is None or request.kv_bytes is None:
            return None
        return start.used_bytes - request.ranks * (weights + request.kv_bytes)
    cache = _cache(facts, start)
    # Space that was asked for in bytes is no remainder, so it tells nothing of the rest.
    if cache is None or start.device_bytes is None or request.kv_bytes or request.blocks:
        return None
    return request.utilization * start.device_bytes - weights - cache


def fit(facts: ModelFacts, starts: Sequence[Start]) -> PeakModel:
    """Fit the peak to the starts of one family.

    Args:
        facts: The model.
        starts: Starts of the same engine that differ in what :class:`MemoryRequest` holds. Those
            that do not tell their peak are passed over.
    """
    points = [
        (activation_bytes(facts, start.request), peak)
        for start in starts
        if (peak := observed_peak(facts, start)) is not None
    ]
    mean, covariance = _posterior(points)
    outside = [extra for start in starts if (extra := _outside(start)) is not None]
    return PeakModel(
        scale=float(mean[0]),
        overhead=float(mean[1]) * _GIB,
        covariance=(
            (float(covariance[0, 0]), float(covariance[0, 1]) * _GIB),
            (float(covariance[1, 0]) * _GIB, float(covariance[1, 1]) * _GIB**2),
        ),
        outside=float(np.median(outside)) if outside else None,
        outside_spread=float(np.std(outside)) if len(outside) > 1 else 0.25 * _GIB,
        starts=len(points),
    )


def expect(
    facts: ModelFacts,
    request: MemoryRequest,
    model: PeakModel,
    capacity: Capacity,
    *,
    floor: float = 0.02,
    weights_bytes: float | None = None,
) -> Expectation | None:
    """What a deployment is expected to do on a machine.

    Args:
        facts: The model.
        request: The deployment's settings.
        model: Fitted by :func:`fit`.
        capacity: What the machine has.
        floor: Share of the device that must stay free.
        weights_bytes: Weights on a rank where a start has told them; None takes the computed ones.

    Returns:
        The expectation, or None when the machine's memory is not known.
    """
    weights = _weights(facts, request) if weights_bytes is None else weights_bytes
    peak, spread = model.predict(activation_bytes(facts, request))
    if request.device == "cpu":
        return _expect_host(facts, request, model, capacity, (weights, peak, spread))
    if capacity.device_bytes is None:
        return None
    pool = plan_pool(facts, request)
    total = float(capacity.device_bytes)
    asked = request.kv_bytes
    if request.blocks is not None:
        asked = request.blocks * max(pool.block_bytes)
    cache = request.utilization * total - weights - peak if asked is None else float(asked)
    needed = max(pool.needed(stage) for stage in range(request.pp))
    outside = model.outside or 0.0
    free = total - weights - peak - outside - max(cache, 0.0)
    in_pool, in_device = cache - needed, free - floor * total
    margin = min(in_pool, in_device)
    pool_bound = in_pool <= in_device and asked is None
    # The pool takes up what the peak leaves, so only one of the two varies with it.
    width = spread if pool_bound or asked is not None else 0.0
    width = math.hypot(width, 0.0 if pool_bound else model.outside_spread)
    return Expectation(
        peak_bytes=peak,
        kv_bytes=cache,
        blocks=pool.blocks(cache),
        margin=margin,
        relative=margin / total,
        low=margin - _BAND * width,
        high=margin + _BAND * width,
        starts=model.starts,
    )


def _expect_host(
    facts: ModelFacts,
    request: MemoryRequest,
    model: PeakModel,
    capacity: Capacity,
    parts: tuple[float, float, float],
) -> Expectation | None:
    if capacity.host_bytes is None:
        return None
    weights, peak, spread = parts
    pool = plan_pool(facts, request)
    needed = max(pool.needed(stage) for stage in range(request.pp))
    cache = float(request.kv_bytes if request.kv_bytes is not None else needed)
    margin = capacity.host_bytes - request.ranks * (weights + cache) - peak
    return Expectation(
        peak_bytes=peak,
        kv_bytes=cache,
        blocks=pool.blocks(cache),
        margin=margin,
        relative=margin / capacity.host_bytes,
        low=margin - _BAND * spread,
        high=margin + _BAND * spread,
        starts=model.starts,
    )


def _weights(facts: ModelFacts, request: MemoryRequest) -> float:
    """Weights on the fullest rank, less those that are kept on the host."""
    size = max(stage.size for stage in weights_per_rank(facts, request))
    return float(max(0, size - request.offload_bytes))


def _cache(facts: ModelFacts, start: Start) -> float | None:
    """Bytes of cache on a rank that a start shows, by whichever of its figures is the most direct."""
    if start.kv_bytes is not None:
        return float(start.kv_bytes)
    pool = plan_pool(facts, start.request)
    size = max(pool.block_bytes)
    if start.blocks is not None:
        # The engine rounds down to whole blocks; on the average half a block is lost.
        return (start.blocks + 0.5) * size + max(pool.upfront_bytes)
    if start.kv_tokens is not None and pool.exact:
        blocks = start.kv_tokens * pool.sequence_blocks / sequence_length(facts, start.request)
        return (blocks + 0.5) * size + max(pool.upfront_bytes)
    return None


def _outside(start: Start) -> float | None:
    if start.free_bytes is None or start.device_bytes is None or start.request.kv_bytes:
        return None
    return (1 - start.request.utilization) * start.device_bytes - start.free_bytes


def _posterior(
    points: Sequence[tuple[float, float]],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and covariance of ``a`` and of ``o`` in GiB, after the points were seen."""
    prior = np.array([_PRIOR[0], _PRIOR[1] / _GIB])
    precision = np.diag([1 / _PRIOR_SPREAD[0] ** 2, (_GIB / _PRIOR_SPREAD[1]) ** 2])
    if not points:
        return prior, np.linalg.inv(precision)
    design = np.array([[x / _GIB, 1.0] for x, _ in points])
    peaks = np.array([peak / _GIB for _, peak in points])
    deviation = np.hypot(_NOISE / _GIB, _MISFIT * np.abs(peaks))
    weight = np.ones(len(points))
    mean, covariance = prior, np.linalg.inv(precision)
    for _ in range(20 if len(points) > 2 else 1):
        scaled = design * (weight / deviation**2)[:, None]
        covariance = np.linalg.inv(precision + design.T @ scaled)
        mean = covariance @ (precision @ prior + scaled.T @ peaks)
        residual = np.abs(peaks - design @ mean) / deviation
        weight = np.minimum(1.0, _OUTLIER / np.maximum(residual, 1e-12))
    return mean, covariance
