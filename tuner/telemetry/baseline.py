"""The memory that a device holds when nothing of ours runs, and whether it is back there.

The rule: used memory is at most ``max(256 MiB, 2 % of the device)`` above the idle baseline, in two
successive samples that are equal. A driver gives memory back bit by bit, so one low sample on the
way is no proof; and what is not known is a failure, never a pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.quantity import format_bytes
from tuner.telemetry.samples import DeviceInfo, DeviceSample

__all__ = ["Baseline", "Return", "allowance", "idle_baseline", "is_back"]

ALLOWED_BYTES = 256 * 2**20
ALLOWED_SHARE = 0.02
EQUAL_WITHIN = 2**20
"""Bytes within which two samples are equal: the step in which tools print memory."""

Rounds = Sequence[Sequence[DeviceSample]]


@dataclass(frozen=True, slots=True)
class DeviceBaseline:
    """One device at rest.

    Attributes:
        key: What identifies the card.
        name: The model of the card, for messages.
        used: Bytes in use at rest; None where they could not be read.
        total: Bytes of device memory; None where they could not be read.
    """

    key: str
    name: str
    used: int | None
    total: int | None


@dataclass(frozen=True, slots=True)
class Baseline:
    """All devices of an engine at rest. A host without devices has an empty one."""

    devices: tuple[DeviceBaseline, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """Why the baseline cannot be trusted; empty when it can."""
        return tuple(
            f"{each.name or 'device'} {each.key}: its memory could not be read at rest"
            for each in self.devices
            if each.used is None or each.total is None
        )

    def as_json(self) -> dict[str, Any]:
        """The baseline as JSON-ready data; :meth:`from_json` reads it back."""
        return {
            "devices": [
                {"key": each.key, "name": each.name, "used": each.used, "total": each.total}
                for each in self.devices
            ]
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Baseline:
        """The baseline that :meth:`as_json` wrote."""
        return cls(
            tuple(
                DeviceBaseline(each["key"], each["name"], each["used"], each["total"])
                for each in data["devices"]
            )
        )


@dataclass(frozen=True, slots=True)
class Return:
    """Whether all devices are back at their baseline.

    Attributes:
        ok: True only when every device was read and is back.
        reasons: One line for each device that is not, in words for people.
        excess: Bytes above the baseline in the last round, by device, where known.
    """

    ok: bool
    reasons: tuple[str, ...]
    excess: dict[str, int]


def allowance(total: int) -> int:
    """Bytes above the baseline that count as back, for a device with this much memory."""
    return max(ALLOWED_BYTES, int(ALLOWED_SHARE * total))


def idle_baseline(expected: Sequence[DeviceInfo], rounds: Rounds) -> Baseline:
    """The baseline of the devices that an engine will use, taken while nothing of ours runs.

    Args:
        expected: The devices; none for an engine that runs on the host alone.
        rounds: Samples, round by round. The last two must be equal for a device to have a
            baseline at all: memory that still moves is somebody's.
    """
    return Baseline(tuple(_device(each, rounds) for each in expected))


def _device(info: DeviceInfo, rounds: Rounds) -> DeviceBaseline:
    last = [_find(info.key, samples) for samples in rounds[-2:]]
    steady = len(last) == 2 and all(
        each is not None and each.memory_used is not None for each in last
    )
    used = [each.memory_used for each in last if each and each.memory_used is not None]
    if not steady or abs(used[0] - used[1]) > EQUAL_WITHIN:
        return DeviceBaseline(info.key, info.name, None, info.memory_total)
    final = last[-1]
    total = final.memory_total if final and final.memory_total else info.memory_total
    return DeviceBaseline(info.key, info.name, used[-1], total)


def is_back(baseline: Baseline, rounds: Rounds) -> Return:
    """Whether every device is back at its baseline, in the last two rounds of samples.

    Args:
        baseline: Taken at rest.
        rounds: Samples, round by round; fewer than two prove nothing, unless there is no device.
    """
    reasons: list[str] = list(baseline.problems)
    excess: dict[str, int] = {}
    for rest in baseline.devices:
        if rest.used is None or rest.total is None:
            continue
        why, over = _compare(rest.key, rest.used, rest.total, rounds)
        if over is not None:
            excess[rest.key] = over
        if why is not None:
            reasons.append(f"{rest.name or 'device'} {rest.key}: {why}")
    return Return(not reasons, tuple(reasons), excess)


def _compare(key: str, rest: int, total: int, rounds: Rounds) -> tuple[str | None, int | None]:
    if len(rounds) < 2:
        return "fewer than two samples were taken", None
    used: list[int] = []
    for samples in rounds[-2:]:
        found = _find(key, samples)
        if found is None:
            return "it is not there any more", None
        if found.memory_used is None:
            return f"its memory cannot be read ({found.error or 'no value'})", None
        used.append(found.memory_used)
    over = used[-1] - rest
    allowed = allowance(total)
    if max(used) - rest > allowed:
        above = format_bytes(max(used) - rest)
        return f"{above} above its baseline; {format_bytes(allowed)} is allowed", over
    if abs(used[0] - used[1]) > EQUAL_WITHIN:
        return (
            f"its memory still moves: {format_bytes(used[0])}, then {format_bytes(used[1])}",
            over,
        )
    return None, over


def _find(key: str, samples: Sequence[DeviceSample]) -> DeviceSample | None:
    return next((each for each in samples if each.key == key), None)
