"""What was asked of an engine against what it runs.

A flag that did nothing, prefix caching that was switched off, a backend that is another one: each is a
:class:`~tuner.verdict.evidence.Finding` with the line or metric that shows it. What the engine does
not say is not guessed at, with one exception: an attention backend that was asked for by name and that
no line mentions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tuner.quantity import format_bytes
from tuner.verdict.backends import LEFT_TO_ENGINE, attention_findings, marker_findings
from tuner.verdict.evidence import Finding
from tuner.verdict.facts import LogFacts
from tuner.verdict.reading import Proof

Asked = str | bool | None
"""A flag's value as it was asked: text, or True and False for ``--x`` and ``--no-x``."""

_SHORT = {
    "-tp": "tensor_parallel_size",
    "-pp": "pipeline_parallel_size",
    "-dp": "data_parallel_size",
    "-q": "quantization",
    "-n": "nnodes",
}
_CONFIG_KEYS = {
    "max_model_len": ("max_seq_len",),
    "dtype": ("dtype",),
    "quantization": ("quantization",),
    "kv_cache_dtype": ("kv_cache_dtype",),
    "load_format": ("load_format",),
    "seed": ("seed",),
    "tensor_parallel_size": ("tensor_parallel_size",),
    "pipeline_parallel_size": ("pipeline_parallel_size",),
    "data_parallel_size": ("data_parallel_size",),
    "decode_context_parallel_size": ("decode_context_parallel_size",),
    "enforce_eager": ("enforce_eager",),
    "enable_prefix_caching": ("enable_prefix_caching",),
    "enable_chunked_prefill": ("enable_chunked_prefill", "chunked_prefill_enabled"),
    "disable_custom_all_reduce": ("disable_custom_all_reduce",),
    "num_scheduler_steps": ("num_scheduler_steps",),
    "tokenizer_mode": ("tokenizer_mode",),
    "trust_remote_code": ("trust_remote_code",),
}
"""Flags and the keys of the engine's config line that say what became of them."""
_CACHE_KEYS = {
    "block_size": "block_size",
    "gpu_memory_utilization": "gpu_memory_utilization",
    "enable_prefix_caching": "enable_prefix_caching",
    "kv_cache_dtype": "cache_dtype",
    "swap_space": "swap_space",
    "cpu_offload_gb": "cpu_offload_gb",
    "num_gpu_blocks_override": "num_gpu_blocks_override",
    "kv_cache_memory_bytes": "kv_cache_memory_bytes",
    "mamba_cache_mode": "mamba_cache_mode",
    "mamba_cache_dtype": "mamba_cache_dtype",
    "mamba_ssm_cache_dtype": "mamba_ssm_cache_dtype",
    "prefix_caching_hash_algo": "prefix_caching_hash_algo",
}
"""Flags and the labels of ``vllm:cache_config_info`` that say what became of them."""
_NOT_COMPARED = {
    "model",
    "tokenizer",
    "host",
    "port",
    "uds",
    "api_key",
    "hf_token",
    "chat_template",
    "served_model_name",
}
"""Where it listens, what it reads, and secrets: paths are rewritten, and no secret is repeated here."""
_DTYPES = {
    "half": "float16",
    "float": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
}
_SIZES = {
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "K": 2**10,
    "M": 2**20,
    "G": 2**30,
    "T": 2**40,
}
_PASSIVE = (
    r"(?:disabled|ignored|overrid\w+|overwritten|not (?:yet |currently )?supported|unsupported|no effect|reset|"
    r"not available|turned off|changed)"
)
_ACTIVE = r"(?:[Dd]isabling|[Ii]gnoring|[Oo]verriding|[Tt]urning off|[Rr]esetting|[Rr]eset)"


def parse_argv(argv: Sequence[str]) -> dict[str, Asked]:
    """Flags by name, with underscores; words that belong to no flag are left out."""
    found: dict[str, Asked] = {}
    name: str | None = None
    for word in argv:
        if word.startswith("--") or word in _SHORT:
            flag, given, value = word.partition("=")
            name = _SHORT.get(flag) or flag.removeprefix("--").replace("-", "_")
            if not given and name.startswith("no_"):
                name = name.removeprefix("no_")
                found[name] = False
                name = None
            else:
                found[name] = value if given else True
                name = None if given else name
        elif name is not None:
            before = found[name]
            found[name] = word if before is True else f"{before} {word}"
    return found


def compare(
    argv: Sequence[str],
    env: Mapping[str, str],
    facts: LogFacts,
    cache_config: Mapping[str, str] | None = None,
) -> list[Finding]:
    """Everything that the engine runs other than it was asked to.

    Args:
        argv: The server's arguments.
        env: The server's environment, or the part of it that was asked for.
        facts: What the log says.
        cache_config: The labels of the metric ``vllm:cache_config_info``, where it was read.
    """
    asked = parse_argv(argv)
    findings = _from_config(asked, facts)
    findings += _from_cache(asked, cache_config or {})
    findings += _from_args(asked, facts)
    findings += _from_numbers(asked, env, facts)
    findings += _from_remarks(asked, env, facts)
    findings += attention_findings(asked, env, facts)
    findings += marker_findings(env, facts)
    once = {(finding.name, finding.kind): finding for finding in reversed(findings)}
    return list(reversed(once.values()))


def _same(asked: Asked, found: Any) -> bool:
    """Whether a value that was asked and one that was found mean the same."""
    if isinstance(asked, bool) or asked is None:
        return str(asked).lower() == str(found).strip("'\"").lower()
    left, right = asked.strip("'\""), str(found).strip("'\"")
    if left.lower() in LEFT_TO_ENGINE:
        return True
    if left.lower() == right.lower():
        return True
    a, b = _number(left), _number(right)
    if a is not None and b is not None:
        return abs(a - b) <= 1e-9 * max(abs(a), abs(b))
    return _dtype(left) == _dtype(right)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        pass
    if text and text[-1] in _SIZES:
        try:
            return float(text[:-1]) * _SIZES[text[-1]]
        except ValueError:
            return None
    return None


def _dtype(text: str) -> str:
    plain = text.lower().removeprefix("torch.")
    return _DTYPES.get(plain, plain)


def _from_config(asked: Mapping[str, Asked], facts: LogFacts) -> list[Finding]:
    findings = []
    for name, keys in _CONFIG_KEYS.items():
        if name not in asked:
            continue
        for key in keys:
            if key in facts.config and not _same(asked[name], facts.config[key]):
                proof = Proof(facts.config_line, f"config line: {key}={facts.config[key]}")
                findings.append(_finding(name, asked[name], facts.config[key], "differs", proof))
    return findings


def _from_cache(asked: Mapping[str, Asked], cache: Mapping[str, str]) -> list[Finding]:
    findings = []
    for name, label in _CACHE_KEYS.items():
        if name in asked and label in cache and not _same(asked[name], cache[label]):
            proof = Proof(None, f"metric vllm:cache_config_info: {label}={cache[label]}")
            findings.append(_finding(name, asked[name], cache[label], "differs", proof))
    return findings


def _from_args(asked: Mapping[str, Asked], facts: LogFacts) -> list[Finding]:
    """Flags that the arguments line shows with another value: given twice, or changed on the way."""
    findings = []
    for name, value in asked.items():
        if (
            name in _NOT_COMPARED
            or name not in facts.args
            or isinstance(facts.args[name], list | dict | tuple)
        ):
            continue
        if not _same(value, facts.args[name]):
            proof = Proof(facts.args_line, f"arguments line: {name}={facts.args[name]!r}")
            findings.append(_finding(name, value, facts.args[name], "differs", proof))
    return findings


def _from_numbers(
    asked: Mapping[str, Asked], env: Mapping[str, str], facts: LogFacts
) -> list[Finding]:
    findings = []
    tokens = asked.get("max_num_batched_tokens")
    if (
        isinstance(tokens, str)
        and facts.batched_tokens is not None
        and not _same(tokens, facts.batched_tokens)
    ):
        proof = Proof(
            None, f"Chunked prefill is enabled with max_num_batched_tokens={facts.batched_tokens}"
        )
        findings.append(
            _finding("max_num_batched_tokens", tokens, facts.batched_tokens, "differs", proof)
        )
    space = _number(env.get("VLLM_CPU_KVCACHE_SPACE", ""))
    on_host = facts.platform in (None, "cpu") and facts.kv_bytes is not None
    if space and on_host and not _close(facts.kv_bytes or 0, space * 2**30):
        proof = Proof(None, f"KV cache of {format_bytes(facts.kv_bytes or 0)}")
        findings.append(
            _finding(
                "VLLM_CPU_KVCACHE_SPACE",
                f"{space:g} GiB",
                format_bytes(facts.kv_bytes or 0),
                "differs",
                proof,
            )
        )
    return findings


def _close(found: float, asked: float) -> bool:
    """Equal but for what printing two digits of GiB and rounding to whole blocks take away."""
    return abs(found - asked) <= 0.01 * 2**30 + 0.02 * asked


def _from_remarks(
    asked: Mapping[str, Asked], env: Mapping[str, str], facts: LogFacts
) -> list[Finding]:
    findings = []
    for remark in facts.remarks:
        for name, value in asked.items():
            if value is not False and _spoken_off(name, remark.text):
                proof = Proof(remark.line, remark.text)
                findings.append(_finding(name, value, "see the line", "ignored", proof))
        for name in env:
            if re.search(rf"Unknown vLLM environment variable.*\b{re.escape(name)}\b", remark.text):
                proof = Proof(remark.line, remark.text)
                findings.append(
                    _finding(name, env[name], "unknown to the engine", "ignored", proof)
                )
    return findings


def _spoken_off(name: str, text: str) -> bool:
    """Whether a remark says of a flag, and not of something else, that it is off."""
    words = [re.escape(word) for word in name.split("_")]
    spellings = "[-_ ]".join(words)
    if words[0] == "enable" and len(words) > 2:
        spellings = f"(?:enable[-_ ])?{'[-_ ]'.join(words[1:])}"
    elif len(words) < 2:
        spellings = f"--{spellings}"
    flag = rf"(?<![\w-])(?:--)?{spellings}(?![\w-])"
    after = rf"{flag}[^.;,]{{0,20}} (?:is|are|was|has|have|will)\b[^.;]{{0,80}}\b{_PASSIVE}"
    return re.search(rf"(?i:{after})|{_ACTIVE} (?i:{flag})", text) is not None


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _finding(name: str, asked: Asked, found: Any, kind: str, proof: Proof) -> Finding:
    return Finding(name=name, asked=_show(asked), found=_show(found), kind=kind, proof=proof)
