"""A look at all that a study needs of this machine. Nothing is changed by it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from tuner.errors import LedgerCorrupt, StateUnusable, StudyNotFound
from tuner.launch.identity import boot_id
from tuner.launch.kinds import launchers
from tuner.store.ledger import LEDGER_NAME, Ledger
from tuner.telemetry.detect import Detection
from tuner.trial.care.cleaning import survey
from tuner.trial.care.devices import look_at_baselines, look_at_devices, look_at_quarantine
from tuner.trial.care.engines import look_at_docker, look_at_engines, look_at_ports
from tuner.trial.care.finding import Finding, bad, ok
from tuner.trial.care.folders import (
    look_at_room,
    look_at_scratch,
    look_at_shared_memory,
    look_at_state,
)
from tuner.trial.care.host import look_at_cages, look_at_files, look_at_memory


def examine(state: Path, cache: Path, detection: Detection) -> list[Finding]:
    """Look at the machine.

    Args:
        state: The state folder; it may not be there yet.
        cache: The cache of engines.
        detection: Where samples of devices come from.

    Returns:
        What was found, in the order in which it is to be mended.
    """
    found = look_at_state(state)
    temporary = Path(tempfile.gettempdir())
    found += look_at_room(
        [("the state", state), ("engines", cache), ("temporary files", temporary)]
    )
    found += look_at_scratch()
    ledger, said = open_ledger(state)
    found += said
    try:
        for look in _looks(ledger, cache, detection):
            found += look()
    finally:
        if ledger is not None:
            ledger.close()
    return found


def _looks(
    ledger: Ledger | None, cache: Path, detection: Detection
) -> Iterable[Callable[[], list[Finding]]]:
    return (
        lambda: look_at_leftovers(ledger),
        lambda: look_at_quarantine(ledger),
        lambda: look_at_devices(ledger, detection),
        lambda: look_at_baselines(ledger, boot_id()),
        look_at_memory,
        look_at_cages,
        look_at_shared_memory,
        look_at_files,
        lambda: look_at_ports(ledger),
        lambda: look_at_engines(cache),
        lambda: look_at_docker(ledger),
    )


def open_ledger(state: Path) -> tuple[Ledger | None, list[Finding]]:
    """The ledger to read from, where there is one that can be read, and what is to be said of it."""
    check = "ledger"
    try:
        ledger = Ledger(state, write=False)
    except StudyNotFound:
        return None, [ok(check, "nothing was run here yet")]
    except (LedgerCorrupt, StateUnusable) as error:
        return None, [bad(check, str(error), _SAVE)]
    try:
        ledger.db.verify()
        studies = len(ledger.studies())
    except (LedgerCorrupt, StateUnusable) as error:
        ledger.close()
        return None, [bad(check, str(error), _SAVE)]
    return ledger, [ok(check, f"{studies} studies; every row is as it was written")]


_SAVE = (
    f"keep a copy of {LEDGER_NAME} and all that begins with its name; then do as the message says, or "
    "name another folder with --state"
)


def look_at_leftovers(ledger: Ledger | None) -> list[Finding]:
    """Whether engines are there that were never proven gone."""
    check = "leftovers"
    if ledger is None:
        return []
    found = []
    for left in survey(ledger, launchers()):
        if left.worker is not None:
            found.append(ok(check, f"{left.title} runs, under process {left.worker}"))
        elif left.there:
            pids = ", ".join(f"pid {process.pid}" for process in left.processes)
            what = "; ".join(filter(None, (pids, *left.things, left.problem)))
            found.append(bad(check, f"{left.title} is still there: {what}", "tuner clean"))
    return found or [ok(check, "no engine of an earlier run is left")]
