"""A small ledger as a crash leaves it, all that is in it, and how it is read back."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tuner.store.ledger import Ledger
from tuner.store.rows import BaselineRow, Origin, TrialRow
from tuner.store.stages import Stage

FILES = ("ledger.sqlite", "ledger.sqlite-wal", "ledger.seal")


def new_study(ledger: Ledger, name: str = "s") -> int:
    return ledger.create_study(name=name, fingerprint="f", space="x: 1", origin="s.yaml").id


def new_trial(ledger: Ledger, study: int, **params: Any) -> TrialRow:
    return ledger.plan(study, origin=Origin.SEARCH, params=params, assignment=None, deployment={})


def fill(ledger: Ledger) -> None:
    """Enter a study with a told trial, one that runs, an engine, a quarantine and an event."""
    study = new_study(ledger)
    trial = new_trial(ledger, study, a=1, b=0.125, c="ü")
    trial = ledger.advance(trial, Stage.VERIFIED, metrics={"x": [1.5] * 40}, verdict="healthy")
    ledger.advance(trial, Stage.TOLD, score=1.5, value=1.5, feasible=True, constraints={"a": -1.0})
    running = ledger.advance(new_trial(ledger, study, a=2), Stage.STARTING)
    launch = ledger.launch_intended(running, "process", {"pid": 0})
    ledger.launch_seen(launch, {"pid": 7})
    ledger.quarantine("GPU-1", "dirty")
    ledger.keep_baseline(BaselineRow("GPU-1", "boot", "card", 100, 1000))
    ledger.note(study, "note", {"text": "hello"})


def content(ledger: Ledger) -> dict[str, Any]:
    """Everything that a ledger says."""
    return {
        study.name: (
            study,
            ledger.trials(study.id, history=True),
            ledger.transitions(study.id),
            ledger.events(study.id),
        )
        for study in ledger.studies()
    } | {
        "launches": ledger.open_launches(),
        "quarantine": ledger.quarantined(),
        "baselines": ledger.baselines("boot"),
    }


def copy(source: Path, target: Path) -> Path:
    """The files as a kill at this moment would leave them."""
    target.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        if (source / name).exists():
            shutil.copyfile(source / name, target / name)
    return target


def raw(folder: Path) -> dict[str, bytes]:
    """The files of a ledger, byte for byte; an empty one says no more than none."""
    found = {name: (folder / name) for name in FILES if (folder / name).exists()}
    return {name: path.read_bytes() for name, path in found.items() if path.stat().st_size}
