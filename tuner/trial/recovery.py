"""After a crash, a kill or a reboot: what the ledger says is open is closed, and only that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from tuner.errors import ResidueFound
from tuner.launch.base import Launcher
from tuner.store.ledger import Ledger
from tuner.store.rows import TrialRow
from tuner.store.stages import Stage, is_running

INTERRUPTED = "interrupted"
MAX_INTERRUPTIONS = 5


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
        ResidueFound: When something cannot be ended. Nothing may be started then.
    """
    ended = []
    for row in ledger.open_launches(study):
        launch = launchers[row.kind].recover(row.identity)
        pids = launch.pids()
        proof = launch.stop(at_once=True)
        if not proof.gone:
            reason = f"engine of trial {row.number}: {'; '.join(proof.problems)}"
            ledger.launch_over(row.id, "quarantined", asdict(proof))
            ledger.quarantine("host", reason)
            raise ResidueFound(f"an earlier engine cannot be ended: {reason}")
        ledger.launch_over(row.id, "gone", asdict(proof))
        if pids:
            ended.append(f"engine of trial {row.number} ({len(pids)} processes)")
    if not any(row.status == "quarantined" for row in ledger.open_launches()):
        ledger.release("host")
    return ended


def settle(ledger: Ledger, study: int) -> list[TrialRow]:
    """Bring every interrupted trial of a study to a stage from which work goes on.

    A trial that was measured keeps what was measured. One that was interrupted before is planned
    again, with the same point; its engine is gone by now.

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
    if not is_running(trial.stage):
        return trial
    if trial.stage is not Stage.STOPPING:
        trial = ledger.advance(trial, Stage.STOPPING, detail={"by": "recovery"})
    if trial.metrics is not None:
        return ledger.advance(trial, Stage.VERIFIED, detail={"by": "recovery"}, verdict="healthy")
    trial = ledger.advance(
        trial,
        Stage.VERIFIED,
        detail={"by": "recovery"},
        verdict=INTERRUPTED,
        judgement={
            "verdict": INTERRUPTED,
            "title": "the tuner ended while the trial ran",
            "evidence": [],
            "advice": "nothing to do: it is run again when the study is resumed",
            "teaches": False,
            "retry": "none",
            "violation": None,
            "failed": True,
        },
    )
    if trial.attempt >= MAX_INTERRUPTIONS:
        return trial
    return ledger.advance(trial, Stage.PLANNED, detail={"by": "recovery"})
