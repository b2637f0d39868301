"""What the fake server counts: steps by tokens as enginex prints them, and vLLM's metrics."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from typing import Any

EDGES = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
KV_TOKENS_PER_GIB = 20_000


STAGES = {"routed_experts": (4, 0.0005), "gdn": (3, 0.0002), "attention": (1, 0.0003)}
"""Stages of the fake's steps: calls in one step, and seconds of one call."""


class Counts:
    """Counts of one engine.

    Args:
        batch: Tokens that a step may hold.
    """

    def __init__(self, batch: int) -> None:
        self.batch = batch
        self.impl = os.environ.get("ENGINEX_MOE_TINY_IMPL")
        self.tiny_max = int(os.environ.get("ENGINEX_MOE_TINY_MAX", "4"))
        self.every = int(os.environ.get("ENGINEX_PROFILE_EVERY", "200"))
        self.profiling = os.environ.get("ENGINEX_PROFILE_DECODE") == "1"
        self.timed = {"prefill": 0, "decode": 0}
        self.printed = 0
        self.steps: Counter[int] = Counter()
        self.prompt = self.generated = 0
        self.running = self.waiting = 0
        self.blocks = 0.0
        self._lock = threading.Lock()

    def add(self, prompt: int, cached: int, generated: int) -> str | None:
        """Count a request; the line that enginex would print, where it is there."""
        with self._lock:
            self.prompt += prompt
            self.generated += generated
            left = prompt - cached
            while left > 0:
                self.steps[min(left, self.batch)] += 1
                left -= self.batch
            self.steps[1] += generated
            return self._line() if self.impl else None

    def _line(self) -> str:
        small = sum(n for t, n in self.steps.items() if t <= self.tiny_max)
        tiny = 0 if self.impl == "native" else small
        spread: Counter[int] = Counter()
        for tokens, count in self.steps.items():
            spread[tokens if tokens <= 64 else 1 << (tokens - 1).bit_length()] += count
        by = ",".join(f"{t}:{n}" for t, n in sorted(spread.items()))
        native = self.steps.total() - tiny
        return f"[enginex] moe steps tiny={tiny} native={native} by_tokens={{{by}}} pid=1"

    def profile(self, prompt: int, cached: int, generated: int) -> list[str]:
        """The lines that enginex would print of a request's steps, where it is told to time them."""
        if not self.profiling:
            return []
        with self._lock:
            self.timed["prefill"] += -(-max(1, prompt - cached) // self.batch)
            self.timed["decode"] += generated
            due = sum(self.timed.values()) // self.every
            if due == self.printed:
                return []
            self.printed = due
            kinds = {kind: _stages(steps) for kind, steps in self.timed.items() if steps}
        text = json.dumps(kinds, separators=(",", ":"))
        rows = [f"{kind}.{name}" for kind, one in kinds.items() for name in one["stages"]]
        table = [f"[enginex] profile | {row}" for row in ("stage  total ms", *rows)]
        return [f"[enginex] profile pid=1 stages={text}", *table]

    def metrics(self) -> str:
        """The metrics, in Prometheus' form."""
        with self._lock:
            lines = [
                f'vllm:prompt_tokens_total{{engine="0"}} {float(self.prompt)}',
                f'vllm:generation_tokens_total{{engine="0"}} {float(self.generated)}',
                'vllm:num_preemptions_total{engine="0"} 0.0',
                f'vllm:num_requests_running{{engine="0"}} {self.running}.0',
                f'vllm:num_requests_waiting{{engine="0"}} {self.waiting}.0',
                f'vllm:kv_cache_usage_perc{{engine="0"}} {self.blocks}',
            ]
            for edge in (*EDGES, float("inf")):
                count = sum(n for t, n in self.steps.items() if t <= edge)
                name = "+Inf" if edge == float("inf") else f"{edge}.0"
                lines.append(
                    f'vllm:iteration_tokens_total_bucket{{engine="0",le="{name}"}} {count}.0'
                )
        return "\n".join(lines) + "\n"


def _stages(steps: int) -> dict[str, Any]:
    """What so many steps of a kind took, as enginex's profile says it."""
    stages = {
        name: {"total_s": round(steps * calls * seconds, 6), "count": steps * calls}
        for name, (calls, seconds) in STAGES.items()
    }
    return {"steps": steps, "stages": stages}
