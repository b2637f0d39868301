"""Devices by lease: who works with a device holds its lock, in whatever state folder the work is kept.

The locks lie in the user's cache, which all state folders of a user share.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from filelock import Timeout

from tuner import paths
from tuner.errors import UserError
from tuner.spec import SearchSpace
from tuner.store.locks import Hold, holder_of
from tuner.telemetry.detect import visible
from tuner.telemetry.hardware import Hardware
from tuner.telemetry.samples import DeviceInfo
from tuner.trial.events import Voice
from tuner.trial.wishes import Wishes

HOST = "host"
"""The one lease of a machine without devices, and of engines that use none."""

_VISIBLE = ("CUDA_VISIBLE_DEVICES", "ILUVATAR_COREX_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
_AGAIN = 1.0


def needed(
    space: SearchSpace, devices: Sequence[DeviceInfo], *, on_devices: bool
) -> tuple[str, ...]:
    """The devices that a study's engines use: those that its space makes visible, else all.

    Args:
        space: The search space.
        devices: The machine's devices.
        on_devices: Whether its engines use devices at all.

    Returns:
        Keys of devices, in order; ``host`` where no device is used.
    """
    if not devices or not on_devices:
        return (HOST,)
    fixed = {name: str(value) for name, value in space.engine.env.items() if name in _VISIBLE}
    searched = any(parameter.env in _VISIBLE for parameter in space.parameters.values())
    shown = list(devices) if searched else visible(list(devices), fixed)
    return tuple(sorted(device.key for device in shown)) or (HOST,)


def check_devices(
    asked: Sequence[str] | None, here: Callable[[], Sequence[DeviceInfo]]
) -> tuple[str, ...] | None:
    """The keys of the devices that a person named by index, or by the beginning of their UUID.

    Args:
        asked: What was named; None or nothing for no wish.
        here: Says which devices the machine has; it is asked only where some were named.

    Raises:
        UserError: When there is no such device.
    """
    if not asked:
        return None
    devices = here()
    known = ", ".join(f"{d.index} ({d.key})" for d in devices) or "none"
    found = []
    for name in asked:
        match = [d for d in devices if name in {str(d.index), d.key} or d.key.startswith(name)]
        if len(match) != 1:
            raise UserError(f"there is no device {name!r}", mend=f"devices here: {known}")
        found.append(match[0].key)
    return tuple(sorted(set(found)))


def device_env(hardware: Hardware) -> dict[str, str]:
    """Variables that show an engine these devices and no others.

    Args:
        hardware: The machine, with those devices alone that the engine may use.
    """
    names = {"nvml": (_VISIBLE[0], _VISIBLE[2]), "ixsmi": (_VISIBLE[0], _VISIBLE[1])}
    shown = ",".join(device.uuid or str(device.index) for device in hardware.devices)
    return dict.fromkeys(names.get(hardware.telemetry, ()), shown) if shown else {}


@contextlib.contextmanager
def hold_devices(
    names: Sequence[str], holder: dict[str, Any], voice: Voice, wishes: Wishes
) -> Iterator[bool]:
    """Hold devices while the block runs; waits for them until it is told to end.

    Args:
        names: The devices.
        holder: Who holds them, for others to read.
        voice: Told when there is something to wait for.
        wishes: End the wait, too.

    Yields:
        Whether the devices are held; False when the wait was ended.
    """
    with contextlib.ExitStack() as held:
        for name in sorted(names):
            path = lease_file(name)
            said = False
            while True:
                try:
                    held.enter_context(Hold(path, {"device": name, **holder}))
                    break
                except Timeout:
                    if not said:
                        voice.say("note", text=f"waiting for {name}: {_who(path)} works with it")
                        said = True
                if wishes.cancelled.wait(_AGAIN) or wishes.ending:
                    yield False
                    return
        yield True


def lease_file(name: str) -> Path:
    """The lock of a device."""
    folder = paths.cache_dir() / "leases"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    safe = "".join(c if c.isalnum() or c in "-_" else "_" for c in name)[:40]
    return folder / f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}.lock"


def _who(path: Path) -> str:
    holder = holder_of(path) or {}
    study = holder.get("study")
    return f"process {holder.get('pid', 'unknown')}" + (f" (study {study})" if study else "")
