"""The stages of a trial, and which may follow which."""

from __future__ import annotations

import enum


class Stage(enum.StrEnum):
    """How far a trial has come. Each stage is committed to the ledger before its work begins."""

    PLANNED = "planned"
    STARTING = "starting"
    READY = "ready"
    PROBED = "probed"
    WARMED = "warmed"
    MEASURED = "measured"
    STOPPING = "stopping"
    VERIFIED = "verified"
    TOLD = "told"


RECOVERY = "recovery"
"""What a transition's detail says under ``by`` where a later tuner made it for one that was killed."""

_FORWARD = {
    Stage.PLANNED: {Stage.STARTING},
    Stage.STARTING: {Stage.READY},
    Stage.READY: {Stage.PROBED},
    Stage.PROBED: {Stage.WARMED},
    Stage.WARMED: {Stage.MEASURED},
    Stage.MEASURED: set(),
    Stage.STOPPING: {Stage.VERIFIED},
    Stage.VERIFIED: {Stage.TOLD, Stage.PLANNED},
    Stage.TOLD: set(),
}
_RUNNING = {Stage.STARTING, Stage.READY, Stage.PROBED, Stage.WARMED, Stage.MEASURED}


def may_follow(now: Stage, then: Stage) -> bool:
    """Whether a trial may go from one stage to another.

    Besides the way forward: from any running stage an engine may have to be stopped; a trial that
    was rejected before its start is verified at once, for nothing was started; and a verified
    trial may be planned again, when what ended it was not of its making.
    """
    if then is Stage.STOPPING:
        return now in _RUNNING
    if (now, then) == (Stage.PLANNED, Stage.VERIFIED):
        return True
    return then in _FORWARD[now]


def is_running(stage: Stage) -> bool:
    """Whether an engine may be alive in this stage."""
    return stage in _RUNNING or stage is Stage.STOPPING
