"""Amounts as people write them: ``90s``, ``1h30m``, ``8GiB``, ``2%``."""

from __future__ import annotations

import re

_TIME_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTE_UNITS = {
    "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip
_TIME_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
_BYTES = re.compile(r"(\d+(?:\.\d+)?) ?(B|[KMGT]i?B)", re.ASCII)


def parse_seconds(text: str) -> float:
    """Seconds in a duration such as ``90s``, ``12m`` or ``1h30m``.

    Raises:
        ValueError: When the text is not a duration.
    """
    parts = _TIME_PART.findall(text)
    if not parts or "".join(n + u for n, u in parts) != text:
        raise ValueError(
            f"{text!r} is not a duration: write a number and ms, s, m, h or d, as in 90s or 1h30m"
        )
    return sum(float(number) * _TIME_UNITS[unit] for number, unit in parts)


def parse_bytes(text: str) -> int:
    """Bytes in a size such as ``8GiB`` or ``512 MB``.

    Raises:
        ValueError: When the text is not a size.
    """
    found = _BYTES.fullmatch(text)
    if found is None:
        raise ValueError(
            f"{text!r} is not a size: write a number and B, KB, MB, GB, KiB, MiB, GiB …, as in 8GiB"
        )
    return int(float(found[1]) * _BYTE_UNITS[found[2]])


def format_bytes(count: float) -> str:
    """A size for people, in binary units: ``1.5 GiB``."""
    sign = "-" if count < 0 else ""
    size = abs(float(count))
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{sign}{size:.0f} B" if unit == "B" else f"{sign}{size:.1f} {unit}"
        size /= 1024
    return f"{sign}{size:.1f} TiB"


def format_seconds(seconds: float) -> str:
    """A duration for people: ``4.2 s``, ``3 m 05 s``, ``2 h 10 m``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} m"
