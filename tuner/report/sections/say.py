"""Numbers in words, the same way in all sections."""

from __future__ import annotations

from tuner.score.figures import FIGURES
from tuner.store.rows import Event


def number(value: float | None) -> str:
    """A number with as many digits as people read."""
    if value is None:
        return "-"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def label(name: str) -> str:
    """What people call a figure, with its unit."""
    found = FIGURES[name]
    return f"{found.label}, {found.unit}" if found.unit else found.label


def percent(part: float, *, sign: bool = True) -> str:
    """A part in percent: ``+4.2 %``."""
    digits = 0 if abs(part) >= 10 else 1
    text = f"{100 * part:+,.{digits}f}" if sign else f"{100 * part:,.{digits}f}"
    return f"{text} %"


def of_gate(event: Event) -> str:
    """What the gate of a proxy did, in a line; where it is about one trial, with its number."""
    text = str(event.data["text"])
    return f"trial {event.number}: {text}" if "point" in event.data else text
