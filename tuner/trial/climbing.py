"""Levels in a running study: which a trial is measured on, and whether it climbs to the next.

A trial is measured on the cheaper levels first, on the engine that it has anyway, and goes on to the
real load unless a level that has shown in this study that it orders as the real one does says that
it need not. What a trial came to on a level is an event of the ledger, and all of this is read from
there. It is never the trial's score: only the real level gives one.
"""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuner.fidelity.agreement import Ladder, Level
from tuner.fidelity.levels import Climb
from tuner.search.keys import key
from tuner.spec import SearchSpace
from tuner.spec.levels import REAL
from tuner.spec.space import Load
from tuner.store.ledger import Ledger
from tuner.store.rows import Origin, TrialRow
from tuner.store.stages import Stage
from tuner.trial.early import CLEARLY_WORSE
from tuner.trial.outcome import Measured

HELD = "held_on_level"
"""The verdict of a trial that did not climb to the real load; its engine was healthy."""

EVENT = "level"
"""The event that says what a trial came to on a level."""

_CANDIDATES = frozenset({Origin.FIRST, Origin.SEARCH})


@dataclass(frozen=True, slots=True)
class Came:
    """What a trial came to on a level.

    Attributes:
        value: Its score, if its population is complete.
        feasible: Whether it kept all gates there.
    """

    value: float | None
    feasible: bool = True

    @classmethod
    def of(cls, measured: Measured) -> Came:
        """What the loads of the level say."""
        return cls(measured.comparable, measured.feasible)


@dataclass(frozen=True, slots=True)
class Held:
    """Why a trial did not climb.

    Attributes:
        level: The level that it stays on.
        value: What it came to there; None where it failed.
        why: Its place there.
        shown: Why the level may say so.
    """

    level: str
    value: float | None
    why: str
    shown: str

    def as_json(self) -> dict[str, Any]:
        """The judgement that the ledger keeps."""
        came = "failed" if self.value is None else f"came to {self.value:,.1f}"
        return {
            "verdict": HELD,
            "title": f"not among the best on the cheaper level {self.level}",
            "stage": "serving",
            "rule": "rank on a level that agrees with the real one",
            "evidence": [
                {"line": None, "text": f"it {came} on {self.level}: {self.why}"},
                {"line": None, "text": f"{self.level} may say so: {self.shown}"},
                {"line": None, "text": "it has no score: the real load was not asked of it"},
            ],
            "notes": [],
            "advice": "Nothing to mend. To have every trial measured in full: search.climb.keep: 1.",
            "teaches": True,
            "retry": "none",
            "violation": None,
            "failed": True,
            "level": self.level,
        }


class Climbing:
    """The levels of one study.

    Args:
        ledger: The ledger.
        study: The study's id.
        space: Its search space.
    """

    def __init__(self, ledger: Ledger, study: int, space: SearchSpace) -> None:
        self._ledger = ledger
        self._study = study
        self._rules = space.search.climb
        self._digests = digests(space)
        levels = [Level(name=e.name, cost=1.0, leaves_out=e.leaves_out) for e in space.levels]
        ladder = Ladder(
            levels=(*levels, Level(name=REAL, cost=1.0)),
            keep=self._rules.keep,
            at_least=self._rules.at_least,
        )
        self._climb = Climb(ladder=ladder)
        self._over = -1  # up to this number all are told
        self._heard = 0  # up to this event all are known
        self._candidates = 0
        self._found: dict[tuple[int, int], list[dict[str, Any]]] = {}
        self._values: dict[tuple[int, str], Came] = {}
        self._seconds: dict[str, list[float]] = {}
        self._held: dict[str, int] = {}

    @property
    def any(self) -> bool:
        """Whether the study has cheaper levels at all."""
        return len(self._climb.ladder.levels) > 1

    @property
    def entry(self) -> str:
        """The level whose values the sampler learns from: the cheapest that was not refuted."""
        return self.state().entry

    def state(self) -> Climb:
        """What the trials that are over have shown, in the order of their numbers."""
        if not self.any:
            return self._climb
        for event in self._ledger.events(self._study, self._heard, kinds=(EVENT,)):
            self._heard = event.id
            place = (event.number if event.number is not None else -1, event.data["attempt"])
            self._found.setdefault(place, []).append(event.data)
        for trial in self._ledger.trials(self._study, after=self._over, light=True):
            if trial.stage is not Stage.TOLD:
                break
            self._over = trial.number
            if trial.launched and trial.assignment is not None and trial.block is None:
                self._fold(trial)
        return self._climb

    def _fold(self, trial: TrialRow) -> None:
        point = key(trial.assignment or {})
        found = {
            r["level"]: r
            for r in self._found.pop((trial.number, trial.attempt), ())
            if r["digest"] == self._digests.get(r["level"])
        }
        real = found.pop(REAL, None)
        if trial.origin is Origin.BASELINE or (found and self._next_is_anchor(trial)):
            self._make_anchor(point)
        if trial.origin in _CANDIDATES and found and point not in self._measured:
            self._candidates += 1
        for level, result in found.items():
            came = Came(result["value"], result.get("feasible", True))
            self._learn(trial, point, level, came, result["seconds"])
        if trial.verdict == HELD:
            last = list(found)[-1] if found else REAL
            self._held[last] = self._held.get(last, 0) + 1
            return
        if real is not None and trial.verdict == "healthy":
            came = Came(real["value"], bool(trial.feasible))
            self._learn(trial, point, REAL, came, real["seconds"])
            return
        # It has its answer, and no real value. Ended early, failed for a reason of others (then the
        # sampler was told no value), or asked something else: that is no word against the point.
        ended = trial.verdict in {"healthy", CLEARLY_WORSE} or trial.value is None
        self._climb = self._climb.record(point, REAL, None, cut=ended)

    def _learn(self, trial: TrialRow, point: str, level: str, came: Came, seconds: float) -> None:
        self._climb = self._climb.record(point, level, came.value, feasible=came.feasible)
        self._values[(trial.number, level)] = came
        self._seconds.setdefault(level, []).append(seconds)

    @property
    def _measured(self) -> set[str]:
        return {seen.point for seen in self._climb.results}

    def _make_anchor(self, point: str) -> None:
        if point not in self._climb.anchors:
            anchors = (*self._climb.anchors, point)
            self._climb = self._climb.model_copy(update={"anchors": anchors})

    def _next_is_anchor(self, trial: TrialRow) -> bool:
        """Whether the next candidate is one of those that are measured on all levels."""
        if trial.origin not in _CANDIDATES or key(trial.assignment or {}) in self._measured:
            return False
        beyond = self._candidates - self._rules.anchors
        return beyond < 0 or (beyond + 1) % self._rules.audit == 0

    # --- what is asked for a trial ---------------------------------------------------------------

    def is_anchor(self, trial: TrialRow) -> bool:
        """Whether a trial is to be measured on all levels, to its end, so that they can be held against it."""
        return bool(self.levels(trial)) and self._next_is_anchor(trial)

    def levels(self, trial: TrialRow) -> tuple[str, ...]:
        """The cheaper levels that a trial is measured on before the real load.

        None for what is measured in blocks, where only pairs count; and for a point that was held,
        only those above the level that held it.
        """
        state = self.state()
        if trial.block is not None or trial.assignment is None:
            return ()
        names = [entry.name for entry in state.ladder.levels[:-1]]
        if trial.origin in _CANDIDATES:
            point = key(trial.assignment)
            had = {seen.level for seen in state.results if seen.point == point}
            names = names[max((i + 1 for i, name in enumerate(names) if name in had), default=0) :]
        return tuple(name for name in names if name not in state.retired)

    def held(self, trial: TrialRow, found: Mapping[str, Came]) -> Held | None:
        """Why a trial does not climb; None where it does.

        Args:
            trial: The trial.
            found: What it came to on the levels so far; the last one is asked.
        """
        if trial.origin not in _CANDIDATES or self._next_is_anchor(trial):
            return None
        state, point = self.state(), key(trial.assignment or {})
        for level, came in found.items():
            state = state.record(point, level, came.value, feasible=came.feasible)
        last = list(found)[-1]
        shown = state.agreement(last)
        if shown.standing != "agrees":
            return None
        decision = state.decide(point, last)
        if decision.verdict != "hold":
            return None
        return Held(last, found[last].value, decision.why, shown.why)

    def said(self, trial: TrialRow, level: str, came: Came, seconds: float) -> dict[str, Any]:
        """What the ledger is told of what a trial came to on a level."""
        return {
            "level": level,
            "value": came.value,
            "feasible": came.feasible,
            "seconds": round(seconds, 3),
            "attempt": trial.attempt,
            "digest": self._digests[level],
        }

    # --- what is asked for the search ------------------------------------------------------------

    def value(self, trial: TrialRow) -> float | None:
        """What a trial came to on the level that the sampler learns from: 0 where it failed there.

        So where it failed a gate there and went no further: no later gates say that it is no good.
        None where it was not measured on that level.
        """
        came = self._values.get((trial.number, self.entry))
        if came is None:
            return None
        return 0.0 if trial.verdict == HELD and not came.feasible else came.value or 0.0

    def next_up(self, trials: list[TrialRow]) -> TrialRow | None:
        """A held trial whose point is to climb now, in turns with new points; None where none is.

        Args:
            trials: All trials of the study.
        """
        waiting = self.state().waiting() if self.any else []
        if not waiting:
            return None
        held: dict[str, TrialRow] = {}
        for trial in trials:
            if trial.verdict == HELD and trial.assignment is not None:
                held[key(trial.assignment)] = trial
        return next((held[point] for point, _ in waiting if point in held), None)

    def report(self) -> list[dict[str, Any]]:
        """One row a level, the real one last: what it left out, what it cost, what it showed."""
        rows = self.state().report()
        for row in rows:
            seconds = self._seconds.get(row["level"], [])
            row["cost"] = statistics.median(seconds) if seconds else None
            row["held"] = self._held.get(row["level"], 0)
        return rows


def digests(space: SearchSpace) -> dict[str, str]:
    """What each level asks, in short: a result counts only while its level asks the same."""
    found = {REAL: _digest(space.loads, until_settled=False)}
    for level in space.levels:
        found[level.name] = _digest(space.loads_on(level), until_settled=level.until_settled)
    return found


def _digest(loads: tuple[Load, ...], *, until_settled: bool) -> str:
    asked = {load.name: load.workload.model_dump(mode="json") for load in loads}
    text = json.dumps([asked, until_settled], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
