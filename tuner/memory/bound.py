"""The lower bound: what a deployment needs at the very least, and whether a machine has it.

Only what is certain is counted: weights, and the cache without which the engine refuses to start.
Activations, graphs, the driver's context and the process itself come on top. So a deployment that
does not fit its bound cannot run, and one that fits may still not run.

In v1 recurrent states lie in the pool of blocks, and the engine starts when it can hold one longest
sequence, whatever ``max_num_seqs`` says; so that is what counts. What all sequences together would
take is in :attr:`Bound.full_load` and rejects nothing.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tuner.memory.model import ModelFacts
from tuner.memory.pool import (
    Pool,
    kv_bytes_per_token,
    plan_pool,
    sequence_length,
    state_bytes_per_request,
)
from tuner.memory.request import MemoryRequest
from tuner.memory.weights import StageWeights, weights_per_rank
from tuner.quantity import format_bytes

__all__ = ["Bound", "Capacity", "Margin", "Need", "Place", "fits", "lower_bound", "margins"]


class Place(enum.StrEnum):
    """Where bytes must be had."""

    DEVICE = "each device"
    NODE = "the NUMA node of a worker"
    HOST = "the host"
    KV_SPACE = "the cache space that was asked for"


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a machine has. A size that is not known is None, and nothing is judged by it.

    Attributes:
        device_bytes: Memory of the smallest device that the engine will use.
        node_bytes: Memory of the NUMA node that a worker on the host is bound to. Where a node's
            memory can still grow, None: then a worker is judged by the host alone.
        host_bytes: Memory of the host that may be used, the control group's limit heeded.
    """

    device_bytes: int | None = None
    node_bytes: int | None = None
    host_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes that must be had in one place.

    Attributes:
        place: Where.
        size: How many.
        share: The share of the place that may be used for them.
        limit: Bytes of the place, where the deployment itself sets them.
        lines: The arithmetic, for people.
    """

    place: Place
    size: int
    share: float
    limit: int | None
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """The lower bound of a deployment.

    Attributes:
        needs: What must be had, each in its place.
        weights: Weights on one rank, by stage.
        pool: The layout of the cache.
        full_load: Bytes of cache on one rank of the first stage when ``max_num_seqs`` sequences of
            the longest length run at once; None where their number is not said.
        notes: What could not be counted.
    """

    needs: tuple[Need, ...]
    weights: tuple[StageWeights, ...]
    pool: Pool
    full_load: int | None
    notes: tuple[str, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """The whole arithmetic, for people."""
        found = [line for need in self.needs for line in need.lines]
        return (*found, *(f"not counted: {note}" for note in self.notes))


@dataclass(frozen=True, slots=True)
class Margin:
    """What is left over, or missing, in one place.

    Attributes:
        place: Where.
        size: Bytes that are left; negative when they are missing.
        relative: The same as a share of what may be used.
        lines: The arithmetic, for people, with the verdict as its last line.
    """

    place: Place
    size: int
    relative: float
    lines: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is missing."""
        return self.size >= 0


def lower_bound(facts: ModelFacts, request: MemoryRequest) -> Bound:
    """What a deployment needs at the very least.

    Args:
        facts: The model.
        request: The deployment's settings.
    """
    weights = weights_per_rank(facts, request)
    pool = plan_pool(facts, request)
    needs = [_kv_space(pool, request)] if request.kv_bytes or request.blocks else []
    if request.device == "cpu":
        needs += _on_host(weights, pool, request)
    else:
        needs.append(_on_device(weights, pool, request))
    notes = list(facts.config.notes)
    if not facts.weights_known:
        notes.append("weights, for no safetensors file of the model is here")
    return Bound(
        needs=tuple(needs),
        weights=weights,
        pool=pool,
        full_load=_full_load(facts, request),
        notes=tuple(notes),
    )


def margins(bound: Bound, capacity: Capacity) -> tuple[Margin, ...]:
    """What is left or missing in each place whose size is known.

    Args:
        bound: The deployment's lower bound.
        capacity: What the machine has.
    """
    known = {
        Place.DEVICE: capacity.device_bytes,
        Place.NODE: capacity.node_bytes,
        Place.HOST: capacity.host_bytes,
    }
    found: list[Margin] = []
    for need in bound.needs:
        limit = need.limit if need.limit is not None else known.get(need.place)
        if limit is None or limit <= 0:
            continue
        usable = int(limit * need.share)
        left = usable - need.size
        word = "left" if left >= 0 else "missing"
        share = f" x {need.share:g}" if need.share < 1 else ""
        verdict = (
            f"{need.place} has {format_bytes(limit)}{share} = {format_bytes(usable)}: "
            f"{format_bytes(abs(left))} {word}"
        )
        found.append(Margin(need.place, left, left / max(1, usable), (*need.lines, verdict)))
    return tuple(found)


def fits(bound: Bound, capacity: Capacity) -> Margin | None:
    """The tightest margin: negative when the deployment cannot run here.

    Args:
        bound: The deployment's lower bound.
        capacity: What the machine has.

    Returns:
        The margin, or None when nothing is known to judge by.
    """
    return min(margins(bound, capacity), key=lambda margin: margin.relative, default=None)


def _asked(pool: Pool, stage: int, request: MemoryRequest) -> int | None:
    """Cache on one rank that was asked for outright; a number of blocks overrides bytes."""
    if request.blocks is not None:
        return request.blocks * pool.block_bytes[stage]
    return request.kv_bytes


def _kv_space(pool: Pool, request: MemoryRequest) -> Need:
    """The space that was asked for must hold one sequence."""
    stage = max(range(len(pool.block_bytes)), key=pool.needed)
    return Need(
        Place.KV_SPACE,
        pool.needed(stage),
        1.0,
        _asked(pool, stage, request),
        (*pool.lines, _one_sequence(pool, stage)),
    )


def _on_device(weights: tuple[StageWeights, ...], pool: Pool, request: MemoryRequest) -> Need:
    """Weights and cache of the fullest stage, against the share of a device."""
    sizes = [_rank(stage, pool, request) for stage in weights]
    worst = max(range(len(sizes)), key=sizes.__getitem__)
    asked = _asked(pool, worst, request)
    # Space that is asked for in bytes is taken whatever the utilization says.
    share = 1.0 if request.kv_bytes is not None else request.utilization
    return Need(
        Place.DEVICE,
        sizes[worst],
        share,
        None,
        (
            _weights_line(weights[worst], request),
            *(pool.lines if asked is None else ()),
            _one_sequence(pool, worst) if asked is None else _asked_line(asked),
            f"needed on each device: {format_bytes(sizes[worst])}",
        ),
    )


def _on_host(weights: tuple[StageWeights, ...], pool: Pool, request: MemoryRequest) -> list[Need]:
    """What workers on the host need: each on its node, all of them together on the host."""
    sizes = [_rank(stage, pool, request) for stage in weights]
    worst = max(range(len(sizes)), key=sizes.__getitem__)
    asked = _asked(pool, worst, request)
    ranks = request.tp * request.dp
    cache = _one_sequence(pool, worst) if asked is None else _asked_line(asked)
    if request.kv_bytes is not None:
        # The worker compares the space alone with its node's memory, before it allocates.
        node = Need(Place.NODE, request.kv_bytes, 1.0, None, (_asked_line(request.kv_bytes),))
    else:
        lines = (_weights_line(weights[worst], request), *pool.lines, cache)
        node = Need(Place.NODE, sizes[worst], request.utilization, None, lines)
    total = ranks * sum(sizes)
    lines = (
        _weights_line(weights[worst], request),
        cache,
        f"needed by {request.ranks} worker{'s' if request.ranks > 1 else ''}: {format_bytes(total)}",
    )
    return [node, Need(Place.HOST, total, 1.0, None, lines)]


def _rank(stage: StageWeights, pool: Pool, request: MemoryRequest) -> int:
    asked = _asked(pool, stage.stage, request)
    cache = pool.needed(stage.stage) if asked is None else asked
    return max(0, stage.size - request.offload_bytes) + cache


def _full_load(facts: ModelFacts, request: MemoryRequest) -> int | None:
    if request.max_num_seqs is None:
        return None
    tokens = sequence_length(facts, request) * kv_bytes_per_token(facts, request)
    return request.max_num_seqs * (int(tokens) + state_bytes_per_request(facts, request))


def _weights_line(stage: StageWeights, request: MemoryRequest) -> str:
    where = f" of stage {stage.stage}" if request.pp > 1 else ""
    off = f", less {format_bytes(request.offload_bytes)} kept on the host"
    return (
        f"weights on a rank{where} (TP {request.tp}): {format_bytes(stage.size)}"
        f"{off if request.offload_bytes else ''}"
    )


def _one_sequence(pool: Pool, stage: int) -> str:
    blocks = f"{pool.sequence_blocks} blocks"
    if pool.reserved_blocks:
        blocks += f" and {pool.reserved_blocks} that the engine reserves"
    return f"cache for one longest sequence: {blocks} = {format_bytes(pool.needed(stage))}"


def _asked_line(size: int) -> str:
    return f"cache space asked for: {format_bytes(size)} a worker"
