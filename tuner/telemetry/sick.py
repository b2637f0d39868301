"""Signs that a device is sick: rules over samples and over lines of the kernel's log."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence

from tuner.telemetry.samples import DeviceSample, normal_bus_id

__all__ = ["TOO_HOT", "Ailing", "sickness", "xid_fault"]

TOO_HOT = 95.0
"""Degrees Celsius from which a card is held to be failing, whatever its maker allows."""

_WEDGED_CLOCK = 50.0  # a card under load runs at hundreds of MHz; a wedged one showed 25 and 33
_NO_POWER = 60_000.0  # 65535 W is the sensor's "no value"

_XID = re.compile(r"\bXid\s*\((?:PCI:)?(?P<bus>[0-9A-Fa-f:.]+)\):\s*(?P<number>\d{1,4})\b")
_HARDWARE_XIDS = {
    48: "double-bit memory error",
    62: "internal micro-controller halted",
    64: "memory row could not be remapped",
    74: "NVLink error",
    79: "the card has fallen off the bus",
    92: "high rate of single-bit memory errors",
    95: "uncontained memory error",
    119: "the card's system processor does not answer",
    120: "the card's system processor failed",
    140: "unrecovered memory error",
    143: "the card did not initialise",
}
"""NVIDIA's event numbers that mean broken hardware. Numbers that a program's own fault causes
(13, 31, 43, 45) and contained errors (63, 94) are left out on purpose. Source: NVIDIA's Xid catalogue."""


def _unreadable(sample: DeviceSample) -> str | None:
    return f"it cannot be read: {sample.error}" if sample.error else None


def _wedged(sample: DeviceSample) -> str | None:
    """Fully busy at idle clocks, with sensors that say nothing sensible."""
    busy = sample.utilization is not None and sample.utilization >= 99
    slow = sample.sm_clock is not None and sample.sm_clock <= _WEDGED_CLOCK
    no_power = sample.power is not None and sample.power >= _NO_POWER
    cold = sample.temperature is not None and sample.temperature <= 0
    if no_power or (cold and busy) or (busy and slow):
        return (
            f"it is wedged: {_say(sample.utilization, '%')} busy at {_say(sample.sm_clock, 'MHz')}, "
            f"{_say(sample.temperature, 'C')}, {_say(sample.power, 'W')}"
        )
    return None


def _hot(sample: DeviceSample) -> str | None:
    if sample.temperature is not None and sample.temperature >= TOO_HOT:
        return f"it is too hot: {sample.temperature:.0f} C"
    return None


_RULES: tuple[Callable[[DeviceSample], str | None], ...] = (_unreadable, _wedged, _hot)


def sickness(rounds: Sequence[Sequence[DeviceSample]], *, idle: bool = False) -> dict[str, str]:
    """Devices that look sick in every one of several rounds of samples, with the reason.

    One odd sample is no illness: a sensor can be read at a bad moment. So what is said here held
    in all rounds; give it two or three.

    Args:
        rounds: Samples of all devices, round by round.
        idle: Whether nothing of ours runs on the devices. Then a card that is busy all the time is
            stuck: such a card lets no program open it.

    Returns:
        Key of the device to the reason, from the last round.
    """
    if not rounds:
        return {}
    found = [{s.key: why for s in samples if (why := _reason(s, idle=idle))} for samples in rounds]
    return {key: why for key, why in found[-1].items() if all(key in each for each in found)}


class Ailing:
    """Devices that looked sick for several samples on end while something ran on them.

    Args:
        rounds: How many samples on end make an illness.
    """

    def __init__(self, rounds: int = 5) -> None:
        self._rounds = rounds
        self._last: deque[Sequence[DeviceSample]] = deque(maxlen=rounds)
        self._found: dict[str, str] = {}

    def add(self, samples: Sequence[DeviceSample]) -> None:
        """Take one sample of all devices."""
        self._last.append(samples)
        if len(self._last) == self._rounds:
            self._found |= sickness(tuple(self._last))

    @property
    def found(self) -> dict[str, str]:
        """Key of each device that was sick at some time to the last reason."""
        return dict(self._found)


def _reason(sample: DeviceSample, *, idle: bool) -> str | None:
    for rule in _RULES:
        if why := rule(sample):
            return why
    if idle and sample.utilization is not None and sample.utilization >= 99:
        return f"it is stuck: {sample.utilization:.0f} % busy while nothing of ours runs on it"
    return None


def xid_fault(line: str) -> tuple[str, str] | None:
    """The device and the reason in a line of the kernel's log that reports broken hardware.

    Returns:
        The PCI address without the function, with an eight-digit domain (``00000000:3b:00``), and
        the reason; None for every other line.
    """
    found = _XID.search(line)
    if found is None:
        return None
    number = int(found["number"])
    what = _HARDWARE_XIDS.get(number)
    bus = normal_bus_id(f"{found['bus'].rstrip(':').partition('.')[0]}.0")
    if what is None or bus is None:
        return None
    return bus.removesuffix(".0"), f"Xid {number}: {what}"


def _say(value: float | None, unit: str) -> str:
    return "unknown" if value is None else f"{value:.0f} {unit}"
