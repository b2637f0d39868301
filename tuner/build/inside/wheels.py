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
    there = {_key(*path.name.split("-")[:2]) for path in wheelhouse.glob("*.whl")}
    missing: list[tuple[int, str]] = []
    lines = (recipe / requirements).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        found = _PIN.match(line.strip())
        if found and not found.group(3) and _key(found.group(1), found.group(2)) not in there:
            missing.append((number, line.strip()))
    if missing:
        shown = "; ".join(f"{requirements}:{number}: {pin}" for number, pin in missing[:_SHOWN])
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        pins = " ".join(pin for _, pin in missing[:_SHOWN])
        raise WheelMissing(
            f"{shown}{more}: no wheel in the wheelhouse",
            f"on a machine with an index and Python {_version()}: pip download --no-deps --dest WHEELHOUSE {pins}",
        )


def _key(name: str, version: str) -> tuple[str, str]:
    return re.sub(r"[-_.]+", "-", name).lower(), version


def _version() -> str:
    return ".".join(platform.python_version_tuple()[:2])
