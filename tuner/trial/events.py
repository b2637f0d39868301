"""What a study says while it runs, for whoever watches."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tuner.store.ledger import Ledger

DURABLE = frozenset(
    {
        "search_over",
        "simpler",
        "finalists",
        "decision",
        "delivered",
        "retry",
        "note",
        "level",
        "levels",
        "proxy_report",
    }
)
"""Kinds that are kept in the ledger when they are said. ``study``, ``plan``, ``stage``, ``told`` and
``quarantine`` the ledger keeps by itself, together with what they tell of; the others only tell those who watch now."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened.

    Attributes:
        kind: What: ``study``, ``build``, ``stage``, ``told``, ``load``, ``best`` …
        number: The trial it is about, if it is about one.
        data: The particulars, JSON-ready.
        at: Seconds since 1970.
    """

    kind: str
    number: int | None = None
    data: dict[str, Any] = field(default_factory=dict)
    at: float = field(default_factory=time.time)


Watcher = Callable[[Happening], None]


class Voice:
    """Tells the watchers, and the ledger what is worth keeping.

    Args:
        ledger: The ledger of the study.
        study: The study's id.
        watchers: Called in order for each happening.
    """

    def __init__(self, ledger: Ledger, study: int, *watchers: Watcher) -> None:
        self._ledger = ledger
        self._study = study
        self._watchers = watchers

    def say(self, kind: str, number: int | None = None, **data: Any) -> None:
        """Tell one thing."""
        if kind in DURABLE:
            self._ledger.note(self._study, kind, data, number)
        happening = Happening(kind, number, data)
        for watcher in self._watchers:
            watcher(happening)
