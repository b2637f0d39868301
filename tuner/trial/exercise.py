"""What a trial's requests made of its engine, by the engine's own counts: steps, tokens, preemptions.

A parameter is exercised where another value of it would have made something else of the same
requests. So these counts say which parameters a workload never came near.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuner.trial.counters import Samples, samples, total

_STEPS = re.compile(r"\[enginex\] moe steps (?P<fields>\S.*)$")
_FIELD = re.compile(r"(\w+)=(\S+)")
_COUNT = re.compile(r"(\d+):(\d+)")
_EXACT = 64
"""Up to so many tokens enginex counts steps exactly; above, by the next power of two."""
_LE = re.compile(r'le="([^"]+)"')


@dataclass(frozen=True, slots=True)
class Exercise:
    """What an engine did since its start. What nothing told is None or empty.

    Attributes:
        steps: Steps by their number of tokens, as enginex counts them: exact up to 64; above, the
            key is the power of two that the number was rounded up to.
        variant_steps: Steps that an enginex variant computed.
        largest: No step had more tokens than this.
        tokens: Prompt and generated tokens of all requests.
        preemptions: Requests that had to give their memory back.
    """

    steps: Mapping[int, int] = field(default_factory=dict)
    variant_steps: int | None = None
    largest: int | None = None
    tokens: int | None = None
    preemptions: int | None = None

    def as_json(self) -> dict[str, Any]:
        """The counts as JSON-ready data."""
        return {
            "steps": {str(tokens): count for tokens, count in self.steps.items()},
            "variant_steps": self.variant_steps,
            "largest": self.largest,
            "tokens": self.tokens,
            "preemptions": self.preemptions,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Exercise:
        """The counts that :meth:`as_json` wrote."""
        steps = {int(tokens): count for tokens, count in data["steps"].items()}
        return cls(**{**data, "steps": steps})

    def any_step(self, above: int, up_to: int) -> bool:
        """Whether a step may have had more than ``above`` and at most ``up_to`` tokens."""
        return any(
            (tokens if tokens <= _EXACT else tokens // 2 + 1) <= up_to and tokens > above
            for tokens in self.steps
        )


def read_exercise(log: Path, base_url: str, *, patience: float = 3.0) -> Exercise:
    """Read a running engine's counts from its log and its metrics.

    Args:
        log: The engine's log.
        base_url: Where it serves.
        patience: Seconds to wait for the counts of what was computed last. enginex prints when a burst
            of steps is over; counts that lack a part of the load would call exercised what was not
            counted yet inert, so they are then not read at all.
    """
    found = samples(base_url)
    computed = _computed(found)
    deadline = time.monotonic() + patience
    while (fields := _last_steps(log)) and _counted(fields) < computed:
        if time.monotonic() > deadline:
            fields = {}
            break
        time.sleep(0.05)
    steps = _steps(fields)
    tokens = [total(found, f"vllm:{kind}_tokens_total") for kind in ("prompt", "generation")]
    known = [count for count in tokens if count is not None]
    variant = fields.get("tiny")
    return Exercise(
        steps=steps,
        variant_steps=None if variant is None else int(variant),
        largest=max(steps, default=None) or _largest(found),
        tokens=sum(known) if len(known) == len(tokens) else None,
        preemptions=total(found, "vllm:num_preemptions_total"),
    )


def _steps(fields: Mapping[str, str]) -> dict[int, int]:
    return {int(t): int(n) for t, n in _COUNT.findall(fields.get("by_tokens", ""))}


def _counted(fields: Mapping[str, str]) -> int:
    """Tokens of all the steps that are counted; from above where the line does not say it."""
    told = fields.get("tokens", "")
    return int(told) if told.isdigit() else sum(t * n for t, n in _steps(fields).items())


def _computed(found: Samples) -> int:
    """Tokens that the engine has computed at least: generated ones, and of prompts what no cache held.

    A request's last token is put out and not computed any more.
    """
    prompts = total(found, "vllm:prompt_tokens_total") or 0
    generated = total(found, "vllm:generation_tokens_total") or 0
    hits = total(found, "vllm:prefix_cache_hits_total")
    requests = total(found, "vllm:request_success_total") or 0
    uncached = 0 if hits is None else max(0, prompts - hits)
    return max(0, generated - requests) + uncached


def _last_steps(log: Path) -> dict[str, str]:
    """The fields of the last line of counts; all workers count the same steps."""
    found: dict[str, str] = {}
    try:
        with log.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if (hit := _STEPS.search(line)) is not None:
                    found = dict(_FIELD.findall(hit["fields"]))
    except OSError:
        return {}
    return found if found.get("tiny", "0").isdigit() else {}


def _largest(found: Samples) -> int | None:
    """The upper end of the largest step's bucket.

    vLLM counts a whole prompt with the step that ends its prefill, so this may be too large; it is
    never too small.
    """
    counts: dict[float, float] = {}
    for name, labels, value in found:
        if name == "vllm:iteration_tokens_total_bucket" and (edge := _LE.search(labels)):
            counts[float(edge[1])] = counts.get(float(edge[1]), 0.0) + value
    whole = max(counts.values(), default=0.0)
    ends = [edge for edge, count in counts.items() if count == whole and whole > 0]
    least = min(ends, default=float("inf"))
    return int(least) if least != float("inf") else None
