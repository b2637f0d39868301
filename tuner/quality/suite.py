"""Asks a running engine everything at once that may be asked at once, and stops when it is gone."""

from __future__ import annotations

import asyncio
import enum
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tuner.load.run import Flag
from tuner.quality.asking import NO_ANSWER, Asker, ProbeFailed
from tuner.quality.catalogue import Probe
from tuner.spec.quality import Need

_LOOK = 0.05
_GRACE = 1.0
_ENDED = "the engine ended, or was stopped, while it was asked"
T = TypeVar("T")


class Outcome(enum.StrEnum):
    """What became of a probe."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_ASKED = "not asked"  # the engine was gone, or the study was told to stop


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """One probe and what became of it.

    Attributes:
        name: The probe.
        need: What a failure means.
        outcome: What became of it.
        reason: Why it failed, or what it was doing when the engine ended.
        seconds: How long it took.
    """

    name: str
    need: Need
    outcome: Outcome
    reason: str | None
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """The result as JSON-ready data."""
        return {
            "name": self.name,
            "need": self.need,
            "outcome": str(self.outcome),
            "reason": self.reason,
            "seconds": round(self.seconds, 3),
        }


class Interrupted(Exception):
    """Raised when the flag was set before the work was done."""


async def unless(stop: Flag, work: Awaitable[T]) -> T:
    """Wait for work, and drop it as soon as a flag is set.

    Raises:
        Interrupted: When the flag was set first.
    """
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=_LOOK)
            if not task.done() and stop.is_set():
                raise Interrupted
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
    return task.result()


async def run_probes(
    ask: Asker,
    probes: Mapping[Probe, Need],
    stop: Flag,
    hear: Callable[[ProbeResult], None] = lambda _: None,
    *,
    one_by_one: bool = False,
) -> tuple[ProbeResult, ...]:
    """Ask all probes: first those that need quiet, then the others at once, then the heavy ones.

    Args:
        ask: The server.
        probes: What to ask, with what a failure means.
        stop: Ends it; what is under way then counts as not asked and says so.
        hear: Is given each result as it comes.
        one_by_one: Ask nothing at once, so that a request that ends the engine is known.

    Returns:
        A result for each probe, in their order.
    """
    found: dict[str, ProbeResult] = {}

    async def one(probe: Probe) -> None:
        result = await _asked(ask, probe, probes[probe], stop)
        found[probe.name] = result
        hear(result)

    groups = [[probe] for probe in probes] if one_by_one else _groups(probes)
    for group in groups:
        await asyncio.gather(*map(one, group))
    return tuple(found[probe.name] for probe in probes)


def _groups(probes: Iterable[Probe]) -> list[list[Probe]]:
    """What may be asked at once."""
    every = list(probes)
    quiet = [[p] for p in every if p.quiet and p.suite == "core"]
    crowd = [p for p in every if not p.quiet]
    heavy = [[p] for p in every if p.quiet and p.suite == "full"]
    return [*quiet, crowd, *heavy]


async def _asked(ask: Asker, probe: Probe, need: Need, stop: Flag) -> ProbeResult:
    began = time.monotonic()
    outcome, reason = Outcome.PASSED, None
    if stop.is_set():
        outcome = Outcome.NOT_ASKED
    else:
        try:
            await unless(stop, probe.ask(ask))
        except ProbeFailed as wrong:
            outcome, reason = Outcome.FAILED, str(wrong)
            await _seen(stop, wrong)
        except Interrupted:
            outcome, reason = Outcome.NOT_ASKED, _ENDED
    if outcome is Outcome.FAILED and stop.is_set():
        outcome = Outcome.NOT_ASKED  # the engine's end is the cause, and is judged for itself
        reason = _ENDED
    return ProbeResult(probe.name, need, outcome, reason, time.monotonic() - began)


async def _seen(stop: Flag, wrong: ProbeFailed) -> None:
    """Where no answer came at all, give whoever watches the engine time to see that it has ended."""
    if str(wrong).startswith(NO_ANSWER):
        for _ in range(round(_GRACE / _LOOK)):
            if not stop.is_set():
                await asyncio.sleep(_LOOK)


def failures(
    results: Iterable[ProbeResult], baseline: Iterable[ProbeResult] | None
) -> tuple[str, ...]:
    """What makes a trial unhealthy, in words; empty where nothing does.

    Args:
        results: What became of its probes.
        baseline: What became of the baseline's; None for the baseline itself.
    """
    passed = {r.name for r in baseline or () if r.outcome is Outcome.PASSED}
    return tuple(
        f"probe {r.name}: {r.reason}"
        for r in results
        if r.outcome is Outcome.FAILED
        and (r.need == "required" or (r.need == "as_baseline" and r.name in passed))
    )
