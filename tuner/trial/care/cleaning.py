"""What earlier engines have left, and how it is ended: only what the ledger recorded, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from tuner.errors import LedgerCorrupt, ResidueFound, StateUnusable, TelemetryLost
from tuner.launch.base import Launcher
from tuner.launch.guard import resident
from tuner.launch.identity import Member
from tuner.quantity import format_bytes, format_seconds
from tuner.store.ledger import Ledger
from tuner.store.locks import hold_study, holder_of, study_lock
from tuner.store.rows import LaunchRow
from tuner.telemetry.baseline import Baseline
from tuner.telemetry.samples import DeviceInfo, DeviceSource
from tuner.trial.entry import study_folder
from tuner.trial.leases import lease_file
from tuner.trial.recovery import end_leftovers
from tuner.trial.rest import HOST, Rest, known_baseline, not_at_rest
from tuner.trial.sampling import Pace

QUICK = Pace(patience=10.0)
_MADE = ("scratch", "cgroup")
"""What is made for a process outside of its trial's folder, as its record names it."""


@dataclass(frozen=True, slots=True)
class Process:
    """One live process of a recorded engine.

    Attributes:
        pid: Its number.
        name: What it calls itself.
        age: Seconds since it started.
        memory: Resident bytes.
        evidence: The signs by which it is known to belong to the engine.
    """

    pid: int
    name: str
    age: float
    memory: int
    evidence: tuple[str, ...]

    @property
    def words(self) -> str:
        """For people."""
        return (
            f"pid {self.pid}  {self.name}  {format_seconds(self.age)} old, "
            f"{format_bytes(self.memory)}, known by: {', '.join(self.evidence)}"
        )


@dataclass(frozen=True, slots=True)
class Leftover:
    """An engine that was never proven gone.

    Attributes:
        launch: Number of its start in the ledger.
        study: Name of the study.
        trial: Number of the trial.
        kind: ``process`` or ``docker``.
        processes: What of it lives.
        things: What else of it is there: its container, its scratch folder, its control group.
        worker: Process that works on the study now; the engine is no leftover then.
        problem: Why it could not be looked at.
    """

    launch: int
    study: str
    trial: int
    kind: str
    processes: tuple[Process, ...]
    things: tuple[str, ...]
    worker: int | None = None
    problem: str | None = None

    @property
    def title(self) -> str:
        """For people."""
        return f"engine of trial {self.trial} of study {self.study} ({self.kind})"

    @property
    def there(self) -> bool:
        """Whether anything of it is, or may be, there."""
        return bool(self.processes or self.things or self.problem)

    def as_json(self) -> dict[str, Any]:
        """The leftover as JSON-ready data."""
        return asdict(self)


def survey(ledger: Ledger, launchers: Mapping[str, Launcher]) -> list[Leftover]:
    """Every engine that the ledger has a start of and no end. Nothing is touched."""
    names = {row.id: row.name for row in ledger.studies()}
    return [_look(ledger, row, names[row.study], launchers) for row in ledger.open_launches()]


def worker_of(ledger: Ledger, study: str) -> int | None:
    """The process that works on a study now, or None."""
    lock = study_lock(study_folder(ledger, study))
    holder = holder_of(lock) if lock.exists() else None
    return None if holder is None else int(holder.get("pid", 0))


def _look(
    ledger: Ledger, row: LaunchRow, study: str, launchers: Mapping[str, Launcher]
) -> Leftover:
    worker = worker_of(ledger, study)
    try:
        launch = launchers[row.kind].recover(row.identity)
        members, identity = launch.members(), launch.identity()
    except (LedgerCorrupt, KeyError) as error:
        problem = f"{type(error).__name__}: {error}"
        return Leftover(row.id, study, row.number, row.kind, (), (), worker, problem)
    processes = tuple(p for m in members if (p := _process(m)) is not None)
    return Leftover(row.id, study, row.number, row.kind, processes, _things(identity), worker)


def _things(identity: Mapping[str, Any]) -> tuple[str, ...]:
    made = [identity.get(name) for name in _MADE]
    found = [str(path) for path in made if path and Path(path).exists()]
    if identity.get("container"):
        found.append(f"container {identity['name']} ({identity['container'][:12]})")
    return tuple(found)


def _process(member: Member) -> Process | None:
    try:
        process = psutil.Process(member.pid)
        name = " ".join(process.cmdline())[:80] or process.name()
        age = max(0.0, time.time() - process.create_time())
    except psutil.Error:
        return None
    plain = "".join(c if c.isprintable() else "?" for c in name)
    return Process(member.pid, plain, age, resident(member), member.evidence)


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What became of what was found.

    Attributes:
        ended: What was ended and proven gone, for people.
        kept: What was not, with the reason.
    """

    ended: tuple[str, ...]
    kept: tuple[str, ...]


def clean(ledger: Ledger, launchers: Mapping[str, Launcher], found: Sequence[Leftover]) -> Cleaned:
    """End what a survey found, and prove it gone.

    A study's lock is held meanwhile, so that nobody begins to work on it; engines of a study that a
    live process works on are left to it.
    """
    ended: list[str] = []
    kept: list[str] = []
    ids = {row.name: row.id for row in ledger.studies()}
    for study in dict.fromkeys(each.study for each in found):
        folder = study_folder(ledger, study)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            with hold_study(folder):
                gone = end_leftovers(ledger, launchers, ids[study])
        except (StateUnusable, ResidueFound, LedgerCorrupt) as error:
            kept.append(f"study {study}: {error}")
        else:
            ended += [f"{what} of study {study}" for what in gone]
    return Cleaned(tuple(ended), tuple(kept))


@dataclass(frozen=True, slots=True)
class Lifted:
    """What became of the quarantine.

    Attributes:
        released: Names that are out of it.
        kept: Names that stay in it, with the reason.
    """

    released: tuple[str, ...]
    kept: dict[str, str]


def lift(
    ledger: Ledger, source: DeviceSource, devices: Sequence[DeviceInfo], pace: Pace = QUICK
) -> Lifted:
    """Take out of quarantine what is proven to be back.

    Args:
        ledger: The ledger, open for writing.
        source: Where samples of devices come from.
        devices: The devices of the machine.
        pace: How long devices are waited for.
    """
    known = {device.key: device for device in devices}
    released: list[str] = []
    kept: dict[str, str] = {}
    for name, why in ledger.quarantined().items():
        problem = _still(ledger, source, known.get(name), name, pace)
        if problem is None:
            ledger.release(name)
            released.append(name)
        else:
            kept[name] = f"{why}; now: {problem}"
    return Lifted(tuple(released), kept)


def _still(
    ledger: Ledger, source: DeviceSource, device: DeviceInfo | None, name: str, pace: Pace
) -> str | None:
    """Why a name has to stay in quarantine; None when it has not."""
    if name == HOST:
        left = [row for row in ledger.open_launches() if row.status == "quarantined"]
        return f"{len(left)} engines are not proven gone" if left else None
    if device is None:
        return "no driver shows it"
    problems = not_at_rest(source, known_baseline(ledger, [device]), [device], pace)
    return "; ".join(problems) or None


def accept_baseline(
    ledger: Ledger, source: DeviceSource, devices: Sequence[DeviceInfo], pace: Pace = QUICK
) -> Baseline:
    """Take what devices hold now for what they hold at rest.

    Raises:
        ResidueFound: While an engine of ours works on one of them, or may be there still.
        TelemetryLost: When one of them cannot be read, or does not stand still; or there is none.
    """
    if not devices:
        raise TelemetryLost("no driver shows a device, so there is nothing to accept")
    if held := [device.key for device in devices if holder_of(lease_file(device.key)) is not None]:
        raise ResidueFound(f"a study works with {', '.join(held)}: what it holds is no baseline")
    if ledger.open_launches():
        raise ResidueFound(
            "an engine is not proven gone, and what it holds is no baseline; run `tuner clean` first"
        )
    return Rest(ledger, source, pace).accept(devices)
