"""What an engine really runs with, by its own words, held against what was asked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import httpx

from tuner.load.endpoint import PLAIN
from tuner.spec.deployment import Deployment
from tuner.verdict import Finding, read_log
from tuner.verdict.compare import compare
from tuner.verdict.facts import LogFacts

_CACHE = re.compile(r"^vllm:cache_config_info\{(?P<labels>.*)\}", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Readback:
    """What was read back.

    Attributes:
        facts: What the log says.
        cache: What ``/metrics`` says of the cache; empty where it does not.
        findings: Where it is not what was asked.
    """

    facts: LogFacts
    cache: dict[str, str]
    findings: tuple[Finding, ...]


def read_back(log: Path, base_url: str, deployment: Deployment) -> Readback:
    """Compare a running engine's log and metrics with what was asked of it.

    Args:
        log: The engine's log up to now.
        base_url: Where it serves.
        deployment: What was asked.
    """
    facts = read_log(log).facts
    cache = cache_config(base_url)
    found = compare(deployment.argv, dict(deployment.env), facts, cache)
    return Readback(facts, cache, tuple(found))


def cache_config(base_url: str) -> dict[str, str]:
    """The labels of the metric in which the engine describes its KV cache; empty without it."""
    try:
        answer = httpx.get(f"{base_url}/metrics", timeout=10.0, trust_env=False, verify=PLAIN)
    except httpx.HTTPError:
        return {}
    found = _CACHE.search(answer.text) if answer.status_code == httpx.codes.OK else None
    return dict(_LABEL.findall(found["labels"])) if found else {}


def facts_json(found: Readback) -> dict[str, object]:
    """What is worth keeping of a readback with the trial."""
    facts = found.facts
    return {
        "version": facts.version,
        "kv_tokens": facts.kv_tokens,
        "gpu_blocks": facts.gpu_blocks,
        "weights_bytes": facts.weights_bytes,
        "kv_bytes": facts.kv_bytes,
        "batched_tokens": facts.batched_tokens,
        "backends": [r.text for r in facts.backends],
        "markers": [r.text for r in facts.markers],
        "remarks": [r.text for r in facts.remarks],
    }
