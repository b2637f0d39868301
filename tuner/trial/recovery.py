"""After a crash, a kill or a reboot: what the ledger says is open is closed, and only that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from tuner.errors import ResidueFound, StateUnusable
from tuner.launch.base import Launcher, Proof
from tuner.launch.identity import myself
from tuner.store.ledger import Ledger
from tuner.store.locks import hold_study
from tuner.store.rows import LaunchRow, TrialRow
from tuner.store.stages import RECOVERY, Stage, is_running
from tuner.trial.entry import study_folder
from tuner.trial.rest import HOST
from tuner.trial.retry import (
    INTERRUPTED,
    INTERRUPTION,
    STOPPED,
    again,
    measured,
    stops,
    unfinished,
)


def end_leftovers(
    ledger: Ledger, launchers: Mapping[str, Launcher], study: int | None = None
) -> list[str]:
    """End every engine that some tuner started here and none has proven gone.

    Args:
        ledger: The ledger of the state folder.
        launchers: Launchers by kind.
        study: Only engines of this study: others may belong to a process that lives.

    Returns:
        What was ended, for people; empty when nothing was left.

    Raises:
        ResidueFound: When something cannot be ended; all the others are by then. Nothing may be
            started.
    """
    ended: list[str] = []
    stuck: dict[str, LaunchRow] = {}
    for row in ledger.open_launches(study):
        name = f"engine of trial {row.number}"
        pids, proof = _end(row, launchers)
        if proof.gone:
            ledger.launch_over(row.id, "gone", asdict(proof))
        else:
            ledger.launch_over(row.id, "quarantined", asdict(proof))
            stuck[f"{name}: {'; '.join(proof.problems)}"] = row
        if proof.gone and pids:
            ended.append(f"{name} ({len(pids)} processes)")
    if stuck:
        reason = "; ".join(stuck)
        first = next(iter(stuck.values()))
        ledger.quarantine(HOST, reason, study=first.study, number=first.number)
        raise ResidueFound(
            f"an earlier engine cannot be ended, so nothing is started: {reason}. "
            "`tuner doctor` says more"
        )
    if not any(row.status == "quarantined" for row in ledger.open_launches()):
        ledger.release(HOST)
    return ended


def end_abandoned(ledger: Ledger, launchers: Mapping[str, Launcher], but: int) -> list[str]:
    """End the engines of all studies of a state folder that nobody works on any more.

    A command that was killed beside a daemon leaves its engine, and lets go of its devices: whoever
    takes these next looks first.

    Args:
        ledger: The ledger of the state folder.
        launchers: Launchers by kind.
        but: The study that looks; what it left itself is its own to end.

    Returns:
        What was ended, for people.

    Raises:
        ResidueFound: When something cannot be ended. Nothing may be started.
    """
    names = {row.id: row.name for row in ledger.studies()}
    left = dict.fromkeys(row.study for row in ledger.open_launches() if row.study != but)
    ended: list[str] = []
    for study in left:
        folder = study_folder(ledger, names[study])
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            with hold_study(
                folder, {"study": names[study], "state": str(ledger.folder), **myself()}
            ):
                gone = end_leftovers(ledger, launchers, study)
        except StateUnusable:
            continue  # somebody works on it, on other devices
        ended += [f"{what} of study {names[study]}" for what in gone]
    return ended


def _end(row: LaunchRow, launchers: Mapping[str, Launcher]) -> tuple[tuple[int, ...], Proof]:
    """End one recorded engine: the processes that it had, and the proof."""
    launcher = launchers.get(row.kind)
    if launcher is None:
        return (), Proof(
            survivors=(f"a launch of kind {row.kind}, which cannot be looked at here",)
        )
    launch = launcher.recover(row.identity)
    return launch.pids(), launch.stop(at_once=True)


def settle(ledger: Ledger, study: int) -> list[TrialRow]:
    """Bring every interrupted trial of a study to a stage from which work goes on.

    A trial that was measured keeps what was measured. One that was interrupted before is planned
    again, with the same point; its engine is gone by now. One whose verdict calls for another
    start is planned again too, as the tuner that was killed would have done; so is one that stopped
    the study until somebody mends what ended it.

    Returns:
        Trials that are to be run, in the order of their numbers.
    """
    waiting = []
    for trial in ledger.trials(study, unfinished=True):
        after = _settle(ledger, trial)
        if after.stage is Stage.PLANNED:
            waiting.append(after)
    return waiting


def unsettled(ledger: Ledger, study: int) -> list[TrialRow]:
    """Trials that are verified and were never told."""
    return [t for t in ledger.trials(study, unfinished=True) if t.stage is Stage.VERIFIED]


def _settle(ledger: Ledger, trial: TrialRow) -> TrialRow:
    if is_running(trial.stage):
        trial = _verify(ledger, trial)
    if trial.stage is not Stage.VERIFIED:
        return trial
    steps = ledger.transitions(trial.study, trial.number)
    if unfinished(trial, steps) or again(trial, steps):
        stopped = {STOPPED: True} if stops(trial, steps) else {}
        return ledger.advance(trial, Stage.PLANNED, detail={"by": RECOVERY, **stopped})
    return trial


def _verify(ledger: Ledger, trial: TrialRow) -> TrialRow:
    """Bring a trial whose tuner was killed to the stage in which its engine is known to be gone."""
    by = {"by": RECOVERY}
    if trial.stage is not Stage.STOPPING:
        trial = ledger.advance(trial, Stage.STOPPING, detail=by)
    if measured(trial, ledger.transitions(trial.study, trial.number)):
        return ledger.advance(trial, Stage.VERIFIED, detail=by, verdict="healthy")
    return ledger.advance(
        trial,
        Stage.VERIFIED,
        detail=by,
        verdict=INTERRUPTED,
        judgement=INTERRUPTION,
    )
