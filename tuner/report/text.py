"""Foreign text made harmless: what engines, models and files say is shown, never obeyed."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from typing import Any

LONGEST = 2000
"""Characters of one piece of foreign text that a report shows."""

AS_BASELINE = "as the baseline"

_KEPT = frozenset("\n\t")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that are not seen: control characters, marks that turn the direction of text,
halves of pairs, characters that nobody has defined."""


def clean(text: str, longest: int = LONGEST) -> str:
    """A text without what cannot be seen and could mislead, and no longer than it should be.

    Args:
        text: Any text: a log line, a name, a path.
        longest: The most characters that are kept; what is cut is said.
    """
    shown = text if len(text) <= longest else f"{text[:longest]} … ({len(text) - longest} more)"
    return "".join(
        c if c in _KEPT or unicodedata.category(c) not in _HIDDEN else "�" for c in shown
    )


def one_line(text: str, longest: int = LONGEST) -> str:
    """The same in one line."""
    return " ".join(clean(text, longest).split())


def value(given: Any) -> str:
    """A parameter's value for people."""
    if isinstance(given, bool):
        return "on" if given else "off"
    return one_line(given if isinstance(given, str) else json.dumps(given))


def point(params: Mapping[str, Any]) -> str:
    """A point in one line."""
    return " ".join(f"{one_line(name)}={value(given)}" for name, given in params.items())


def changes(params: Mapping[str, Any], base: Mapping[str, Any]) -> str:
    """How a point differs from the baseline."""
    changed = {k: v for k, v in params.items() if k not in base or base[k] != v}
    gone = ", ".join(one_line(name) for name in base if name not in params)
    parts = [point(changed)] if changed else []
    return ", ".join([*parts, *([f"without {gone}"] if gone else [])]) or AS_BASELINE
