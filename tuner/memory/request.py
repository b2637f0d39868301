"""What a deployment asks of memory, read from the server's arguments and environment."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["MemoryRequest", "parse_request"]

GIB = 2**30


@dataclass(frozen=True, slots=True)
class MemoryRequest:
    """The settings that memory depends on. What was not said is None or the engine's default.

    Attributes:
        device: ``gpu`` or ``cpu``.
        generation: ``v1``, or ``v0`` for engines and forks up to 0.6 that allot states up front.
        tp: Tensor-parallel ranks.
        pp: Pipeline stages.
        dp: Data-parallel replicas.
        expert_parallel: Whether experts are spread over ranks instead of split.
        max_model_len: Tokens of the longest sequence; 0 when the engine fits it to the memory.
        max_num_seqs: Sequences in one step.
        max_num_batched_tokens: Tokens in one step.
        utilization: Share of the device that the engine may use.
        dtype: Type of the weights; ``auto`` takes the model's.
        kv_dtype: Type of the cache.
        block_size: Tokens of a block.
        kv_bytes: Bytes of cache on each rank, where asked for outright.
        blocks: Number of blocks, where asked for outright.
        quantization: Method of quantization, where asked for.
        prefix_caching: Whether prefixes are kept; None is the engine's choice.
        mamba_mode: ``none``, ``align`` or ``all``; None is the engine's choice.
        ssm_dtype: Type of recurrent states; ``auto`` takes the model's.
        speculative_tokens: Tokens that are speculated.
        chunked_prefill: Whether long prompts are cut; None is the engine's choice.
        hybrid_cache: Whether layers of different kinds share one pool of blocks.
        all_layers_cached: Whether the engine keeps keys and values for layers that have none, as a
            v0 fork does that knows no hybrid models.
        amx: Whether the processor has matrix tiles, which decides how latent attention is cached.
        text_only: Whether the parts for images and sound are left out.
        offload_bytes: Bytes of weights on each rank that are kept on the host.
        layer_partition: Layers of each stage, where given.
    """

    device: str = "gpu"
    generation: str = "v1"
    tp: int = 1
    pp: int = 1
    dp: int = 1
    expert_parallel: bool = False
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    utilization: float = 0.92
    dtype: str = "auto"
    kv_dtype: str = "auto"
    block_size: int | None = None
    kv_bytes: int | None = None
    blocks: int | None = None
    quantization: str | None = None
    prefix_caching: bool | None = None
    mamba_mode: str | None = None
    ssm_dtype: str = "auto"
    speculative_tokens: int = 0
    chunked_prefill: bool | None = None
    hybrid_cache: bool = True
    all_layers_cached: bool = False
    amx: bool = False
    text_only: bool = False
    offload_bytes: int = 0
    layer_partition: tuple[int, ...] | None = None

    @property
    def ranks(self) -> int:
        """Processes that hold weights."""
        return self.tp * self.pp * self.dp

    @property
    def state_mode(self) -> str:
        """How recurrent states are kept; prefix caching turns ``none`` into ``align``."""
        if self.prefix_caching and self.mamba_mode in (None, "none"):
            return "align"
        if self.prefix_caching is False or self.mamba_mode is None:
            return "none"
        return self.mamba_mode


_FIRST_V1 = (0, 8)
_ONLY_V1 = (0, 11)

_ALIASES = {
    "tp": "tensor-parallel-size", "pp": "pipeline-parallel-size", "dp": "data-parallel-size",
    "ep": "enable-expert-parallel", "q": "quantization",
}  # fmt: skip
_SWITCHES = (
    "enable-expert-parallel", "enable-prefix-caching", "enable-chunked-prefill",
    "disable-hybrid-kv-cache-manager", "language-model-only",
)  # fmt: skip
_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])?")
_HUMAN_UNITS = {
    "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12,
    "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40,
}  # fmt: skip


def parse_request(
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    *,
    device: str | None = None,
    generation: str | None = None,
    version: str | None = None,
    all_layers_cached: bool = False,
    cpu_flags: Collection[str] = (),
) -> MemoryRequest:
    """Read what a vLLM command asks of memory.

    A value that makes no sense is passed over: the engine's own parser says so far better.

    Args:
        argv: Arguments of the server.
        env: Its environment.
        device: ``gpu`` or ``cpu``; None takes ``cpu`` when the arguments or the environment say so.
        generation: ``v0`` or ``v1``; None takes what vLLM of this version does in this environment.
        version: vLLM's version; None is taken for a present one.
        all_layers_cached: Whether the engine keeps keys and values for every layer.
        cpu_flags: Features of the processor. With ``avx512_bf16`` vLLM's kernel for GatedDeltaNet
            keeps its states in 32 bits; without ``amx_tile`` latent attention has blocks of 16.
    """
    env = {} if env is None else env
    given = _arguments(argv)
    where = device or _device(given, env)
    engine = generation or _generation(version, env.get("VLLM_USE_V1"))
    kv_bytes = _number(given.get("kv-cache-memory-bytes"))
    if where == "cpu" and (space := _whole(env.get("VLLM_CPU_KVCACHE_SPACE"))):
        kv_bytes = space * GIB
    ssm = given.get("mamba-ssm-cache-dtype", "auto")
    bf16 = "avx512_bf16" in cpu_flags
    return MemoryRequest(
        device=where,
        generation=engine,
        tp=_positive(given.get("tensor-parallel-size")),
        pp=_positive(given.get("pipeline-parallel-size")),
        dp=_positive(given.get("data-parallel-size")),
        expert_parallel=_switch(given, "enable-expert-parallel") is True,
        max_model_len=_model_len(given.get("max-model-len")),
        max_num_seqs=_number(given.get("max-num-seqs")) or None,
        max_num_batched_tokens=_number(given.get("max-num-batched-tokens")) or None,
        utilization=_utilization(given.get("gpu-memory-utilization"), engine),
        dtype=given.get("dtype", "auto"),
        kv_dtype=given.get("kv-cache-dtype", "auto"),
        block_size=_number(given.get("block-size")) or None,
        kv_bytes=kv_bytes,
        blocks=_number(given.get("num-gpu-blocks-override")) or None,
        quantization=given.get("quantization"),
        prefix_caching=_switch(given, "enable-prefix-caching"),
        mamba_mode=given.get("mamba-cache-mode"),
        ssm_dtype="float32" if ssm == "auto" and where == "cpu" and bf16 else ssm,
        speculative_tokens=_speculative(given),
        chunked_prefill=_switch(given, "enable-chunked-prefill"),
        hybrid_cache=_switch(given, "disable-hybrid-kv-cache-manager") is not True,
        all_layers_cached=all_layers_cached,
        text_only=_text_only(given),
        amx="amx_tile" in cpu_flags,
        offload_bytes=int((_real(given.get("cpu-offload-gb")) or 0.0) * GIB),
        layer_partition=_partition(env.get("VLLM_PP_LAYER_PARTITION")),
    )


def _arguments(argv: Sequence[str]) -> dict[str, str]:
    """Long names with dashes to their values; a switch has "true" or "false". The last one counts."""
    found: dict[str, str] = {}
    position = 0
    while position < len(argv):
        word = argv[position]
        position += 1
        name, equals, value = word.partition("=")
        if not re.fullmatch(r"--?[A-Za-z][\w.-]*", name):
            continue
        name = name.lstrip("-").replace("_", "-")
        name = _ALIASES.get(name, name)
        if equals:
            found[name] = value
        elif name in _SWITCHES:
            found[name] = "true"
        elif name.removeprefix("no-") in _SWITCHES:
            found[name.removeprefix("no-")] = "false"
        elif position < len(argv) and not re.match(r"--?[A-Za-z]", argv[position]):
            found[name] = argv[position]
            position += 1
    return found


def _device(given: Mapping[str, str], env: Mapping[str, str]) -> str:
    says_cpu = given.get("device") == "cpu" or env.get("VLLM_TARGET_DEVICE") == "cpu"
    return "cpu" if says_cpu or env.get("VLLM_CPU_KVCACHE_SPACE") else "gpu"


def _switch(given: Mapping[str, str], name: str) -> bool | None:
    value = given.get(name)
    return None if value is None else value.lower() in ("true", "1", "yes")


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"\d{1,15}", text.strip()) else None


def _number(text: str | None) -> int | None:
    """A count as vLLM writes it: 4096, 4k (thousands) or 4K (1024s)."""
    found = _HUMAN.fullmatch(text.strip()) if text is not None and len(text) < 20 else None
    if found is None:
        return None
    return int(float(found[1]) * _HUMAN_UNITS.get(found[2], 1))


def _positive(text: str | None) -> int:
    return max(1, _whole(text) or 1)


def _model_len(text: str | None) -> int | None:
    return 0 if text in ("-1", "auto") else _number(text) or None


def _real(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return value if value is not None and 0 < value < 1e9 else None


def _generation(version: str | None, asked: str | None) -> str:
    """The generation of an engine: from 0.8 on v1 is the default, and from 0.11 on all there is."""
    found = re.match(r"v?(\d+)\.(\d+)", version or "")
    release = (int(found[1]), int(found[2])) if found else None
    if release is not None and release >= _ONLY_V1:
        return "v1"
    if asked is not None:
        return "v0" if asked == "0" else "v1"
    return "v0" if release is not None and release < _FIRST_V1 else "v1"


def _utilization(text: str | None, generation: str) -> float:
    value = _real(text)
    if value is not None and value <= 1:
        return value
    return 0.9 if generation == "v0" else 0.92


def _json(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _speculative(given: Mapping[str, str]) -> int:
    dotted = given.get("speculative-config.num-speculative-tokens")
    named = _json(given.get("speculative-config")).get("num_speculative_tokens")
    older = given.get("num-speculative-tokens")
    first = next((each for each in (dotted, named, older) if each is not None), None)
    return _whole(str(first)) or 0


def _text_only(given: Mapping[str, str]) -> bool:
    if _switch(given, "language-model-only"):
        return True
    limits = _json(given.get("limit-mm-per-prompt"))
    return bool(limits) and all(each == 0 for each in limits.values())


def _partition(text: str | None) -> tuple[int, ...] | None:
    parts = [_whole(part) for part in text.split(",")] if text else []
    known = tuple(part for part in parts if part is not None)
    return known if parts and len(known) == len(parts) else None
