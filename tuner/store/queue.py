"""The queue: which studies are wanted to run, in which order, with which limits."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from typing import Any, Literal

from tuner.errors import StudyNotFound
from tuner.store.ledger import Ledger

Wanted = Literal["run", "pause", "stop"]
LIMITS = ("trials", "wall", "engine")
"""What a budget may limit: trials, seconds of work, seconds with an engine up."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A study's place in the queue.

    Attributes:
        study: The study's id.
        wanted: What is wished of it.
        priority: Higher goes first.
        place: Among equals, lower goes first.
        budget: Limits in place of the search space's own: ``trials``, ``wall``, ``engine``.
        devices: Names of the devices that it may have; None for what its search space asks.
        stood: The folder in which the person stood who submitted it; relative exports go there.
        deaths: How often its worker died since it last told a trial.
    """

    study: int
    wanted: Wanted
    priority: int
    place: float
    budget: dict[str, float]
    devices: tuple[str, ...] | None
    stood: str
    deaths: int

    @property
    def order(self) -> tuple[int, float, int]:
        """What entries are sorted by."""
        return (-self.priority, self.place, self.study)


class Queue:
    """The queue of a ledger.

    Args:
        ledger: The ledger; open for writing where something is to be changed.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def put(
        self,
        study: int,
        *,
        stood: str,
        priority: int | None = None,
        budget: dict[str, float] | None = None,
        devices: tuple[str, ...] | None = None,
    ) -> Entry:
        """Want a study to run: at the end of the queue if it is new there, else where it was.

        What is not given stays as it was, but for the devices.

        Args:
            study: The study's id.
            stood: The folder in which the person stood who submitted it.
            priority: Higher goes first.
            budget: All limits in place of the search space's own: those of earlier go.
            devices: Names of the devices that it may have.
        """
        known = self.find(study)
        with self._ledger.change() as db:
            (last,) = db.execute("SELECT COALESCE(MAX(place), 0) FROM queue").fetchone()
            values = (
                study,
                "run",
                priority if priority is not None else (known.priority if known else 0),
                known.place if known else last + 1,
                json.dumps(budget if budget is not None else known.budget if known else {}),
                None if devices is None else json.dumps(devices),
                stood,
            )
            db.execute(
                "INSERT OR REPLACE INTO queue(study, wanted, priority, place, budget, devices, stood, deaths)"
                " VALUES (?,?,?,?,?,?,?,0)",
                values,
            )
        return self.entry(study)

    def find(self, study: int) -> Entry | None:
        """A study's entry; None for one that was never submitted to a daemon."""
        row = self._ledger.db.row("SELECT * FROM queue WHERE study=?", (study,))
        return None if row is None else _entry(row)

    def entry(self, study: int) -> Entry:
        """A study's entry.

        Raises:
            StudyNotFound: When it has none.
        """
        found = self.find(study)
        if found is None:
            raise StudyNotFound(
                "the study was never in the queue", mend="put it there with `tuner resume`"
            )
        return found

    def entries(self) -> list[Entry]:
        """All entries, those that go first first."""
        rows = self._ledger.db.rows("SELECT * FROM queue")
        return sorted((_entry(row) for row in rows), key=lambda entry: entry.order)

    def want(self, study: int, wanted: Wanted) -> None:
        """Wish something else of a study."""
        self._set(study, "wanted", wanted)

    def prioritize(self, study: int, priority: int) -> None:
        """Give a study another priority; it goes behind those that have it already."""
        with self._ledger.change() as db:
            (last,) = db.execute("SELECT COALESCE(MAX(place), 0) FROM queue").fetchone()
            db.execute(
                "UPDATE queue SET priority=?, place=? WHERE study=?", (priority, last + 1, study)
            )

    def put_before(self, study: int, other: int) -> None:
        """Move a study right before another one; it takes over the other's priority."""
        target = self.entry(other)
        ahead = [e for e in self.entries() if e.order < target.order and e.study != study]
        near = ahead[-1] if ahead and ahead[-1].priority == target.priority else None
        place = (near.place + target.place) / 2 if near else target.place - 1
        with self._ledger.change() as db:
            db.execute(
                "UPDATE queue SET priority=?, place=? WHERE study=?",
                (target.priority, place, study),
            )

    def allow(self, study: int, budget: dict[str, float]) -> Entry:
        """Give a study other limits; those not named stay."""
        merged = {**self.entry(study).budget, **budget}
        self._set(study, "budget", json.dumps(merged))
        return self.entry(study)

    def died(self, study: int) -> int:
        """Note that a study's worker died; how often that is since it last told a trial."""
        with self._ledger.change() as db:
            db.execute("UPDATE queue SET deaths = deaths + 1 WHERE study=?", (study,))
        return self.entry(study).deaths

    def lives(self, study: int) -> None:
        """Note that a study told a trial: its worker's deaths are forgiven."""
        self._set(study, "deaths", 0)

    def _set(self, study: int, column: Literal["wanted", "budget", "deaths"], value: Any) -> None:
        with self._ledger.change() as db:
            db.execute(
                f"UPDATE queue SET {column}=? WHERE study=?",  # noqa: S608 - one of three names
                (value, study),
            )

    # --- marks -----------------------------------------------------------------------------------

    def mark(self, name: str) -> int | None:
        """The last event that a reader has dealt with; None for a reader that is new."""
        row = self._ledger.db.row("SELECT event FROM marks WHERE name=?", (name,))
        return None if row is None else int(row["event"])

    def set_mark(self, name: str, event: int) -> None:
        """Note that a reader has dealt with all events up to one."""
        with self._ledger.change() as db:
            db.execute("INSERT OR REPLACE INTO marks(name, event) VALUES (?,?)", (name, event))


def _entry(row: sqlite3.Row) -> Entry:
    devices = None if row["devices"] is None else tuple(json.loads(row["devices"]))
    plain = {
        name: row[name] for name in ("study", "wanted", "priority", "place", "stood", "deaths")
    }
    return Entry(**plain, budget=json.loads(row["budget"]), devices=devices)
