"""The bytes of weights on one rank, from the checkpoint's own tensors."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.memory.layers import DTYPE_BYTES
from tuner.memory.model import ModelFacts
from tuner.memory.request import MemoryRequest
from tuner.memory.tensors import Group, Share, TensorKind

__all__ = ["StageWeights", "stage_layers", "weights_per_rank"]

_VOCAB_PADDING = 64  # vLLM rounds the vocabulary up to a multiple of this
_LOAD_QUANTIZED = {"fp8": 1.0}
_LEAST_QUANTIZED = 0.5  # bytes an element of methods that are not listed: four bits, without scales


@dataclass(frozen=True, slots=True)
class StageWeights:
    """Weights on one rank of one pipeline stage.

    Attributes:
        stage: Number of the stage.
        layers: Its layers, as a half-open range.
        size: Bytes on one rank.
        by_kind: The same by what the tensors are for.
    """

    stage: int
    layers: tuple[int, int]
    size: int
    by_kind: dict[TensorKind, int]


def stage_layers(count: int, pp: int, partition: tuple[int, ...] | None) -> list[tuple[int, int]]:
    """The layers of each stage, as half-open ranges.

    Layers that do not divide evenly go to the stages before the last, from the back, as in vLLM's
    ``get_pp_indices``.
    """
    if partition is not None and len(partition) == pp and sum(partition) == count:
        sizes = list(partition)
    else:
        sizes = [count // pp] * pp
        for back in range(2, count % pp + 2):
            sizes[-back] += 1
    starts = [sum(sizes[:stage]) for stage in range(pp)]
    return [(start, start + size) for start, size in zip(starts, sizes, strict=True)]


def weights_per_rank(facts: ModelFacts, request: MemoryRequest) -> tuple[StageWeights, ...]:
    """The weights on the fullest rank of each stage.

    Tensors for speculation are left out, for they are loaded only with a method that uses them; so
    are the parts for images where the request is for text alone. Copies that a backend makes when
    it repacks weights are not counted: this is a lower bound.

    Args:
        facts: The model; without known weights every stage has none.
        request: The deployment's settings.
    """
    stages = stage_layers(len(facts.config.layers), request.pp, request.layer_partition)
    return tuple(_stage(number, span, facts, request) for number, span in enumerate(stages))


def _stage(
    number: int, span: tuple[int, int], facts: ModelFacts, request: MemoryRequest
) -> StageWeights:
    by_kind: dict[TensorKind, int] = {}
    for group in facts.groups:
        if _on_stage(group, number, span, facts, request):
            size = _on_rank(group, facts, request)
            by_kind[group.kind] = by_kind.get(group.kind, 0) + size
    return StageWeights(number, span, sum(by_kind.values()), by_kind)


def _on_stage(
    group: Group, number: int, span: tuple[int, int], facts: ModelFacts, request: MemoryRequest
) -> bool:
    first, last = number == 0, number == request.pp - 1
    if group.kind is TensorKind.SPECULATIVE:
        return False
    if group.kind is TensorKind.VISION:
        return first and not request.text_only
    if group.kind is TensorKind.EMBEDDING:
        return first or (last and facts.config.tied)
    if group.kind is TensorKind.HEAD:
        return last and not facts.config.tied
    if group.layer is not None:
        return span[0] <= group.layer < span[1]
    return last


def _on_rank(group: Group, facts: ModelFacts, request: MemoryRequest) -> int:
    size = _loaded(group, facts, request)
    tp, config = request.tp, facts.config
    if group.share is Share.WHOLE:
        return int(size)
    if group.share is Share.VOCAB:
        padded = -(-config.vocab // _VOCAB_PADDING) * _VOCAB_PADDING
        return int(size * padded / max(1, config.vocab) / tp)
    if group.share is Share.KV_HEADS:
        return int(size * _kv_share(config.kv_heads, tp))
    if group.share is Share.FUSED_QKV:
        heads = config.query_heads + 2 * config.kv_heads
        local = config.query_heads / tp + 2 * config.kv_heads * _kv_share(config.kv_heads, tp)
        return int(size * local / max(1, heads))
    if group.share is Share.EXPERTS:
        # Replicas share the experts between them, whether these are spread or split.
        ranks = tp * request.dp
        if request.expert_parallel and config.experts:
            return int(size * -(-config.experts // ranks) / config.experts)
        return int(size / ranks)
    return int(size / tp)


def _kv_share(heads: int, tp: int) -> float:
    """The share of the key and value heads that one rank holds."""
    return max(1, heads // tp) / max(1, heads)


def _loaded(group: Group, facts: ModelFacts, request: MemoryRequest) -> float:
    """Bytes of a group over all ranks, in the types that it is loaded in."""
    dtype = facts.config.dtype if request.dtype == "auto" else request.dtype
    element = DTYPE_BYTES.get(dtype, 2)
    size = float(group.floats * element + group.fixed)
    if request.quantization and facts.config.quantization is None:
        small = _LOAD_QUANTIZED.get(request.quantization, _LEAST_QUANTIZED)
        size -= group.matrices * max(0.0, element - small)
    return size
