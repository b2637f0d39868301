"""What competes: our variants, and vLLM's own kernel where it is there, each with its weights as it reads them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from enginex.bench.shapes import Shape
from enginex.moe import registry
from enginex.moe.names import COMPILED, NATIVE, TORCH_VARIANTS
from enginex.native import library
from enginex.native.library import Experts, Layout
from enginex.pages import collapse

__all__ = ["Routing", "WeightSet", "available", "weight_sets"]

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
_MEMORY_SHARE = 0.4
"""Of the memory that is free, how much weights may take."""


@dataclass(frozen=True, slots=True)
class Routing:
    """One step's inputs.

    Attributes:
        hidden: [T, H].
        weights: [T, k] in fp32.
        ids: [T, k] in int32.
        distinct: How many distinct experts were chosen.
    """

    hidden: Tensor
    weights: Tensor
    ids: Tensor
    distinct: int

    @classmethod
    def random(cls, shape: Shape, tokens: int, made: torch.Generator) -> Routing:
        """Choose experts uniformly, as a router with balanced load does."""
        hidden = torch.randn(tokens, shape.hidden, generator=made).to(_DTYPES[shape.dtype])
        scores = torch.randn(tokens, shape.experts, generator=made)
        weights, ids = torch.topk(scores.softmax(-1), shape.topk)
        weights = weights / weights.sum(-1, keepdim=True)
        return cls(hidden, weights, ids.to(torch.int32), int(ids.unique().numel()))


@dataclass(frozen=True, slots=True)
class WeightSet:
    """One layer's weights, and what runs on them.

    Attributes:
        run: By variant, a function from a step's inputs to its result.
        memory: The tensors that the fastest readers read, for measuring the bandwidth.
    """

    run: dict[str, Callable[[Routing], Tensor]]
    memory: list[Tensor]


def available() -> list[str]:
    """List the variants that can run here."""
    names = list(TORCH_VARIANTS)
    try:
        library.load()
        names.append(COMPILED)
    except library.NotBuilt:
        pass
    if _vllm() is not None:
        names.append(NATIVE)
    return names


def weight_sets(shape: Shape, names: list[str], *, huge_pages: bool) -> Iterator[WeightSet]:
    """Make weights: as many sets as the model has layers, or so many that no cache holds them.

    Raises:
        MemoryError: Not even one set fits.
    """
    size = shape.experts * shape.expert_bytes
    packed = NATIVE in names or COMPILED in names
    rows = any(name in TORCH_VARIANTS for name in names) or not packed
    each = size * (int(rows) + int(packed))
    room = int(_free_memory() * _MEMORY_SHARE)
    if room < 2 * size:
        raise MemoryError(
            f"one layer's experts take {size >> 20} MiB and {room >> 20} MiB may be used"
        )
    wanted = shape.layers or max(2, -(-2 * _last_cache() // size))
    made = torch.Generator().manual_seed(0)
    for _ in range(max(1, min(wanted, room // each))):
        yield _weight_set(shape, names, made, huge_pages=huge_pages)


def _weight_set(
    shape: Shape, names: list[str], made: torch.Generator, *, huge_pages: bool
) -> WeightSet:
    dtype = _DTYPES[shape.dtype]
    sizes = (
        (shape.experts, 2 * shape.inter, shape.hidden),
        (shape.experts, shape.hidden, shape.inter),
    )
    # Small integers over a power of two: exact in every dtype, and made twenty times faster than normal ones.
    w13, w2 = (
        (
            torch.randint(-64, 65, s, generator=made, dtype=torch.int8).to(dtype)
            / (64 * s[2] ** 0.5)
        ).contiguous()
        for s in sizes
    )
    run: dict[str, Callable[[Routing], Tensor]] = {}
    ops = _vllm()
    packed: tuple[Tensor, Tensor, str] | None = None
    if (
        ops is not None
        and (NATIVE in names or COMPILED in names)
        and shape.hidden % 32 == shape.inter % 32 == 0
    ):
        packed = _packed(ops, w13, w2)
    if NATIVE in names and packed is not None:
        run[NATIVE] = _native(ops, *packed)
    if COMPILED in names:
        run[COMPILED] = _compiled(w13, w2, packed)
    for name in names:
        if name in TORCH_VARIANTS:
            run[name] = _torch_variant(name, w13, w2)
    memory = [w13, w2] if packed is None else [packed[0], packed[1]]
    if huge_pages:
        for tensor in {t.data_ptr(): t for t in (w13, w2, *memory)}.values():
            collapse(tensor)
    return WeightSet(run, memory)


def _torch_variant(name: str, w13: Tensor, w2: Tensor) -> Callable[[Routing], Tensor]:
    variant = registry.get(name)
    return lambda step: variant(step.hidden, w13, w2, step.weights, step.ids)


def _compiled(
    w13: Tensor, w2: Tensor, packed: tuple[Tensor, Tensor, str] | None
) -> Callable[[Routing], Tensor]:
    """Run the compiled kernel on vLLM's packed weights, as inside the engine, or else on rows."""
    kernels = library.load()
    experts = Experts.of_rows(w13, w2)
    if packed is not None:
        layout = Layout.PAIRS if packed[2] == "amx" else Layout.LANES
        if kernels.reads(w13.dtype, layout):
            experts = Experts(packed[0], packed[1], *w2.shape, layout)
    return lambda step: kernels.moe(experts, step.hidden, step.weights, step.ids)


def _packed(ops: object, w13: Tensor, w2: Tensor) -> tuple[Tensor, Tensor, str]:
    amx = w13.dtype == torch.bfloat16 and torch.cpu._is_amx_tile_supported()  # noqa: SLF001 - as vLLM asks
    isa = "amx" if amx else "vec"
    pack = ops.cpu_prepack_moe_weight  # type: ignore[attr-defined] - vLLM's module
    return pack(w13, isa), pack(w2, isa), isa


def _native(ops: object, w13: Tensor, w2: Tensor, isa: str) -> Callable[[Routing], Tensor]:
    compute = ops.cpu_fused_moe  # type: ignore[attr-defined] - vLLM's module

    def run(step: Routing) -> Tensor:
        out = torch.empty_like(step.hidden)
        compute(
            out,
            step.hidden,
            w13,
            w2,
            None,
            None,
            step.weights,
            step.ids,
            "silu",
            isa,
            skip_weighted=False,
        )
        return out

    return run


def _vllm() -> object | None:
    """Return vLLM's operations if its CPU kernels are there, with AMX switched on for this process."""
    try:
        from vllm import _custom_ops  # noqa: PLC0415 - not there when enginex is used alone
    except ImportError:
        return None
    if not hasattr(torch.ops._C, "cpu_fused_moe"):  # noqa: SLF001 - where vLLM registers them
        return None
    torch.cpu._init_amx()  # noqa: SLF001 - Linux gives AMX to a process that asks, and kills one that does not
    return _custom_ops


def _last_cache() -> int:
    """Bytes of the last-level cache; 64 MiB where Linux does not say."""
    largest = 0
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text().strip()
        unit = {"K": 1 << 10, "M": 1 << 20}.get(text[-1:], 1)
        largest = max(largest, int(text.rstrip("KM")) * unit)
    return largest or 64 << 20


def _free_memory() -> int:
    """Bytes that this process may take without pushing others out, inside a container's limit as well."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) << 10
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
    except (OSError, ValueError):
        return free
    return free if limit == "max" else max(0, min(free, int(limit) - used))
