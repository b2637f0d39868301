"""Which source of device samples this machine has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tuner.errors import TelemetryLost
from tuner.telemetry.ixsmi import IxsmiSource, find_ixsmi
from tuner.telemetry.nvml import NvmlSource
from tuner.telemetry.samples import DeviceInfo, DeviceSource, NoDevices

__all__ = ["Detection", "detect", "visible"]

KINDS = ("auto", "nvml", "ixsmi", "none")

_VISIBLE = ("CUDA_VISIBLE_DEVICES", "ILUVATAR_COREX_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")


@dataclass(frozen=True, slots=True)
class Detection:
    """The source that was found.

    Attributes:
        source: Where samples come from; the caller closes it.
        notes: Why each source that was tried before it does not serve.
    """

    source: DeviceSource
    notes: tuple[str, ...] = ()


def detect(
    kind: str = "auto",
    *,
    ixsmi: str | None = None,
    openers: Mapping[str, Callable[[], DeviceSource]] | None = None,
) -> Detection:
    """Find the source of device samples.

    Args:
        kind: ``auto`` takes the first of NVML and ``ixsmi`` that shows a device, and else none.
            A named kind is opened or refused, never replaced.
        ixsmi: Path of the ``ixsmi`` program, where it is not found by itself.
        openers: What opens each kind, in the order to try; the real ones when None.

    Raises:
        TelemetryLost: When a named kind does not work.
        ValueError: When the kind is not known.
    """
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is no kind of telemetry: write one of {', '.join(KINDS)}")
    if kind == "none":
        return Detection(NoDevices())
    known = openers or {"nvml": NvmlSource, "ixsmi": lambda: IxsmiSource(ixsmi)}
    if kind != "auto":
        return Detection(_open(known[kind]))
    notes: list[str] = []
    for name, opener in known.items():
        if name == "ixsmi" and openers is None and find_ixsmi(ixsmi) is None:
            notes.append("ixsmi is not on this machine")
            continue
        try:
            return Detection(_open(opener), tuple(notes))
        except TelemetryLost as problem:
            notes.append(str(problem))
    return Detection(NoDevices(), tuple(notes))


def _open(opener: Callable[[], DeviceSource]) -> DeviceSource:
    source = opener()
    shown = False
    try:
        shown = bool(source.devices())
    finally:
        if not shown:
            source.close()
    if not shown:
        raise TelemetryLost(f"{source.kind} shows no device")
    return source


def visible(devices: list[DeviceInfo], env: Mapping[str, str]) -> list[DeviceInfo]:
    """The devices that an engine with this environment can see, in the order in which it does.

    Args:
        devices: All devices of the machine.
        env: The engine's environment; the first of the vendors' variables that is set decides.
            Entries are indices or the beginnings of UUIDs, and as in CUDA the first entry that
            names no device ends the list.
    """
    asked = next((env[name] for name in _VISIBLE if name in env), None)
    if asked is None or asked == "all":
        return list(devices)
    chosen: list[DeviceInfo] = []
    for entry in (part.strip() for part in asked.split(",")):
        match = _named(devices, entry)
        if match is None:
            break
        if match not in chosen:
            chosen.append(match)
    return chosen


def _named(devices: list[DeviceInfo], entry: str) -> DeviceInfo | None:
    if entry.isdigit():
        return next((each for each in devices if each.index == int(entry)), None)
    found = [each for each in devices if entry and (each.uuid or "").startswith(entry)]
    return found[0] if len(found) == 1 else None
