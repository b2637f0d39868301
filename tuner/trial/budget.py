"""How much of a study's budget is spent, and whether one more trial fits."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.store.rows import ON_PURPOSE, Transition, TrialRow
from tuner.store.stages import RECOVERY, Stage, is_running


@dataclass(frozen=True, slots=True)
class Spending:
    """What a study has spent.

    Attributes:
        trials: Trials for which an engine was started, those that ran again on purpose not counted.
        engine: Seconds in which an engine was up or starting.
        wall: Seconds of work, pauses between sessions left out.
        durations: Seconds of each trial that started an engine, by number.
    """

    trials: int
    engine: float
    wall: float
    durations: dict[int, float]

    def typical(self, default: float = 0.0) -> float:
        """Seconds that a trial takes: the median over all that started an engine, failed ones too."""
        return statistics.median(self.durations.values()) if self.durations else default


def spent(
    trials: Sequence[TrialRow], transitions: Sequence[Transition], *, session: float
) -> Spending:
    """Add up a study's ledger.

    Args:
        trials: All trials of the study.
        transitions: All their transitions, in order.
        session: Seconds of work on the study, in all its sessions.
    """
    steps: dict[int, list[Transition]] = {}
    for step in transitions:
        steps.setdefault(step.number, []).append(step)
    durations = {t.number: engine_seconds(steps.get(t.number, [])) for t in trials if t.launched}
    engine = sum(durations.values())
    return Spending(
        trials=sum(t.launched and t.origin not in ON_PURPOSE for t in trials),
        engine=engine,
        wall=max(engine, session),
        durations=durations,
    )


def engine_seconds(steps: Sequence[Transition]) -> float:
    """Seconds of a trial in which its engine was up or starting, over all its attempts.

    Differences are taken on the boot's own clock. A gap across a reboot counts for nothing, and so
    does one that recovery ended: nobody knows when in it the tuner was killed.
    """
    total = 0.0
    for before, after in itertools.pairwise(steps):
        seen = before.boot == after.boot and after.detail.get("by") != RECOVERY
        if is_running(before.stage) and seen:
            total += max(0.0, after.clock - before.clock)
    return total


def stage_seconds(steps: Sequence[Transition]) -> dict[Stage, float]:
    """Seconds that a trial's last attempt spent on the way to each stage."""
    attempt = max((s.attempt for s in steps), default=0)
    mine = [s for s in steps if s.attempt == attempt]
    return {
        after.stage: max(0.0, after.clock - before.clock)
        for before, after in itertools.pairwise(mine)
        if before.boot == after.boot
    }
