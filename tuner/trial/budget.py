"""How much of a study's budget is spent, and whether one more trial fits."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.quantity import format_seconds
from tuner.store.rows import Transition, TrialRow
from tuner.store.stages import RECOVERY, Stage, is_running

NAMES = {"trials": "limit of trials", "wall": "wall time", "engine": "engine time"}
"""What each limit is called; the options that raise them have the names of their keys."""


@dataclass(frozen=True, slots=True)
class Spending:
    """What the search of a study has spent; what follows it, and what is run by hand, is not in it.

    Attributes:
        trials: Points for which an engine was started.
        engine: Seconds in which an engine was up or starting.
        wall: Seconds of work, pauses between sessions left out.
        durations: Seconds of each trial that started an engine, by number; of all trials.
    """

    trials: int
    engine: float
    wall: float
    durations: dict[int, float]

    def typical(self, default: float = 0.0) -> float:
        """Seconds that a trial takes: the median over all that started an engine, failed ones too."""
        return statistics.median(self.durations.values()) if self.durations else default

    def obstacles(self, limits: Mapping[str, float], trials: int, times: int) -> tuple[str, ...]:
        """The limits that so many more trials, or the time of so many, do not fit into.

        Args:
            limits: What may be spent, by kind.
            trials: How many trials.
            times: How many trials there must be time for.
        """
        more = times * self.typical()
        needed = {
            "trials": self.trials + trials,
            "wall": self.wall + more,
            "engine": self.engine + more,
        }
        return tuple(name for name, limit in limits.items() if needed[name] > limit)

    def words(self, limits: Mapping[str, float], obstacles: Sequence[str]) -> str:
        """Which limits ended the search, and how much of them is spent, in a sentence."""
        typical = format_seconds(self.typical())
        spent = {
            "trials": f"{self.trials} of {limits.get('trials', 0):.0f}",
            "wall": f"{_of(self.wall, limits.get('wall'))}, and one more trial takes about {typical}",
            "engine": f"{_of(self.engine, limits.get('engine'))}, and one more trial takes about {typical}",
        }
        ends = "; and at its ".join(f"{NAMES[name]}: {spent[name]}" for name in obstacles)
        return f"the search ended at its {ends}"


def _of(seconds: float, limit: float | None) -> str:
    return f"{format_seconds(seconds)} of {format_seconds(limit or 0.0)}"


def durations(trials: Sequence[TrialRow], transitions: Sequence[Transition]) -> dict[int, float]:
    """Seconds of each trial that started an engine, by number.

    Args:
        trials: All trials of the study.
        transitions: All their transitions, in order.
    """
    steps: dict[int, list[Transition]] = {}
    for step in transitions:
        steps.setdefault(step.number, []).append(step)
    return {t.number: engine_seconds(steps.get(t.number, [])) for t in trials if t.launched}


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
