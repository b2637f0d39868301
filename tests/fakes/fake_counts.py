"""What the fake server counts: steps by tokens as enginex prints them, and vLLM's metrics."""

from __future__ import annotations

import os
import threading
from collections import Counter

EDGES = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
KV_TOKENS_PER_GIB = 20_000


class Counts:
    """Counts of one engine.

    Args:
        batch: Tokens that a step may hold.
    """

    def __init__(self, batch: int) -> None:
        self.batch = batch
        self.impl = os.environ.get("ENGINEX_MOE_TINY_IMPL")
        self.tiny_max = int(os.environ.get("ENGINEX_MOE_TINY_MAX", "4"))
        self.steps: Counter[int] = Counter()
        self.prompt = self.generated = 0
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

    def metrics(self) -> str:
        """The metrics, in Prometheus' form."""
        with self._lock:
            lines = [
                f'vllm:prompt_tokens_total{{engine="0"}} {float(self.prompt)}',
                f'vllm:generation_tokens_total{{engine="0"}} {float(self.generated)}',
                'vllm:num_preemptions_total{engine="0"} 0.0',
            ]
            for edge in (*EDGES, float("inf")):
                count = sum(n for t, n in self.steps.items() if t <= edge)
                name = "+Inf" if edge == float("inf") else f"{edge}.0"
                lines.append(
                    f'vllm:iteration_tokens_total_bucket{{engine="0",le="{name}"}} {count}.0'
                )
        return "\n".join(lines) + "\n"
