"""What is known about how an engine ended, from every source; all of it optional."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tuner.verdict.kinds import Stage
from tuner.verdict.reading import LogReading, Proof


class Asked(enum.StrEnum):
    """Whether and why we told the engine to end."""

    NO = "no"  # it ended by itself, or still runs
    DONE = "done"  # the trial was over
    CANCEL = "cancel"  # the user wanted the trial to end
    DEADLINE = "deadline"  # it made no progress for too long


class TrialStage(enum.StrEnum):
    """What the trial was doing with the engine."""

    STARTING = "starting"
    READY = "ready"
    PROBING = "probing"
    LOAD = "load"
    STOPPING = "stopping"

    @property
    def stage(self) -> Stage:
        """The engine's stage that this implies at least."""
        return _IMPLIED[self]


_IMPLIED = {
    TrialStage.STARTING: Stage.STARTING,
    TrialStage.READY: Stage.READY,
    TrialStage.PROBING: Stage.SERVING,
    TrialStage.LOAD: Stage.SERVING,
    TrialStage.STOPPING: Stage.STOPPING,
}


@dataclass(frozen=True, slots=True)
class ExitFacts:
    """How the process of the engine ended.

    Attributes:
        status: Exit status; None when a signal ended it.
        signal: The signal that ended it; None when it exited.
    """

    status: int | None = None
    signal: int | None = None

    @classmethod
    def from_code(cls, code: int) -> ExitFacts:
        """From a code as Python (-9), a shell or a container (137) says it."""
        if code < 0:
            return cls(signal=-code)
        if 128 < code <= 128 + 64:
            return cls(signal=code - 128)
        return cls(status=code)

    @property
    def words(self) -> str:
        """For people: ``exit status 1`` or ``ended by signal 9``."""
        if self.signal is not None:
            return f"ended by signal {self.signal}"
        return f"exit status {self.status}"


@dataclass(frozen=True, slots=True)
class HttpFacts:
    """What the server answered last.

    Attributes:
        health: Status of ``/health``; None when it did not answer.
        completion: Status of a completion; None when none came.
        asked_completion: Whether a completion was asked for at all.
        engine_dead: Whether an answer or the stream said that the engine is dead.
    """

    health: int | None = None
    completion: int | None = None
    asked_completion: bool = False
    engine_dead: bool = False


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """One device around the trial; memory in bytes.

    Attributes:
        name: The device, for people.
        baseline: Memory in use when nothing runs.
        before: Memory in use before the start.
        after: Memory in use after the end.
        total: Memory of the device.
        sick: Why it is thought to be sick; empty when it is not.
    """

    name: str
    baseline: int | None = None
    before: int | None = None
    after: int | None = None
    total: int | None = None
    sick: tuple[str, ...] = ()

    @property
    def dirty_before(self) -> bool:
        """Whether it held more before the start than ``max(256 MiB, 2 %)`` above its baseline."""
        if self.before is None or self.baseline is None:
            return False
        slack = max(256 * 2**20, 0.02 * (self.total or 0))
        return self.before > self.baseline + slack


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that the engine runs with that is not what was asked.

    Attributes:
        name: The flag, variable or marker.
        asked: What was asked.
        found: What was found.
        kind: ``differs``, ``ignored``, ``fell_back`` or ``not_shown``.
        proof: The line or metric that shows it.
    """

    name: str
    asked: str
    found: str
    kind: str
    proof: Proof

    @property
    def words(self) -> str:
        """For people."""
        return f"{self.name}: asked {self.asked}, found {self.found}"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything known about an engine's end. What is not known stays at its default.

    Attributes:
        log: What :func:`tuner.verdict.scan.read_log` read.
        exit: How the process ended; None when that is not known.
        running: Whether it still runs; None when that is not known.
        asked: Whether we told it to end, and why; None when that is not known.
        stage: What the trial was doing.
        silence: Seconds without any progress.
        deadline: Seconds of silence that were allowed.
        request_stalled: Whether requests made no token progress, and not because they were queued.
        http: What the server answered.
        devices: The devices.
        oom_kills: How often the kernel's out-of-memory killer struck in the engine's own cgroup (or,
            where it has none, on the host) since the start; None when that is not known. Zero
            matters: with it a SIGKILL is a crash, without it the killer is suspected.
        docker_oom_killed: Docker's ``State.OOMKilled``.
        port_holder: Who held the port before the start; None when nobody did.
        findings: Differences between what was asked and what runs that make the trial not count.
        non_finite: Proof of NaN or infinite numbers that a probe found.
        failed_probes: Probes that it failed and must not fail, in words.
        answers_differ: How its answers differ from the reference's, where they do.
        doing: What it was being asked when it ended, in words.
    """

    log: LogReading | None = None
    exit: ExitFacts | None = None
    running: bool | None = None
    asked: Asked | None = None
    stage: TrialStage | None = None
    silence: float | None = None
    deadline: float | None = None
    request_stalled: bool = False
    http: HttpFacts | None = None
    devices: tuple[DeviceFacts, ...] = ()
    oom_kills: int | None = None
    docker_oom_killed: bool | None = None
    port_holder: str | None = None
    findings: tuple[Finding, ...] = ()
    non_finite: str | None = None
    failed_probes: tuple[str, ...] = ()
    answers_differ: str | None = None
    doing: str | None = None
