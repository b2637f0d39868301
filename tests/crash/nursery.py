"""Children that are killed: where they come from, and what each must leave behind."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.crash.dying import Job
from tuner.errors import StudyNotFound
from tuner.launch import ports
from tuner.launch.identity import Identity
from tuner.launch.residue import find_members
from tuner.search.keys import key
from tuner.store import parsed
from tuner.store.ledger import Ledger
from tuner.store.rows import LaunchRow, TrialRow
from tuner.store.stages import Stage

ROOT = Path(__file__).parents[2]


class Nursery:
    """A process that has everything imported and works on one job after another.

    Args:
        cache: The cache that all its children share.
        module: The program that takes the jobs.
    """

    def __init__(self, cache: Path, module: str = "tests.crash.dying") -> None:
        env = {**os.environ, "TUNER_CACHE": str(cache), "PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=ROOT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def do(self, job: Job) -> int:
        """Have a job done; how its process ended, a signal as a negative number."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(job.line())
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a study came to.

    Attributes:
        trials: All its trials.
        told: How often each trial was told, by number.
        launches: All its launches.
        status: The study's status.
    """

    trials: tuple[TrialRow, ...]
    told: dict[int, int]
    launches: tuple[LaunchRow, ...]
    status: str

    @property
    def points(self) -> list[tuple[str, str, Any, Any]]:
        """What was tried, in order: origin, point and what is repeated."""
        return [(str(t.origin), key(t.assignment or {}), t.repeats, t.block) for t in self.trials]


def outcome(state: Path) -> Outcome:
    """Read a study back."""
    with Ledger(state, write=False) as ledger:
        (row,) = ledger.studies()
        trials = tuple(ledger.trials(row.id))
        steps = ledger.transitions(row.id)
        launches = all_launches(ledger)
    told = {t.number: 0 for t in trials}
    for step in steps:
        told[step.number] += step.stage is Stage.TOLD
    return Outcome(trials, told, launches, row.status)


def recorded(state: Path) -> tuple[LaunchRow, ...]:
    """Every launch that was ever recorded; none while there is no ledger."""
    try:
        with Ledger(state, write=False) as ledger:
            return all_launches(ledger)
    except StudyNotFound:
        return ()


def all_launches(ledger: Ledger) -> tuple[LaunchRow, ...]:
    """Every launch of a ledger, those that are over too."""
    rows = ledger.db.rows("SELECT * FROM launches ORDER BY id")
    return tuple(parsed.launch(row) for row in rows)


def alive(launches: tuple[LaunchRow, ...]) -> int:
    """How many processes of recorded engines live."""
    return sum(len(find_members(Identity.from_json(row.identity))) for row in launches)


def left(launches: tuple[LaunchRow, ...]) -> list[str]:
    """What is left of recorded engines: processes, ports, scratch folders, control groups."""
    found = []
    for row in launches:
        identity = Identity.from_json(row.identity)
        found += [f"process {m.pid} {m.evidence}" for m in find_members(identity)]
        if identity.port and ports.listeners(identity.port):
            found.append(f"port {identity.port}")
        found += [
            path for path in (identity.scratch, identity.cgroup) if path and Path(path).exists()
        ]
    return found


def violations(found: Outcome, expected: Outcome, launches: tuple[LaunchRow, ...]) -> list[str]:
    """What is wrong with a study that was killed and resumed, compared with one that was not.

    Args:
        found: The study that was killed.
        expected: The one that was not.
        launches: The launches that were recorded when it was killed.
    """
    wrong = []
    if found.points != expected.points:
        wrong.append(f"other points: {found.points} instead of {expected.points}")
    if wrongly := {n: c for n, c in found.told.items() if c != 1}:
        wrong.append(f"not told once: {wrongly}")
    if open_ := [row.id for row in found.launches if row.status != "gone"]:
        wrong.append(f"launches that are not over: {open_}")
    verdicts = [t.verdict for t in found.trials], [t.verdict for t in expected.trials]
    if verdicts[0] != verdicts[1]:
        wrong.append(f"verdicts {verdicts[0]} instead of {verdicts[1]}")
    if found.status != expected.status:
        wrong.append(f"status {found.status}")
    if rest := left((*found.launches, *launches)):
        wrong.append(f"left: {rest}")
    return wrong
