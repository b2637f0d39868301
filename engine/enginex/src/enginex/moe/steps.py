"""Counts of engine steps by path and by number of tokens, and the line that tells them.

A parameter such as ``ENGINEX_MOE_TINY_MAX`` can be inert: where no step ever holds more than two tokens, 4, 8
and 16 are the same. These counts show it. Counting costs a dictionary update a step.

vLLM kills its workers the moment it is told to stop, so nothing can be left for the end of the process: a
thread prints the counts as soon as a burst of steps is over, and every half minute within one.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable

from enginex import lines
from enginex.moe.names import NATIVE

__all__ = ["StepCounter"]

_EXACT = 64


def bucket(tokens: int) -> int:
    """Return the key under which a step is counted: exact up to 64, then the next power of two."""
    return tokens if tokens <= _EXACT else 1 << (tokens - 1).bit_length()


class StepCounter:
    """Counts steps, and prints the counts after each burst.

    Args:
        write: Where the lines go.
        tick_s: How often the printing thread looks. A burst is over when nothing came in one tick; within
            ten ticks of the last line, three are waited for, so that slow steps are not a burst each.
        longest_s: A burst that lasts longer than this is reported while it lasts.
    """

    def __init__(
        self,
        write: Callable[[str], None] = lines.emit,
        tick_s: float = 0.1,
        longest_s: float = 30.0,
    ) -> None:
        self._counts: Counter[tuple[str, int]] = Counter()
        self._write = write
        self._tick_s = tick_s
        self._longest_s = longest_s
        self._told = 0
        self._told_at = time.monotonic()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to print. Once is enough."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="enginex-steps", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the printing thread and print what is new."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self.tell()

    def add(self, path: str, tokens: int) -> None:
        """Count one step that went by ``path``: a variant's name, or ``native``."""
        self._counts[path, tokens] += 1

    def line(self) -> str:
        """Say all counts so far in one line."""
        counts = self._counts.copy()
        by_tokens: Counter[int] = Counter()
        for (_, tokens), n in counts.items():
            by_tokens[bucket(tokens)] += n
        spread = ",".join(f"{tokens}:{by_tokens[tokens]}" for tokens in sorted(by_tokens))
        by_path: Counter[str] = Counter()
        for (path, _), n in counts.items():
            by_path[path] += n
        native = by_path.pop(NATIVE, 0)
        total = sum(tokens * n for (_, tokens), n in counts.items())
        fields = {"tiny": by_path.total(), "native": native, "tokens": total}
        fields = {**fields, "by_tokens": f"{{{spread}}}"}
        paths = ",".join(f"{path}:{by_path[path]}" for path in sorted(by_path))
        return lines.render("moe steps", {**fields, "by_path": f"{{{paths}}}", "pid": os.getpid()})

    def tell(self) -> None:
        """Print the line if it says something new."""
        with self._lock:
            total = self._counts.total()
            if total == self._told:
                return
            self._told, self._told_at = total, time.monotonic()
            self._write(self.line())

    def _run(self) -> None:
        before, quiet = 0, 0
        while not self._stop.wait(self._tick_s):
            total = self._counts.total()
            quiet = quiet + 1 if total == before else 0
            before = total
            since = time.monotonic() - self._told_at
            if since > self._longest_s or quiet >= (1 if since > 10 * self._tick_s else 3):
                self.tell()
