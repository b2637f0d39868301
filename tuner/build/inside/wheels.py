"""Looks for the wheels of a lock file before pip does, to name the line and the mend of a missing one."""

from __future__ import annotations

import platform
import re
from pathlib import Path

_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)==([\w.+!-]+)\s*(;.*)?$")
_SHOWN = 5


class WheelMissing(Exception):
    """A wheel that a lock file names and the wheelhouse lacks."""

    def __init__(self, message: str, mend: str) -> None:
        self.mend = mend
        super().__init__(message)


def require(recipe: Path, requirements: str, wheelhouse: Path) -> None:
    """Insist that every pinned package of a lock file has a wheel.

    Lines with a marker (``; platform_machine == …``) are left to pip.

    Args:
        recipe: The recipe's folder.
        requirements: The lock file in it.
        wheelhouse: The folder with the wheels.

    Raises:
        WheelMissing: When one has none; the message shows the first few.
    """
    lacking = [
        (number, pin)
        for number, pin in missing(recipe / requirements, wheelhouse)
        if ";" not in pin
    ]
    if lacking:
        shown = "; ".join(f"{requirements}:{number}: {pin}" for number, pin in lacking[:_SHOWN])
        more = f" and {len(lacking) - _SHOWN} more" if len(lacking) > _SHOWN else ""
        pins = " ".join(pin for _, pin in lacking[:_SHOWN])
        raise WheelMissing(
            f"{shown}{more}: no wheel in the wheelhouse",
            f"on a machine with an index and Python {_version()}: pip download --no-deps --dest WHEELHOUSE {pins}",
        )


def missing(lock: Path, wheelhouse: Path) -> list[tuple[int, str]]:
    """Lines of a lock file, with their numbers, whose package has no wheel; markers are not weighed."""
    there = {_key(*path.name.split("-")[:2]) for path in wheelhouse.glob("*.whl")}
    lines = enumerate(lock.read_text(encoding="utf-8").splitlines(), 1)
    pins = [(number, line.strip(), _PIN.match(line.strip())) for number, line in lines]
    return [
        (number, line)
        for number, line, pin in pins
        if pin and _key(pin.group(1), pin.group(2)) not in there
    ]


def _key(name: str, version: str) -> tuple[str, str]:
    return re.sub(r"[-_.]+", "-", name).lower(), version


def _version() -> str:
    return ".".join(platform.python_version_tuple()[:2])
