"""A first search space for an engine, a model and a machine: sound, commented, and short enough to be read.

It proposes what usually matters, and of that only what the engine knows and what fits the model and
the machine. Everything else is left to the person who reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from tuner.memory.config import ModelConfig
from tuner.quantity import format_bytes
from tuner.telemetry.hardware import Hardware

MOE, MOE_MAX, KV_SPACE = "ENGINEX_MOE_TINY_IMPL", "ENGINEX_MOE_TINY_MAX", "VLLM_CPU_KVCACHE_SPACE"
"""Variables that a draft may propose."""

_LONGEST = 32768
"""Context that is proposed where the model allows more: each further token costs memory."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What a draft stands on.

    Attributes:
        study: The study's name.
        recipe: The engine's recipe: a name, or the path of its folder.
        launch: How the engine is started.
        model: The model's folder; None for the tiny one that is made on the spot.
        config: What the model's config says; None where there is no model to look at.
        hardware: The machine.
        on_devices: Whether the engine uses devices, be they on this machine or on another.
        flags: Flags that the engine's server knows; None where nobody could say.
        variables: Whether the engine reads an environment variable, for those that may be proposed.
    """

    study: str
    recipe: str
    launch: str
    model: str | None
    config: ModelConfig | None
    hardware: Hardware
    on_devices: bool
    flags: AbstractSet[str] | None
    variables: AbstractSet[str]

    def knows(self, flag: str) -> bool:
        """Whether the engine knows a flag, as far as anybody could say."""
        return self.flags is None or flag in self.flags

    @property
    def devices(self) -> int:
        """Devices that the engine can use."""
        return len(self.hardware.devices) if self.on_devices else 0

    @property
    def context(self) -> int:
        """Tokens of context that are proposed."""
        most = self.config.max_len if self.config is not None else None
        return min(most or _LONGEST, _LONGEST)


def draft(ground: Ground) -> str:
    """The text of a search space."""
    sections = (_head(ground), _engine(ground), _parameters(ground), _TAIL)
    return "\n".join(line for section in sections for line in section) + "\n"


def _head(ground: Ground) -> Iterator[str]:
    hardware = ground.hardware
    yield "# Written by `tuner init`; change it to what you need, then: tuner validate FILE, tuner run FILE"
    yield f"# Machine: {hardware.cores} cores, {format_bytes(hardware.memory_total)}; {_devices(ground)}"
    if ground.config is not None:
        yield f"# Model: {_model(ground.config)}"
    yield "version: 1"
    yield f"study: {ground.study}"
    yield "seed: 1"


def _devices(ground: Ground) -> str:
    found = ground.hardware.devices
    if not found:
        return "no devices, which this engine needs" if ground.on_devices else "no devices"
    memory = format_bytes(found[0].memory_total) if found[0].memory_total else "unknown memory"
    used = "" if ground.on_devices else ", which this engine does not use"
    return f"{len(found)} x {found[0].name} with {memory}{used}"


def _model(config: ModelConfig) -> str:
    parts = [config.architecture or config.model_type, f"{len(config.layers)} layers"]
    parts.append(f"{config.query_heads} heads")
    if config.experts:
        parts.append(f"{config.experts} experts")
    if config.max_len:
        parts.append(f"made for {config.max_len} tokens")
    return ", ".join(parts)


def _engine(ground: Ground) -> Iterator[str]:
    model = (
        "{make: tiny-hybrid, seed: 0}"
        if ground.model is None
        else f"{{path: {_quoted(ground.model)}}}"
    )
    yield ""
    yield "# What is started, as far as it is not searched. The baseline is this, with each parameter's baseline."
    yield "engine:"
    yield f"  recipe: {_quoted(ground.recipe)}"
    yield f"  model: {model}"
    yield f"  launch: {ground.launch}"
    yield "  flags:"
    yield f"    --max-model-len: {ground.context} # prompt and answer together, at most"
    if ground.knows("--enable-prompt-tokens-details"):
        yield "    --enable-prompt-tokens-details: true # so that cached tokens are counted"
    if not ground.on_devices and ground.knows("--enforce-eager"):
        yield "    --enforce-eager: true # on a CPU there is nothing to gain from graphs"
    yield "  env:"
    yield '    VLLM_NO_USAGE_STATS: "1"'
    slow = ground.model is not None
    start = "30m" if slow else "5m"
    yield f"  deadlines: {{start: {start}, silence: 5m, stop: 1m}}"


def _parameters(ground: Ground) -> Iterator[str]:
    yield ""
    yield "# What is searched. Write `choices`, or a range (`integer`, `float`), or `switch: pair` for a flag with a"
    yield "# --no- form; `when` ties one parameter to another."
    yield "parameters:"
    yield from _batching(ground)
    if ground.knows("--enable-prefix-caching"):
        yield from _one(
            "prefix_caching",
            "flag: --enable-prefix-caching",
            "switch: pair",
            baseline="true",
            about="Keeps the states of prompts, so that a later turn computes only what is new.",
        )
    yield from _device_memory(ground)
    yield from _host_memory(ground)
    yield from _layout(ground)
    yield from _kernels(ground)


def _batching(ground: Ground) -> Iterator[str]:
    seqs, most = ([8, 16, 32, 64, 128, 256], 32) if ground.on_devices else ([1, 2, 4, 8], 1)
    yield from _one(
        "max_num_seqs",
        "flag: --max-num-seqs",
        f"choices: {seqs}",
        baseline=str(most),
        unit="sequences",
        about="How many sequences share a step.",
    )
    sizes = [2048, 4096, 8192, 16384] if ground.on_devices else [256, 512, 1024, 2048, 4096]
    if not ground.knows("--no-enable-chunked-prefill") and ground.flags is not None:
        sizes = [size for size in sizes if size >= ground.context] or [ground.context]
    yield from _one(
        "max_num_batched_tokens",
        "flag: --max-num-batched-tokens",
        f"choices: {sizes}",
        baseline=str(sizes[min(1, len(sizes) - 1)]),
        unit="tokens",
        about="How many tokens a step may hold; longer prompts are cut into pieces of this size.",
    )


def _device_memory(ground: Ground) -> Iterator[str]:
    if not ground.on_devices:
        return
    if ground.knows("--gpu-memory-utilization"):
        yield from _one(
            "gpu_memory_utilization",
            "flag: --gpu-memory-utilization",
            "choices: [0.85, 0.88, 0.9, 0.92, 0.94]",
            baseline="0.9",
            about="Share of each device that the engine takes; more KV cache, less room for the unforeseen.",
        )
    if ground.knows("--kv-cache-dtype"):
        yield "  # Changes the answers a little; take it in only if you can check their quality."
        yield "  # kv_cache_dtype: {flag: --kv-cache-dtype, choices: [auto, fp8], baseline: auto}"
    if ground.knows("--enforce-eager"):
        yield from _one(
            "enforce_eager",
            "flag: --enforce-eager",
            "switch: bare",
            baseline="false",
            about="Runs without captured graphs: slower, but less memory and a quicker start.",
        )


def _host_memory(ground: Ground) -> Iterator[str]:
    if ground.on_devices or KV_SPACE not in ground.variables:
        return
    free = ground.hardware.memory_total // 2**30
    sizes = [size for size in (1, 2, 4, 8, 16, 32, 64) if size <= max(1, free // 3)]
    yield from _one(
        "kv_space",
        f"env: {KV_SPACE}",
        f"choices: {sizes}",
        baseline="1",
        unit="GiB",
        about="Host memory for keys and values.",
    )


def _layout(ground: Ground) -> Iterator[str]:
    heads = ground.config.query_heads if ground.config is not None else 0
    sizes = [n for n in range(1, ground.devices + 1) if ground.devices % n == 0 and heads % n == 0]
    if len(sizes) < 2 or not ground.knows("--tensor-parallel-size"):
        return
    yield from _one(
        "tensor_parallel",
        "flag: --tensor-parallel-size",
        f"choices: {sizes}",
        baseline=str(sizes[-1]),
        unit="devices",
        about=f"Devices that share each layer; those that divide {ground.devices} devices and {heads} heads.",
    )


def _kernels(ground: Ground) -> Iterator[str]:
    experts = ground.config.experts if ground.config is not None else int(ground.model is None)
    if not experts or MOE not in ground.variables:
        return
    # On a processor the variants of plain torch operations are nowhere the fastest; on devices there are no others.
    variants = "native, tokenwise, bmm, direct" if ground.on_devices else "native, compiled"
    yield from _one(
        "moe",
        f"env: {MOE}",
        f"choices: [{variants}]",
        baseline="native",
        about="How the routed experts are computed in steps of few tokens.",
    )
    if MOE_MAX in ground.variables:
        yield from _one(
            "moe_max",
            f"env: {MOE_MAX}",
            "choices: [1, 2, 4, 8, 16]",
            "when: moe != 'native'",
            baseline="4",
            unit="tokens",
            about="Up to this many tokens a step is small; above, the engine's own kernel computes it.",
        )


def _one(
    name: str, *lines: str, baseline: str, about: str, unit: str | None = None
) -> Iterator[str]:
    yield f"  {name}:"
    yield from (f"    {line}" for line in lines)
    yield f"    baseline: {baseline}"
    if unit is not None:
        yield f"    unit: {unit}"
    yield f"    description: {json.dumps(about)}"


_TAIL = """
rules:
  - require: max_num_batched_tokens >= max_num_seqs
    reason: vLLM refuses a step that cannot hold one token of each sequence.

search:
  sampler: tpe
  startup: 6
  finalists: {count: 2} # the best are measured again, in turns with the baseline, until the answer is clear

# The search ends at whichever is reached first; the finalists' measurements come on top.
budget:
  trials: 30
  wall: 8h

# What is asked of the engine; `docs/reference/search-space.md` has the other kinds. Make it like your own load.
workload:
  kind: conversations
  conversations: 16
  turns: 4
  concurrency: 8
  system_tokens: 800
  turn_tokens: {min: 100, max: 1500}
  output_tokens: 128
  request_timeout: 3m
  time_limit: 10m
  warmup: {conversations: 2}

# What a trial must keep to count at all; `off` where you do not care.
score:
  profile: official
  gates:
    success_rate: 1.0
    cache_hit_rate: off
    ttft_p90_s: 10
    output_tps_p10: off
    weighted: off

export:
  dir: deploy/{study}""".splitlines()


def _quoted(text: str) -> str:
    """A text as YAML takes it for what it is."""
    plain = text.replace("/", "").replace("-", "").replace("_", "").replace(".", "")
    if plain.isascii() and plain.isalnum():
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
