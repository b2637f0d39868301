"""What the ledger holds, as it is handed to the other rooms."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from tuner.store.stages import Stage


class Origin(enum.StrEnum):
    """Where a trial's point came from."""

    BASELINE = "baseline"
    FIRST = "first"  # written in the search space
    SEARCH = "search"  # asked from the sampler
    SIMPLER = (
        "simpler"  # a finalist's point, with parameters that did nothing at the baseline's value
    )
    REPEAT = "repeat"  # measured again on purpose
    PROFILE = "profile"  # run again with the stages of its steps timed; never scored


ON_PURPOSE = frozenset({Origin.REPEAT, Origin.PROFILE})
"""Origins of trials that run another trial's point once more."""

POINTS = (Origin.BASELINE, Origin.FIRST, Origin.SEARCH)
"""Origins of the points of a search: what a budget of trials counts."""


OPEN = frozenset({"queued", "running", "paused"})
"""Statuses of a study that is not over."""


@dataclass(frozen=True, slots=True)
class StudyRow:
    """One study.

    Attributes:
        space: Text of the search space, as it was given.
        origin: The file it came from.
        status: ``queued``, ``running``, ``paused``, ``finished``, ``stopped`` or ``failed``.
        facts: The machine, the engine and their versions.
        created: Seconds since 1970.
    """

    id: int
    name: str
    fingerprint: str
    space: str
    origin: str
    status: str
    reason: str | None
    facts: dict[str, Any]
    created: float
    ended: float | None


@dataclass(frozen=True, slots=True)
class TrialRow:
    """One trial.

    Attributes:
        repeats: Number of the trial whose point this one runs again on purpose.
        block: The interleaved block of repeats that it belongs to.
        params: The point that runs, exactly as it is told.
        assignment: The same point in the sampler's own terms; None for a point it never named.
        attempt: How many starts were begun for it, the current one included.
        judgement: Proof, advice and numbers behind the verdict.
        constraints: Violation by name; at most 0 is feasible.
        value: What the sampler was told.
        history: Why it does not count any more; None where it does.
    """

    study: int
    number: int
    origin: Origin
    repeats: int | None
    block: int | None
    params: dict[str, Any]
    assignment: dict[str, Any] | None
    deployment: dict[str, Any]
    stage: Stage
    attempt: int
    verdict: str | None
    judgement: dict[str, Any] | None
    metrics: dict[str, Any] | None
    score: float | None
    feasible: bool | None
    constraints: dict[str, float] | None
    value: float | None
    created: float
    ended: float | None
    history: str | None = None

    @property
    def launched(self) -> bool:
        """Whether an engine was ever started for it."""
        return self.attempt > 0

    @property
    def levels(self) -> dict[str, Any]:
        """What it came to on cheaper levels, by level; only in rows that were read whole."""
        for found in (self.metrics, self.judgement):
            if found is not None and "levels" in found:
                return dict(found["levels"])
        return {}


@dataclass(frozen=True, slots=True)
class Carried:
    """A trial in terms of another search space in which it still counts.

    Attributes:
        origin: What it is there.
        params: Its point there.
        assignment: The same in the sampler's own terms.
    """

    origin: Origin
    params: dict[str, Any]
    assignment: dict[str, Any]


@dataclass(frozen=True, slots=True)
class LaunchRow:
    """One start of an engine, as it was recorded before and after it happened."""

    id: int
    study: int
    number: int
    attempt: int
    kind: str
    identity: dict[str, Any]
    status: str
    proof: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class BaselineRow:
    """What a device holds when nothing of ours runs.

    Attributes:
        device: What identifies the card.
        boot: The boot in which it was seen.
        name: The model of the card.
        used: Bytes in use.
        total: Bytes of its memory.
    """

    device: str
    boot: str
    name: str
    used: int
    total: int


@dataclass(frozen=True, slots=True)
class Transition:
    """One step of a trial from stage to stage.

    Attributes:
        at: Seconds since 1970; may jump with the machine's clock.
        clock: Seconds on the clock of the boot; durations are differences of this within one boot.
    """

    number: int
    attempt: int
    stage: Stage
    at: float
    clock: float
    boot: str
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that those who watch want to know, in the order in which it became true."""

    id: int
    study: int
    number: int | None
    kind: str
    at: float
    data: dict[str, Any]
