"""Devices at rest: what they hold before anything of ours runs, and whether they are back there.

Memory that a dead engine still holds is blamed on the next, innocent one. So before each start the
devices are compared with what they held when nothing of ours ran, and after each stop they must be
back there. A device that is not is put in quarantine; what cannot be read counts as not back.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tuner.errors import Quarantined, ResidueFound, TelemetryLost
from tuner.launch.identity import boot_id
from tuner.quantity import format_bytes
from tuner.spec.deployment import Deployment
from tuner.store.ledger import Ledger
from tuner.store.rows import BaselineRow, TrialRow
from tuner.telemetry.baseline import Baseline, DeviceBaseline, Return, idle_baseline, is_back
from tuner.telemetry.samples import DeviceInfo, DeviceSource
from tuner.telemetry.sick import sickness
from tuner.trial.context import Study
from tuner.trial.placing import devices_of, on_devices
from tuner.trial.sampling import Pace, Rounds, Sampling
from tuner.verdict import DeviceFacts

HOST = "host"
"""The name under which the host is in quarantine, while an engine's processes cannot be ended."""

_NODES = ("nvidia[0-9]*", "iluvatar[0-9]*")
_DEV = Path("/dev")
_ODD_BYTES = 2 * 2**30
_ODD_SHARE = 0.1
"""What a device may hold at first sight: a driver's reserve or a desktop, and no forgotten engine."""

PACE = Pace()


class Rest:
    """Compares devices with their baseline, around each engine.

    Args:
        ledger: Keeps the baselines and the quarantine.
        source: Where samples come from; used between watches, never beside one.
        pace: How long is waited.
    """

    def __init__(self, ledger: Ledger, source: DeviceSource, pace: Pace | None = None) -> None:
        self._ledger = ledger
        self._sampling = Sampling(source, pace or PACE)

    def require_clean(
        self, devices: Sequence[DeviceInfo], *, trial: TrialRow | None = None
    ) -> tuple[DeviceFacts, ...]:
        """Make sure that an engine may be started on devices.

        Args:
            devices: Those that it will use; none for an engine that runs on the host alone.
            trial: The trial that it is of.

        Returns:
            What each of them held at rest, and holds now.

        Raises:
            Quarantined: When one of them, or the host, is in quarantine, or is sick.
            ResidueFound: When one holds memory that it did not hold at rest.
            TelemetryLost: When they cannot be read.
        """
        refuse_quarantined(self._ledger, [d.key for d in devices])
        if not devices:
            return ()
        rest = self._baseline(devices)
        rounds = self._wait(rest)
        back = is_back(rest, rounds)
        if not back.ok:
            self._refuse(back)
        self._refuse_sick(devices, rounds, trial)
        return _facts(rest, rounds)

    def prove_back(
        self, devices: Sequence[DeviceInfo], who: str, *, trial: TrialRow | None = None
    ) -> None:
        """Make sure that devices are back at rest when an engine has ended.

        Args:
            devices: Those that it used.
            who: The engine, for the reason.
            trial: The trial that it was of.

        Raises:
            Quarantined: When they are not back in time, or cannot be read. They are in quarantine
                then.
        """
        if not devices:
            return
        rest = self._baseline(devices)
        rounds = self._wait(rest)
        for device in rest.devices:
            back = is_back(Baseline((device,)), rounds)
            if not back.ok:
                reason = "; ".join((*back.reasons, *self._sampling.lost))
                self._put_aside(device.key, f"after {who}: {reason}", trial)
        refuse_quarantined(self._ledger, [d.key for d in devices])

    def accept(self, devices: Sequence[DeviceInfo]) -> Baseline:
        """Take what devices hold now for what they hold at rest.

        Raises:
            TelemetryLost: When it cannot be read, or does not stand still.
        """
        rounds = self._sampling.rounds(
            lambda r: len(r) >= 2 and not idle_baseline(devices, r).problems
        )
        rest = idle_baseline(devices, rounds)
        if rest.problems:
            raise TelemetryLost("; ".join((*rest.problems, *self._sampling.lost)))
        for device in rest.devices:
            self._keep(device)
        return rest

    # --- how -------------------------------------------------------------------------------------

    def _baseline(self, devices: Sequence[DeviceInfo]) -> Baseline:
        """What devices hold at rest: as recorded since the boot, else as they are now."""
        known = known_baseline(self._ledger, devices)
        unknown = [d for d, rest in zip(devices, known.devices, strict=True) if rest.used is None]
        if not unknown:
            return known
        rounds = self._sampling.rounds(
            lambda r: len(r) >= 2 and not idle_baseline(unknown, r).problems
        )
        fresh = idle_baseline(unknown, rounds)
        if fresh.problems:
            raise TelemetryLost("; ".join((*fresh.problems, *self._sampling.lost)))
        for rest in fresh.devices:
            _refuse_odd(rest)
            self._keep(rest)
        return known_baseline(self._ledger, devices)

    def _keep(self, rest: DeviceBaseline) -> None:
        used, total = rest.used or 0, rest.total or 0
        self._ledger.keep_baseline(BaselineRow(rest.key, boot_id(), rest.name, used, total))

    def _wait(self, rest: Baseline) -> Rounds:
        return self._sampling.rounds(lambda rounds: is_back(rest, rounds).ok)

    def _refuse(self, back: Return) -> None:
        if self._sampling.lost:
            raise TelemetryLost(
                f"the devices cannot be read, so nothing is started on them: {self._sampling.lost[0]}"
            )
        raise ResidueFound(
            f"a device is not at rest, so nothing is started on it: {'; '.join(back.reasons)}. "
            "End what holds its memory; `tuner doctor` says more"
        )

    def _refuse_sick(
        self, devices: Sequence[DeviceInfo], rounds: Rounds, trial: TrialRow | None
    ) -> None:
        ours = {d.key: d.name for d in devices}
        last = rounds[-2:]
        sick = {key: why for key, why in sickness(last, idle=True).items() if key in ours}
        for key, why in sick.items():
            self._put_aside(key, f"{ours[key]} is sick: {why}", trial)
        refuse_quarantined(self._ledger, list(sick))

    def _put_aside(self, device: str, reason: str, trial: TrialRow | None) -> None:
        study, number = (None, None) if trial is None else (trial.study, trial.number)
        self._ledger.quarantine(device, reason, study=study, number=number)


def refuse_quarantined(ledger: Ledger, devices: Sequence[str]) -> None:
    """Refuse to start anything where a device, or the host, is in quarantine.

    Raises:
        Quarantined: With the reason, and what to do.
    """
    known = ledger.quarantined()
    if reasons := [f"{name}: {known[name]}" for name in (HOST, *devices) if name in known]:
        raise Quarantined(
            f"in quarantine, so nothing is started: {'; '.join(reasons)}. `tuner doctor` explains; "
            "`tuner clean` lifts it when all is back"
        )


def not_at_rest(
    source: DeviceSource, known: Baseline, devices: Sequence[DeviceInfo], pace: Pace | None = None
) -> tuple[str, ...]:
    """What speaks against starting anything on devices now; empty when nothing does.

    Args:
        source: Where samples come from.
        known: What is recorded of the devices at rest. One of which nothing is passes when it can
            be read, stands still and does not hold so much that somebody must have forgotten it.
        devices: The devices.
        pace: How long is waited.
    """
    sampling = Sampling(source, pace or PACE)
    first = sampling.rounds(lambda r: len(r) >= 2 and not idle_baseline(devices, r).problems)
    fresh = idle_baseline(devices, first).devices
    pairs = list(zip(known.devices, fresh, strict=True))
    odd = tuple(why for old, new in pairs if old.used is None and (why := _odd(new)) is not None)
    rest = Baseline(tuple(new if old.used is None else old for old, new in pairs))
    back = is_back(rest, first)
    if not back.ok:
        back = is_back(rest, sampling.rounds(lambda r: is_back(rest, r).ok))
    sick = sickness(first[-2:], idle=True)
    ill = tuple(f"{d.name} {d.key} is sick: {sick[d.key]}" for d in devices if d.key in sick)
    return (*back.reasons, *odd, *ill, *sampling.lost)


def known_baseline(ledger: Ledger, devices: Sequence[DeviceInfo]) -> Baseline:
    """What is recorded of devices at rest since the machine was started; None where nothing is."""
    known = ledger.baselines(boot_id())
    return Baseline(
        tuple(
            DeviceBaseline(d.key, d.name, known[d.key].used, known[d.key].total)
            if d.key in known
            else DeviceBaseline(d.key, d.name, None, d.memory_total)
            for d in devices
        )
    )


def used_devices(study: Study, deployment: Deployment) -> tuple[DeviceInfo, ...]:
    """The devices that a deployment's engine will use.

    Raises:
        TelemetryLost: When it runs on devices, the machine has some and no driver shows them.
    """
    shown = study.hardware.devices
    if on_devices(study.engines[deployment.engine]) and not shown and (nodes := device_nodes()):
        raise TelemetryLost(
            f"the machine has {', '.join(nodes)}, but no driver says what they hold, so nothing is "
            "started on them; `tuner doctor` says more"
        )
    return devices_of(study, deployment)


def device_nodes() -> tuple[str, ...]:
    """Device files of accelerators: a machine that has them has devices, whatever the driver says."""
    return tuple(sorted(str(path) for pattern in _NODES for path in _DEV.glob(pattern)))


def _refuse_odd(rest: DeviceBaseline) -> None:
    """Refuse a device that holds so much at first sight that somebody must have forgotten it."""
    if (why := _odd(rest)) is not None:
        raise ResidueFound(
            f"{why}. End what holds it; or, if it is meant to stay, say so with "
            "`tuner clean --accept-baseline`"
        )


def _odd(rest: DeviceBaseline) -> str | None:
    used, total = rest.used or 0, rest.total or 0
    if used <= max(_ODD_BYTES, _ODD_SHARE * total):
        return None
    return (
        f"{rest.name} {rest.key} holds {format_bytes(used)} before anything of ours has run on it"
    )


def _facts(rest: Baseline, rounds: Rounds) -> tuple[DeviceFacts, ...]:
    now = {sample.key: sample.memory_used for sample in rounds[-1]}
    return tuple(
        DeviceFacts(f"{d.name} {d.key}", baseline=d.used, before=now.get(d.key), total=d.total)
        for d in rest.devices
    )
