"""Devices: whether they can be read, are well, and hold no more than at rest; and who holds them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from tuner.errors import TelemetryLost
from tuner.store.ledger import Ledger
from tuner.store.locks import holder_of
from tuner.telemetry.baseline import Baseline, DeviceBaseline
from tuner.telemetry.detect import Detection
from tuner.telemetry.samples import DeviceInfo
from tuner.trial.care.finding import Finding, bad, note, ok
from tuner.trial.leases import lease_file
from tuner.trial.rest import device_nodes, known_baseline, not_at_rest
from tuner.trial.sampling import Pace

_QUICK = Pace(patience=3.0)


def look_at_devices(
    ledger: Ledger | None, detection: Detection, pace: Pace = _QUICK
) -> list[Finding]:
    """Every device of the machine.

    Args:
        ledger: The ledger, where there is one; it knows what devices hold at rest.
        detection: Where samples of devices come from.
        pace: How long devices are waited for.
    """
    check = "devices"
    try:
        devices = detection.source.devices()
    except TelemetryLost as error:
        return [bad(check, f"the driver does not answer: {error}", _DRIVER)]
    if not devices:
        nodes = device_nodes()
        if nodes:
            why = "; ".join(detection.notes) or "no driver answers"
            said = f"the machine has {', '.join(nodes)}, but nothing says what they hold: {why}"
            return [bad(check, said, _DRIVER)]
        return [ok(check, "none: engines run on the processor")]
    return [_look(check, ledger, detection, device, pace) for device in devices]


_DRIVER = (
    "see that nvidia-smi or ixsmi answers for your user, and that this machine, or container, sees the "
    "driver's libraries"
)


def _look(
    check: str, ledger: Ledger | None, detection: Detection, device: DeviceInfo, pace: Pace
) -> Finding:
    name = f"{device.name} {device.key}"
    if (holder := holder_of(lease_file(device.key))) is not None:
        return ok(check, f"{name}: process {holder.get('pid', 'unknown')} works with it")
    problems = not_at_rest(detection.source, _known(ledger, device), [device], pace)
    if not problems:
        return ok(check, f"{name} is at rest")
    sick = [why for why in problems if "is sick" in why or "cannot be read" in why]
    mend = _SICK if sick else f"{_held_by()}if it is meant to stay: tuner clean --accept-baseline"
    return bad(check, "; ".join(problems), mend)


_SICK = (
    "look at the kernel's log (dmesg), reset or reseat the card; nothing is started on it meanwhile"
)


def _known(ledger: Ledger | None, device: DeviceInfo) -> Baseline:
    if ledger is not None:
        return known_baseline(ledger, [device])
    return Baseline((DeviceBaseline(device.key, device.name, None, device.memory_total),))


def _held_by() -> str:
    holders = holders_of(device_nodes())
    if not holders:
        return "no process of yours has the device open: see what runs as another user; "
    return f"end what holds it ({', '.join(holders)}); "


def holders_of(nodes: Sequence[str]) -> tuple[str, ...]:
    """Processes, as far as they may be looked at, that have one of these device files open."""
    wanted = {Path(node) for node in nodes}
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        if wanted & set(_open_files(process)):
            found.append(f"pid {process.name}")
    return tuple(found)


def _open_files(process: Path) -> Iterator[Path]:
    try:
        for handle in (process / "fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                yield handle.readlink()
    except OSError:
        return  # it ended, or is another user's


def look_at_quarantine(ledger: Ledger | None) -> list[Finding]:
    """What nothing may be started on, and why."""
    if ledger is None:
        return []
    return [
        bad(
            "quarantine",
            f"nothing is started on {name}: {reason}",
            "tuner clean ends what is left and lifts it, once all is proven to be back; a reboot helps "
            "where a process cannot be ended",
        )
        for name, reason in ledger.quarantined().items()
    ]


def look_at_baselines(ledger: Ledger | None, boot: str) -> list[Finding]:
    """What is recorded of devices at rest."""
    known = ledger.baselines(boot) if ledger is not None else {}
    return [
        note("baseline", f"{row.name} {row.device} holds {row.used / 2**20:.0f} MiB at rest")
        for row in known.values()
    ]
