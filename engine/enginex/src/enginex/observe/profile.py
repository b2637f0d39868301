"""Where a step's time goes, by stage, prefill and decode apart.

Stages nest: a layer of experts contains its router, its shared expert and, with several ranks, an all-reduce. Each
stage is given its own time, without what it contains, so that the parts add up to the step; ``other`` is what no
stage claims (embedding, input preparation, the scheduler's bookkeeping in the worker).

Without synchronisation the times of a device are those of starting its work, not of doing it. With it every stage waits
for the device, which slows the engine: a profile says where the time goes, and never how fast an engine is.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from enginex import lines
from enginex.observe.runner import Observer
from enginex.observe.step import Step

__all__ = ["OTHER", "STAGES", "DecodeProfile", "table"]

STAGES = (
    "attention",
    "gdn",
    "router",
    "routed_experts",
    "shared_expert",
    "mlp",
    "all_reduce",
    "norms",
    "logits",
    "sampling",
)
"""What is told apart. ``mlp`` is a dense block, or what a block of experts does around its parts."""
OTHER = "other"

_Totals = dict[str, tuple[float, int]]


class DecodeProfile(Observer):
    """Adds up the stages' times, and prints them.

    Args:
        every: Print after so many steps.
        sync: Waits for the device; None where times are taken as they are.
        write: Where the lines go.
        clock: In seconds.
    """

    def __init__(
        self,
        every: int,
        sync: Callable[[], None] | None = None,
        write: Callable[[str], None] = lines.emit,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._every = every
        self._sync = sync
        self._write = write
        self._clock = clock
        self._now: dict[str, list[float]] = {}
        self._open: list[float] = []  # for each open stage, the time of what it contains
        self._inside = False
        self._steps: dict[str, int] = {}
        self._totals: dict[str, _Totals] = {}

    def attach(self, scope: str) -> None:
        """Say that the profile is on, and what it sees: ``stages`` or, in a compiled model, only ``step``."""
        fields = {
            "decode": "on",
            "every": self._every,
            "sync": int(self._sync is not None),
            "scope": scope,
        }
        self._write(lines.render("profile", fields | {"pid": os.getpid()}))

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time what happens inside as the stage of that name; outside of a step, do nothing."""
        if not self._inside:
            yield
            return
        began = self._time()
        self._open.append(0.0)
        try:
            yield
        finally:
            whole = self._time() - began
            own = whole - self._open.pop()
            if self._open:
                self._open[-1] += whole
            entry = self._now.setdefault(name, [0.0, 0.0])
            entry[0] += own
            entry[1] += 1

    def wrap(self, name: str) -> Callable[..., Any]:
        """Make a wrapper for :func:`~enginex.observe.modules.cover` that times a stage."""

        def call(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            with self.stage(name):
                return forward(*args, **kwargs)

        return call

    def begin(self, number: int) -> None:  # noqa: ARG002 - an observer's arguments
        """Start to time."""
        self._now, self._open, self._inside = {}, [], True

    def done(self, step: Step, seconds: float) -> None:
        """Add the step to the totals."""
        self._inside = False
        totals = self._totals.setdefault(step.kind, {})
        claimed = 0.0
        for name, (spent, count) in self._now.items():
            before = totals.get(name, (0.0, 0))
            totals[name] = before[0] + spent, before[1] + int(count)
            claimed += spent
        before = totals.get(OTHER, (0.0, 0))
        totals[OTHER] = before[0] + max(0.0, seconds - claimed), before[1] + 1
        self._steps[step.kind] = self._steps.get(step.kind, 0) + 1
        if sum(self._steps.values()) % self._every == 0:
            self.tell()

    def figures(self) -> dict[str, Any]:
        """Return all so far: for prefill and decode the steps and, by stage, total seconds and calls."""
        return {
            kind: {
                "steps": self._steps[kind],
                "stages": {
                    name: {"total_s": round(spent, 6), "count": count}
                    for name, (spent, count) in sorted(totals.items(), key=lambda item: -item[1][0])
                },
            }
            for kind, totals in sorted(self._totals.items())
        }

    def tell(self) -> None:
        """Print the figures as one line of JSON for programs, and as a table for people."""
        figures = self.figures()
        if not figures:
            return
        text = json.dumps(figures, separators=(",", ":"))
        self._write(lines.render("profile", {"pid": os.getpid(), "stages": text}))
        for row in table(figures):
            self._write(f"{lines.PREFIX} profile | {row}")

    def _time(self) -> float:
        if self._sync is not None:
            self._sync()
        return self._clock()


def table(figures: dict[str, Any]) -> list[str]:
    """Render figures: a row for each stage, the largest total first."""
    rows = [("stage", "total ms", "mean ms", "count", "share")]
    for kind, part in figures.items():
        whole = sum(stage["total_s"] for stage in part["stages"].values()) or 1.0
        for name, stage in part["stages"].items():
            total, count = stage["total_s"], stage["count"]
            mean = 1e3 * total / count
            rows.append(
                (
                    f"{kind}.{name}",
                    f"{1e3 * total:.2f}",
                    f"{mean:.3f}",
                    str(count),
                    f"{total / whole:.1%}",
                )
            )
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    return [
        row[0].ljust(widths[0])
        + "".join("  " + c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))
        for row in rows
    ]
