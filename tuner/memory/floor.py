"""The floor: memory that must stay free while a deployment runs.

A server that lives on its last 50 MiB dies at the first request that is a little larger. So the
least free memory of a trial is compared with a share of the device, and a trial below it is
infeasible even though it survived.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tuner.quantity import format_bytes

__all__ = ["FLOOR", "Floor", "FloorTracker", "Least", "judge_floor"]

FLOOR = 0.02
"""Share of a device that must stay free, by default."""


@dataclass(frozen=True, slots=True)
class Least:
    """The least free memory of one device.

    Attributes:
        key: What identifies the device.
        free: Bytes that were free at the worst moment; None when it was never known.
        total: Bytes of the device; None when they are not known.
    """

    key: str
    free: int | None
    total: int | None


@dataclass(frozen=True, slots=True)
class Floor:
    """Whether every device stayed above the floor.

    Attributes:
        ok: True when no device is known to have been below. Devices of which nothing is known are in
            ``unknown`` and do not make it False: there is nothing to grade a constraint by.
        margin: Bytes above the floor of the tightest device, negative below it; None when nothing
            is known.
        relative: The same as a share of that device.
        reasons: One line for each device below the floor.
        unknown: Devices whose free memory was never known.
    """

    ok: bool
    margin: int | None
    relative: float | None
    reasons: tuple[str, ...]
    unknown: tuple[str, ...]


def judge_floor(devices: Iterable[Least], *, floor: float = FLOOR) -> Floor:
    """Compare the least free memory of each device with the floor.

    Args:
        devices: The devices of the engine.
        floor: Share of a device that must stay free, from 0 to below 1.

    Raises:
        ValueError: When the floor is no such share.
    """
    if not 0 <= floor < 1:
        raise ValueError(f"a floor of {floor:g} is no share of a device: write 0 to below 1")
    reasons: list[str] = []
    unknown: list[str] = []
    tightest: tuple[float, int] | None = None
    for each in devices:
        if each.free is None or not each.total:
            unknown.append(each.key)
            continue
        margin = each.free - int(floor * each.total)
        relative = margin / each.total
        tightest = min(tightest or (relative, margin), (relative, margin))
        if margin < 0:
            reasons.append(
                f"device {each.key}: {format_bytes(each.free)} free at the worst moment, "
                f"{format_bytes(int(floor * each.total))} ({floor:.1%}) must stay free"
            )
    return Floor(
        ok=not reasons,
        margin=None if tightest is None else tightest[1],
        relative=None if tightest is None else tightest[0],
        reasons=tuple(reasons),
        unknown=tuple(unknown),
    )


class FloorTracker:
    """Keeps the least free memory of each device while a trial runs."""

    def __init__(self) -> None:
        self._least: dict[str, Least] = {}

    def add(self, key: str, free: int | None, total: int | None) -> None:
        """Take one sample of one device; what is not known changes nothing but is remembered."""
        known = self._least.get(key, Least(key, None, None))
        least = known.free if free is None else free
        if known.free is not None and least is not None:
            least = min(known.free, least)
        self._least[key] = Least(key, least, total or known.total)

    def judge(self, *, floor: float = FLOOR) -> Floor:
        """Whether every device stayed above the floor so far."""
        return judge_floor(self._least.values(), floor=floor)
