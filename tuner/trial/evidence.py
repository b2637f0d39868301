"""How a trial ended: what was seen on the way, gathered for the verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tuner.errors import UserError, on_purpose
from tuner.launch.base import Exit, Launch
from tuner.launch.oomkiller import oom_kills
from tuner.launch.readiness import Ended, Waited
from tuner.load.check import TokenCheck
from tuner.load.record import Record
from tuner.trial.climbing import Held
from tuner.trial.early import Worse
from tuner.verdict import (
    Asked,
    DeviceFacts,
    Evidence,
    ExitFacts,
    Finding,
    HttpFacts,
    Judgement,
    TrialStage,
    judge,
    read_log,
)


@dataclass(slots=True)
class Ending:
    """What ended a trial, or nothing yet.

    Attributes:
        stage: What the trial was doing with the engine.
        waited: What came of waiting for it, where that ended the trial.
        exit: How the engine ended by itself.
        findings: What it runs with that was not asked.
        cancelled: Whether the study was told to stop, or a person has to mend something first.
        interrupted: Whether a defect of the tuner broke it off.
        stalled: Whether a load made no progress while the engine was up.
        broken: A request that a live engine failed to answer, where that ended the trial.
        probes: Probes that failed, in words, where that makes the trial unhealthy.
        answers: How the answers differ from the baseline's, where they do.
        non_finite: Proof of NaN or infinite numbers in the answers.
        doing: What it was asked when it ended, in words.
        worse: Why it was ended early though nothing is wrong with it.
        held: Why it does not climb from a cheaper level, though nothing is wrong with it.
        levels: What it came to on each cheaper level.
        counted: How its token counts held, by workload, where its server has a tokenizer to ask.
        kills_before: Count of the kernel's out-of-memory kills before the start.
        devices: The devices as they were found before the start.
        silence: Seconds without progress, where that ended the trial.
        deadline: Seconds that were allowed.
    """

    stage: TrialStage = TrialStage.STARTING
    waited: Waited | None = None
    exit: Exit | None = None
    findings: tuple[Finding, ...] = ()
    cancelled: bool = False
    interrupted: bool = False
    stalled: bool = False
    broken: Record | None = None
    probes: tuple[str, ...] = ()
    answers: str | None = None
    non_finite: str | None = None
    doing: str | None = None
    worse: Worse | None = None
    held: Held | None = None
    levels: dict[str, dict[str, Any]] = field(default_factory=dict)
    counted: dict[str, TokenCheck] = field(default_factory=dict)
    silence: float | None = None
    deadline: float | None = None
    kills_before: int | None = field(default_factory=oom_kills)
    devices: tuple[DeviceFacts, ...] = ()

    @classmethod
    def of_wait(cls, waited: Waited, kills_before: int | None) -> Ending:
        """The ending of a trial whose engine never became ready."""
        limit = waited.deadline
        silence = None
        if limit is not None:
            silence = waited.silence if waited.silence >= limit else waited.seconds
        return cls(
            waited=waited,
            exit=waited.exit,
            cancelled=waited.ended is Ended.CANCELLED,
            silence=silence,
            deadline=waited.deadline,
            kills_before=kills_before,
        )

    @property
    def hung(self) -> bool:
        """Whether the engine was there and did nothing."""
        return self.stalled or (self.waited is not None and self.waited.ended is Ended.HUNG)

    @property
    def failed(self) -> bool:
        """Whether the trial is over before its end, with or without a fault of the engine's."""
        return bool(
            self.waited is not None
            or self.broken is not None
            or self.probes
            or self.answers is not None
            or self.worse is not None
            or self.held is not None
            or self.non_finite is not None
            or self.exit is not None
            or self.findings
            or self.cancelled
            or self.interrupted
            or self.stalled
        )

    def break_off(self, error: BaseException) -> None:
        """Remember that an error of ours, and nothing of the engine's, ended the trial."""
        causes = on_purpose(error) or (error,)
        self.cancelled = all(isinstance(cause, KeyboardInterrupt | UserError) for cause in causes)
        self.interrupted = not self.cancelled

    def note_exit(self, found: Exit | None) -> None:
        """Remember how the engine ended by itself, if it did."""
        if self.exit is None and found is not None and not found.asked:
            self.exit = found

    @property
    def kills(self) -> int | None:
        """Out-of-memory kills since the start, ours included; None where the kernel does not say."""
        if self.exit is not None and self.exit.over_limit:
            return 1
        now = oom_kills()
        return None if now is None or self.kills_before is None else now - self.kills_before

    @property
    def asked(self) -> Asked:
        """Whether the engine's end is our doing, and why."""
        if self.exit is not None:
            return Asked.NO
        if self.cancelled or self.interrupted:
            return Asked.CANCEL
        return Asked.DEADLINE if self.hung else Asked.DONE


def judge_ending(ending: Ending, launch: Launch) -> Judgement:
    """Why a trial ended as it did.

    Called when the engine has been stopped, so that its log is complete.
    """
    counted = launch.memory().kills
    return judge(
        Evidence(
            log=read_log(launch.log),
            exit=_exit_facts(ending.exit),
            running=False,
            asked=ending.asked,
            stage=ending.stage,
            silence=ending.silence,
            deadline=ending.deadline,
            request_stalled=ending.stalled,
            http=_http(ending),
            findings=ending.findings,
            devices=ending.devices,
            oom_kills=ending.kills if counted is None else counted,
            port_holder=None if ending.waited is None else ending.waited.holder,
            failed_probes=ending.probes,
            answers_differ=ending.answers,
            non_finite=ending.non_finite,
            doing=ending.doing,
        )
    )


def _exit_facts(found: Exit | None) -> ExitFacts | None:
    return None if found is None else ExitFacts(status=found.status, signal=found.signal)


def _http(ending: Ending) -> HttpFacts | None:
    if ending.broken is not None:
        return HttpFacts(health=200, completion=ending.broken.status, asked_completion=True)
    if ending.waited is None or ending.waited.ended is not Ended.BROKEN:
        return None
    return HttpFacts(health=200, completion=ending.waited.status, asked_completion=True)
