"""What was read from a log: engine starts, hits of rules, the engine's own facts."""

from __future__ import annotations

from dataclasses import dataclass, field

from tuner.verdict.facts import LogFacts
from tuner.verdict.kinds import Role, Stage
from tuner.verdict.rules import Rule

EVIDENCE_WIDTH = 2_000
"""Characters of a line that are kept as evidence."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """Amounts that a line gave.

    Attributes:
        unit: ``bytes``, ``tokens``, ``count`` or ``fraction``.
        asked: What was wanted.
        available: What there was.
        total: What there would be with nothing else there.
    """

    unit: str
    asked: float | None = None
    available: float | None = None
    total: float | None = None

    @property
    def violation(self) -> float | None:
        """How far over it was: ``(asked - available) / max(asked, total)``, at least 0.001.

        Dimensionless and of one sign, so that a sampler sees a slope: 0.86 for 64 GiB asked of
        8.9, 0.1 for 10 asked of 9. None where a number is missing. The floor is for an allocator
        that refuses less than it says is free (fragmentation): over is over.
        """
        if self.asked is None or self.available is None:
            return None
        whole = max(self.asked, self.total or 0.0)
        if whole <= 0:
            return None
        return max((self.asked - self.available) / whole, 0.001)


@dataclass(frozen=True, slots=True)
class Proof:
    """A line that proves something.

    Attributes:
        line: Its number in the log; None for what was not in the log.
        text: The line, or the finding in words.
    """

    line: int | None
    text: str

    @property
    def place(self) -> int:
        """The line's number, 0 for what was not in the log."""
        return self.line or 0


@dataclass(frozen=True, slots=True)
class Hit:
    """A rule that a line fulfilled.

    Attributes:
        rule: The rule.
        line: Number of the line.
        text: The line's message.
        stage: Where the engine was.
        role: Which process wrote it.
        numbers: The amounts in it.
    """

    rule: Rule
    line: int
    text: str
    stage: Stage
    role: Role
    numbers: Numbers | None = None


@dataclass(slots=True)
class Boot:
    """One start of an engine within a log; a restart loop has many.

    Attributes:
        first: Number of its first line.
        stage: The furthest stage that it reached.
        generation: ``v0`` or ``v1``, where it said so.
        ready: The line that said, or first showed, that it was up; None if none did.
        stop: The line with which an orderly stop began; None if none did.
        stop_done: Whether the stop came to its end.
        served: The last line that shows an answered request.
        refused: The last line that shows a request which the server failed to answer.
        health: The last line that shows ``/health`` answered well.
        exit_code: What a supervisor's line said about its end.
        exit_line: That line.
        hits: The rules that were fulfilled, in the order of the lines.
        counts: How often each rule was, by its id.
    """

    first: int
    stage: Stage = Stage.UNKNOWN
    generation: str | None = None
    ready: Proof | None = None
    stop: Proof | None = None
    stop_done: bool = False
    served: Proof | None = None
    refused: Proof | None = None
    health: Proof | None = None
    exit_code: int | None = None
    exit_line: Proof | None = None
    hits: list[Hit] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether some hit says that a process of it ended."""
        return any(hit.rule.rank.fatal for hit in self.hits)

    @property
    def decided(self) -> bool:
        """Whether it came to anything: it answered, stopped, or failed."""
        return self.ready is not None or self.stop is not None or self.failed


@dataclass(frozen=True, slots=True)
class LogReading:
    """All that was read from one log.

    Attributes:
        boots: The starts in it; the first and the last ones where there are very many.
        starts: How many starts there were in all.
        lines: Number of lines.
        size: Bytes.
        tail: Its last lines.
        facts: What the last start said about itself.
    """

    boots: tuple[Boot, ...]
    starts: int
    lines: int
    size: int
    tail: tuple[Proof, ...]
    facts: LogFacts
