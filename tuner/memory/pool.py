"""The pool of cache blocks: how large a block is, and how many of them one sequence takes.

In v1 all layers draw blocks from one pool. Layers that keep the same thing form groups of equal
size, a block holds one page for each layer of a group, and every group has a table of blocks of its
own. Recurrent states lie in the same pool, padded to the page of an attention block. In v0 a block
holds all layers, and the states of all ``max_num_seqs`` sequences are allocated up front.

Follows vLLM 0.32 (``vllm/v1/core/kv_cache_utils.py``, ``vllm/platforms/interface.py``) and, for v0,
0.6.3 (``vllm/worker/worker.py``, ``vllm/worker/cache_engine.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from tuner.memory.layers import Attention, AttentionKind, Layer, state_bytes, token_bytes
from tuner.memory.model import ModelFacts
from tuner.memory.request import MemoryRequest
from tuner.memory.weights import stage_layers

__all__ = ["Pool", "kv_bytes_per_token", "plan_pool", "sequence_length", "state_bytes_per_request"]

_GPU_BLOCK = 16
_CPU_BLOCK = 128
_CPU_STEP = 32  # the least block of vLLM's attention kernel for the CPU
_CPU_MLA_BLOCK = 16  # of vLLM's reference kernel, for processors without matrix tiles
_MLA_ALIGNMENT = 128  # of a block in a model that has latent attention and states together
_LEAST_TOKENS = 2048  # a step's tokens where nothing is said: the least of the engine's defaults


@dataclass(frozen=True, slots=True)
class Pool:
    """The layout of the cache on one rank of each stage.

    Attributes:
        block_tokens: Tokens of a block of attention; 0 for a model without attention.
        block_bytes: Bytes of one block on one rank, by stage.
        sequence_blocks: Blocks that one sequence of the longest length takes.
        reserved_blocks: Blocks that the engine keeps for itself.
        upfront_bytes: Bytes of states allocated up front on one rank, by stage; v0 alone.
        exact: Whether the layout is the engine's own; else it is the physical minimum.
        lines: The arithmetic, for people.
    """

    block_tokens: int
    block_bytes: tuple[int, ...]
    sequence_blocks: int
    reserved_blocks: int
    upfront_bytes: tuple[int, ...]
    exact: bool
    lines: tuple[str, ...]

    def needed(self, stage: int) -> int:
        """Bytes of cache without which the engine refuses to start, on one rank of a stage."""
        blocks = self.sequence_blocks + self.reserved_blocks
        return blocks * self.block_bytes[stage] + self.upfront_bytes[stage]

    def blocks(self, kv_bytes: float) -> int:
        """Blocks that this much cache on each rank gives: those of the stage that has the fewest."""
        return min(
            (
                max(0, int((kv_bytes - upfront) // each))
                for each, upfront in zip(self.block_bytes, self.upfront_bytes, strict=True)
                if each
            ),
            default=0,
        )


def sequence_length(facts: ModelFacts, request: MemoryRequest) -> int:
    """Tokens of the longest sequence; 1 where the engine fits the length to the memory."""
    if request.max_model_len is not None:
        return max(1, request.max_model_len)
    return facts.config.max_len or 1


def kv_bytes_per_token(facts: ModelFacts, request: MemoryRequest) -> Fraction:
    """Bytes that one more token takes on one rank, over all layers whose cache grows with it."""
    return sum(
        (
            _token(layer.attention, facts, request)
            for layer in facts.config.layers
            if layer.attention is not None
            and layer.attention.kind in (AttentionKind.FULL, AttentionKind.MLA)
        ),
        Fraction(0),
    )


def state_bytes_per_request(facts: ModelFacts, request: MemoryRequest) -> int:
    """Bytes of recurrent states of one sequence on one rank, over all layers, without padding.

    One copy without prefix caching, two with it in ``align`` mode, one for each block of the
    sequence in ``all`` mode; and one more for each speculated token.
    """
    once = sum(_state(layer, facts, request) for layer in facts.config.layers)
    copies = _copies(request)
    if request.state_mode == "all":
        block = request.block_size or (_CPU_BLOCK if request.device == "cpu" else _GPU_BLOCK)
        copies = -(-sequence_length(facts, request) // block) + request.speculative_tokens
    return once * copies


def plan_pool(facts: ModelFacts, request: MemoryRequest) -> Pool:
    """The layout of the cache for a deployment.

    Args:
        facts: The model.
        request: The deployment's settings.
    """
    if request.generation == "v0":
        return _plan_v0(facts, request)
    sized = _with_pages(facts, request)
    return sized if sized is not None else _physical(facts, request)


def _token(attention: Attention, facts: ModelFacts, request: MemoryRequest) -> Fraction:
    return token_bytes(attention, request.kv_dtype, _dtype(facts, request), request.tp)


def _state(layer: Layer, facts: ModelFacts, request: MemoryRequest) -> int:
    if layer.state is None:
        return 0
    said = request.ssm_dtype
    return state_bytes(
        layer.state,
        model_dtype=_dtype(facts, request),
        ssm_dtype=facts.config.ssm_dtype if said == "auto" else said,
        tp=request.tp,
        speculative=request.speculative_tokens,
    )


def _dtype(facts: ModelFacts, request: MemoryRequest) -> str:
    return facts.config.dtype if request.dtype == "auto" else request.dtype


def _copies(request: MemoryRequest) -> int:
    return (2 if request.state_mode == "align" else 1) + request.speculative_tokens


@dataclass(frozen=True, slots=True)
class _Kind:
    """Layers that keep the same thing, by number."""

    layers: tuple[int, ...]
    blocks: int  # that one sequence takes from one group of them


def _with_pages(facts: ModelFacts, request: MemoryRequest) -> Pool | None:
    """The engine's own layout, or None where its pages differ in a way that is not followed here."""
    layers = facts.config.layers
    tokens = {
        _token(each.attention, facts, request) for each in layers if each.attention is not None
    }
    states = {_state(each, facts, request) for each in layers if each.state is not None}
    both = any(each.attention is not None and each.state is not None for each in layers)
    if len(tokens) > 1 or len(states) > 1 or both or not (tokens or states):
        return None
    token = next(iter(tokens), Fraction(0))
    state = next(iter(states), 0)
    block = _block_tokens(facts, request, token, state)
    page = math.ceil(block * token) if tokens else state
    kinds = _kinds(facts, request, block)
    groups = _groups(kinds)
    spans = stage_layers(len(layers), request.pp, request.layer_partition)
    sequence = sum(kind.blocks * len(parts) for kind, parts in zip(kinds, groups, strict=True))
    per_stage = tuple(
        page * max((_inside(group, span) for parts in groups for group in parts), default=0)
        for span in spans
    )
    lines = _page_lines(block, page, token, state, sum(len(parts) for parts in groups))
    return Pool(
        block_tokens=block if tokens else 0,
        block_bytes=per_stage,
        sequence_blocks=sequence,
        reserved_blocks=1,
        upfront_bytes=(0,) * request.pp,
        exact=True,
        lines=lines,
    )


def _block_tokens(facts: ModelFacts, request: MemoryRequest, token: Fraction, state: int) -> int:
    """Tokens of a block, made longer where a page must be able to hold a state."""
    latent = any(
        each.attention is not None and each.attention.kind is AttentionKind.MLA
        for each in facts.config.layers
    )
    if request.device == "cpu":
        block = request.block_size or _CPU_BLOCK
        block = _CPU_MLA_BLOCK if latent and not request.amx else block
    else:
        block = request.block_size or _GPU_BLOCK
    if not (state and token):
        return block
    step = max(block, _CPU_STEP) if request.device == "cpu" else block
    step = max(step, _MLA_ALIGNMENT) if latent else step
    return step * math.ceil(Fraction(state) / (step * token))


def _kinds(facts: ModelFacts, request: MemoryRequest, block: int) -> list[_Kind]:
    """Layers by what they keep, in the order in which each kind first occurs."""
    length = sequence_length(facts, request)
    members: dict[tuple[object, ...], list[int]] = {}
    taken: dict[tuple[object, ...], int] = {}
    for number, layer in enumerate(facts.config.layers):
        if layer.attention is not None:
            kind, window = layer.attention.kind, layer.attention.window
            if kind in (AttentionKind.SLIDING, AttentionKind.CHUNKED) and not request.hybrid_cache:
                kind, window = AttentionKind.FULL, None
            key: tuple[object, ...] = (kind, window)
            taken[key] = _attention_blocks(kind, window, length, block, request)
        elif layer.state is not None:
            key = ("state",)
            taken[key] = _copies(request)
        else:
            continue
        members.setdefault(key, []).append(number)
    return [_Kind(tuple(each), taken[key]) for key, each in members.items()]


def _attention_blocks(
    kind: AttentionKind, window: int | None, length: int, block: int, request: MemoryRequest
) -> int:
    if window is None or kind in (AttentionKind.FULL, AttentionKind.MLA):
        return -(-length // block)
    # Tokens in flight keep their blocks: a step's worth for each batch that runs at once.
    flight = (request.max_num_batched_tokens or _LEAST_TOKENS) * request.pp
    if kind is AttentionKind.CHUNKED:
        return -(-min(window + flight, length) // block)
    return -(-min(window - 1 + flight, length) // block) + 1


def _groups(kinds: list[_Kind]) -> list[list[tuple[int, ...]]]:
    """Split each kind into groups of one size: the least kind's, or the greatest's where near it."""
    if not kinds:
        return []
    least = min(len(kind.layers) for kind in kinds)
    most = max(len(kind.layers) for kind in kinds)
    size = most if most < 1.5 * least else least
    split: list[list[tuple[int, ...]]] = []
    for kind in kinds:
        count = -(-len(kind.layers) // size)
        split.append([kind.layers[start::count] for start in range(count)])
    return split


def _inside(group: tuple[int, ...], span: tuple[int, int]) -> int:
    return sum(span[0] <= layer < span[1] for layer in group)


def _page_lines(block: int, page: int, token: Fraction, state: int, groups: int) -> tuple[str, ...]:
    lines: list[str] = []
    if token:
        lines.append(f"page: {block} tokens x {float(token):g} B a token and layer = {page:,} B")
    if state:
        padding = f", padded to the page by {100 * (page - state) / state:.2f} %" if token else ""
        lines.append(f"state: {state:,} B a layer{padding}")
    lines.append(f"{groups} group{'s' if groups != 1 else ''} of layers draw from one pool")
    return tuple(lines)


def _physical(facts: ModelFacts, request: MemoryRequest) -> Pool:
    """The least that one sequence can take, without pages: one block that holds it all."""
    length = sequence_length(facts, request)
    spans = stage_layers(len(facts.config.layers), request.pp, request.layer_partition)
    per_stage: list[int] = []
    for first, last in spans:
        total = Fraction(0)
        for layer in facts.config.layers[first:last]:
            if layer.attention is not None:
                held = length
                if layer.attention.window is not None and request.hybrid_cache:
                    held = min(length, layer.attention.window)
                total += held * _token(layer.attention, facts, request)
            total += _state(layer, facts, request) * _copies(request)
        per_stage.append(math.ceil(total))
    line = "layers keep pages of different sizes: only the bytes themselves are counted"
    return Pool(
        block_tokens=0,
        block_bytes=tuple(per_stage),
        sequence_blocks=1,
        reserved_blocks=0,
        upfront_bytes=(0,) * request.pp,
        exact=False,
        lines=(line,),
    )


def _plan_v0(facts: ModelFacts, request: MemoryRequest) -> Pool:
    block = request.block_size or _GPU_BLOCK
    spans = stage_layers(len(facts.config.layers), request.pp, request.layer_partition)
    sequences = request.max_num_seqs or 1
    sizes: list[int] = []
    states: list[int] = []
    for first, last in spans:
        layers = facts.config.layers[first:last]
        tokens = [_token(each.attention, facts, request) for each in layers if each.attention]
        if request.all_layers_cached and tokens:
            tokens = [max(tokens)] * len(layers)
        sizes.append(math.ceil(block * sum(tokens, Fraction(0))))
        states.append(sum(_state(each, facts, request) for each in layers) * sequences)
    which = "all layers" if request.all_layers_cached else "all layers that attend"
    lines = [f"block: {block} tokens of {which} = {max(sizes):,} B"]
    if any(states):
        lines.append(f"states of {sequences} sequences up front = {max(states):,} B")
    return Pool(
        block_tokens=block,
        block_bytes=tuple(sizes),
        sequence_blocks=-(-sequence_length(facts, request) // block),
        reserved_blocks=0,
        upfront_bytes=tuple(states),
        exact=True,
        lines=tuple(lines),
    )
