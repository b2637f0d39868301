"""Signals: short names for what is known besides the log's lines, each with its proof.

The table's ``[[signal]]`` rules ask for these names, so that what follows from an exit status, a
counter or a device stands in the table like everything else.
"""

from __future__ import annotations

from collections.abc import Iterator

from tuner.quantity import format_bytes, format_seconds
from tuner.verdict.evidence import Asked, DeviceFacts, Evidence, ExitFacts
from tuner.verdict.reading import Boot, Proof

SIGNALS = frozenset({
    "any", "asked", "cancel", "deadline", "not_asked", "asked_unknown",
    "running", "ended", "exit_unknown", "exit_zero", "exit_failed", "exit_usage",
    "killed", "terminated", "interrupted", "faulted",
    "oom_kill", "no_oom_kill",
    "device_dirty", "device_sick",
    "silent", "stalled", "health_ok", "completion_failed", "completion_ok", "engine_dead",
    "port_held", "differs", "ignored", "fell_back", "not_shown", "non_finite",
    "probe_failed", "answers_differ",
    "log", "ready", "not_ready", "stop_begun", "stop_done", "not_stopped", "served",
})  # fmt: skip
"""Every signal that can be raised; a rule that asks for another can never hold."""

_FAULTS = {4, 5, 6, 7, 8, 11, 31}
"""SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS."""


def signals_of(evidence: Evidence, boot: Boot | None, ended: ExitFacts | None) -> dict[str, Proof]:
    """The signals that hold, each with what proves it.

    Args:
        evidence: What is known.
        boot: The start in the log that is judged.
        ended: How the process ended, from the evidence or from a supervisor's line.
    """
    found: dict[str, Proof] = {"any": _last(evidence)}
    for part in (
        _asked(evidence),
        _exit(evidence, ended),
        _memory(evidence),
        _life(evidence, boot, ended),
        _findings(evidence),
        _log(evidence, boot),
    ):
        for name, words in part:
            found.setdefault(name, words if isinstance(words, Proof) else Proof(None, words))
    return found


def _last(evidence: Evidence) -> Proof:
    """What stands nearest to the end, for when nothing else is known."""
    if evidence.log is not None and evidence.log.tail:
        return evidence.log.tail[-1]
    return Proof(None, "there is no log" if evidence.log is None else "the log is empty")


_Part = Iterator[tuple[str, str | Proof]]


def _asked(evidence: Evidence) -> _Part:
    match evidence.asked:
        case None:
            yield "asked_unknown", "whether anyone asked it to stop is not known"
        case Asked.NO:
            yield "not_asked", "nobody asked it to stop"
        case Asked.CANCEL:
            yield "asked", "the trial was cancelled"
            yield "cancel", "the trial was cancelled"
        case Asked.DEADLINE:
            yield "asked", "it was stopped for making no progress"
            yield "deadline", _silence(evidence)
        case Asked.DONE:
            yield "asked", "it was asked to stop"


def _exit(evidence: Evidence, ended: ExitFacts | None) -> _Part:
    if evidence.running:
        yield "running", "the process still runs"
    if ended is None:
        yield "exit_unknown", "how the process ended is not known"
        return
    yield "ended", ended.words
    if ended.signal is not None:
        if ended.signal == 9:
            yield "killed", ended.words
        elif ended.signal == 15:
            yield "terminated", ended.words
        elif ended.signal == 2:
            yield "interrupted", ended.words
        if ended.signal in _FAULTS:
            yield "faulted", ended.words
        return
    yield "exit_zero" if ended.status == 0 else "exit_failed", ended.words
    if ended.status == 2:
        yield "exit_usage", ended.words


def _memory(evidence: Evidence) -> _Part:
    if evidence.docker_oom_killed:
        yield "oom_kill", "docker says OOMKilled for the engine's container"
    if evidence.oom_kills:
        yield "oom_kill", f"the kernel's out-of-memory killer struck {evidence.oom_kills} times"
    if evidence.oom_kills == 0 and not evidence.docker_oom_killed:
        yield "no_oom_kill", "the kernel's out-of-memory killer did not strike"
    for device in evidence.devices:
        if device.dirty_before:
            yield "device_dirty", _dirt(device)
        if device.sick:
            yield "device_sick", f"{device.name}: {'; '.join(device.sick)}"


def _dirt(device: DeviceFacts) -> str:
    return (
        f"{device.name} held {format_bytes(device.before or 0)} before the start,"
        f" {format_bytes(device.baseline or 0)} when idle"
    )


def _silence(evidence: Evidence) -> str:
    words = "no progress"
    if evidence.silence is not None:
        words += f" for {format_seconds(evidence.silence)}"
    if evidence.deadline is not None:
        words += f", {format_seconds(evidence.deadline)} allowed"
    return words


def _life(evidence: Evidence, boot: Boot | None, ended: ExitFacts | None) -> _Part:
    if evidence.asked is Asked.DEADLINE or (
        evidence.silence is not None
        and evidence.deadline is not None
        and evidence.silence >= evidence.deadline
    ):
        yield "silent", _silence(evidence)
    if evidence.request_stalled:
        yield (
            "stalled",
            f"a request that was not queued made no token progress; {_silence(evidence)}",
        )
    if evidence.port_holder is not None:
        yield "port_held", f"the port was held by {evidence.port_holder}"
    http = evidence.http
    if http is None:
        yield from _access(boot)
    else:
        if http.health is not None and 200 <= http.health < 300 and ended is None:
            yield "health_ok", f"/health answers {http.health}"
        if http.asked_completion and (http.completion is None or http.completion >= 500):
            yield "completion_failed", f"a completion answers {http.completion or 'nothing'}"
        elif http.completion is not None and 200 <= http.completion < 300:
            yield "completion_ok", f"a completion answers {http.completion}"
        if http.engine_dead:
            yield "engine_dead", "the server says that its engine is dead"


def _access(boot: Boot | None) -> _Part:
    """What the log's own access lines say, for when nobody asked the server."""
    if boot is None or boot.stop is not None:
        return
    served = boot.served.place if boot.served else 0
    if boot.refused is not None and boot.refused.place > served:
        yield "completion_failed", boot.refused
        if boot.health is not None and boot.health.place > boot.refused.place:
            yield "health_ok", boot.health


def _findings(evidence: Evidence) -> _Part:
    for finding in evidence.findings:
        yield finding.kind, Proof(finding.proof.line, f"{finding.words}: {finding.proof.text}")
    if evidence.non_finite is not None:
        yield "non_finite", evidence.non_finite
    if evidence.answers_differ is not None:
        yield "answers_differ", evidence.answers_differ
    if evidence.failed_probes:
        yield "probe_failed", evidence.failed_probes[0]


def _log(evidence: Evidence, boot: Boot | None) -> _Part:
    if evidence.log is None or boot is None or evidence.log.lines == 0:
        return
    last = evidence.log.tail[-1] if evidence.log.tail else Proof(None, "the log is blank")
    yield "log", last
    ready = boot.ready is not None or (
        evidence.stage is not None and not evidence.stage.stage.before_ready
    )
    if ready:
        yield "ready", boot.ready or Proof(None, "the engine had answered")
    else:
        yield "not_ready", last
    if boot.stop is None:
        yield "not_stopped", last
    else:
        yield "stop_begun", boot.stop
        if boot.stop_done:
            yield "stop_done", boot.stop
    if boot.served is not None:
        yield "served", boot.served
