"""The counters of a running engine, as its ``/metrics`` give them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import httpx

Samples = list[tuple[str, str, float]]
"""Name, labels and value of each sample."""

_SAMPLE = re.compile(r"^(?P<name>vllm:[a-z_]+)(?P<labels>\{[^}]*\})? (?P<value>\S+)$", re.MULTILINE)
_WORK = frozenset(
    f"vllm:{name}"
    for name in (
        "prompt_tokens_total",
        "generation_tokens_total",
        "iteration_tokens_total_count",
        "iteration_tokens_total_sum",
        "kv_cache_usage_perc",
        "gpu_cache_usage_perc",  # as v0 and the first v1 call it
        "num_preemptions_total",
    )
)
"""What only a step of the engine changes: also a step within a long prefill takes cache blocks."""


def samples(base_url: str, *, patience: float = 10.0) -> Samples:
    """All samples of vLLM's own; none where the server does not tell them in time."""
    try:
        answer = httpx.get(f"{base_url}/metrics", timeout=patience, trust_env=False)
    except httpx.HTTPError:
        return []
    if answer.status_code != httpx.codes.OK:
        return []
    found = []
    for hit in _SAMPLE.finditer(answer.text):
        try:
            found.append((hit["name"], hit["labels"] or "", float(hit["value"])))
        except ValueError:
            continue
    return found


def total(found: Samples, name: str) -> int | None:
    """The sum of a counter over all engines of a server; None where it is not told."""
    values = [value for known, _, value in found if known == name]
    return int(sum(values)) if values else None


@dataclass(frozen=True, slots=True)
class Work:
    """What an engine has done, at one moment.

    Attributes:
        done: Samples that only a step of the engine changes.
        running: Requests that it works on; None where it does not say.
        waiting: Requests in its queue; None where it does not say.
    """

    done: frozenset[tuple[str, str, float]] = frozenset()
    running: int | None = None
    waiting: int | None = None

    @property
    def queued(self) -> bool:
        """Whether requests wait for their turn and none runs, so that no token is to be expected."""
        return bool(self.waiting) and self.running == 0

    def moved_since(self, before: Work) -> bool:
        """Whether the engine has done a step since."""
        return bool(self.done and before.done) and self.done != before.done


def work_of(base_url: str, *, patience: float = 1.0) -> Work:
    """What an engine has done until now; an empty one where its server does not tell in time."""
    found = samples(base_url, patience=patience)
    return Work(
        frozenset(sample for sample in found if sample[0] in _WORK),
        total(found, "vllm:num_requests_running"),
        total(found, "vllm:num_requests_waiting"),
    )
