"""The ledger: what was planned, what was begun, what came of it. The only truth there is.

One SQLite file, read by anyone. Who may write is settled by locks (:mod:`tuner.store.locks`): one
tuner holds the folder, and each study is worked on by one process. Each change is one immediate
transaction in WAL mode with ``synchronous=FULL``: a change that was reported is on disk, also after
a power cut. Stages are appended to ``transitions``, and the row of a trial holds their sum; the two
change together, and with them the event that tells those who watch.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self

from tuner.errors import LedgerCorrupt, StudyConflict, StudyNotFound
from tuner.store import parsed
from tuner.store.database import LEDGER_NAME, Database
from tuner.store.redact import NOTHING, Redactor
from tuner.store.rows import (
    OPEN,
    BaselineRow,
    Carried,
    Event,
    LaunchRow,
    Origin,
    StudyRow,
    Transition,
    TrialRow,
)
from tuner.store.stages import Stage, may_follow

__all__ = ["LEDGER_NAME", "Ledger", "Said"]

Said = tuple[str, dict[str, Any]]
"""The kind of an event, and its particulars."""


class Ledger:
    """The ledger of one state folder.

    Args:
        folder: The state folder.
        write: Whether things are to be changed; else it is only read.
        hold: Whether a writer takes the folder's lock. One that works under a tuner that holds it
            does not; it holds the lock of its study.
        later: Whether the sums of all rows are looked at later, with ``ledger.db.verify()``.
        database: What opens the file.

    Attributes:
        redact: Takes secrets out of all that is written; it knows none until it is told.

    Raises:
        StateUnusable: When the folder cannot be written, or another tuner holds it.
        LedgerCorrupt: When the file is not a ledger that this tuner can read.
    """

    def __init__(
        self,
        folder: Path,
        *,
        write: bool,
        hold: bool = True,
        later: bool = False,
        database: type[Database] = Database,
    ) -> None:
        self.redact: Redactor = NOTHING
        self._db = database(folder, write=write, hold=hold, later=later)
        self.folder = folder
        self.path = self._db.path

    def close(self) -> None:
        """Give the file and the lock back."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def db(self) -> Database:
        """The database, for the other modules of this room and for questions of one's own."""
        return self._db

    def change(self) -> AbstractContextManager[sqlite3.Connection]:
        """One change: all that the block writes reaches the disk, or nothing of it.

        Raises:
            NoSpaceLeft: When the disk is full.
            StateUnusable: When the disk refuses otherwise, or the files are not ours any more.
        """
        return self._db.change()

    # --- studies ---------------------------------------------------------------------------------

    def create_study(
        self, *, name: str, fingerprint: str, space: str, origin: str, status: str = "running"
    ) -> StudyRow:
        """Enter a new study.

        Raises:
            StudyConflict: When the name is in use.
        """
        try:
            with self.change() as db:
                db.execute(
                    "INSERT INTO studies(name, fingerprint, space, origin, status, facts, created)"
                    " VALUES (?,?,?,?,?,'{}',?)",
                    (name, fingerprint, space, origin, status, time.time()),
                )
        except sqlite3.IntegrityError:
            raise StudyConflict(f"a study named {name!r} exists already") from None
        return self.study(name)

    def study(self, name: str) -> StudyRow:
        """The study of that name.

        Raises:
            StudyNotFound: When there is none.
        """
        row = self._db.row("SELECT * FROM studies WHERE name=?", (name,))
        if row is None:
            known = ", ".join(s.name for s in self.studies()) or "none"
            raise StudyNotFound(f"there is no study named {name!r}", mend=f"studies here: {known}")
        return parsed.study(row)

    def studies(self) -> list[StudyRow]:
        """All studies, the oldest first."""
        return [parsed.study(row) for row in self._db.rows("SELECT * FROM studies ORDER BY id")]

    def set_status(
        self, study: int, status: str, reason: str | None = None, *, exit_code: int | None = None
    ) -> None:
        """Say that a study waits, runs, finished, was stopped or failed, and why.

        Args:
            study: The study.
            status: One of those that :class:`StudyRow` names.
            reason: Why, for people.
            exit_code: What a command that waited for it ends with.
        """
        ended = None if status in OPEN else time.time()
        reason = None if reason is None else self.redact.text(reason)
        with self.change() as db:
            db.execute(
                "UPDATE studies SET status=?, reason=?, ended=? WHERE id=?",
                (status, reason, ended, study),
            )
            said = {"status": status, "reason": reason, "exit": exit_code}
            self._event(db, study, "study", said)

    def add_facts(self, study: int, facts: dict[str, Any]) -> None:
        """Add to what is known of the machine and the engine of a study."""
        with self.change() as db:
            (raw,) = db.execute("SELECT facts FROM studies WHERE id=?", (study,)).fetchone()
            db.execute(
                "UPDATE studies SET facts=? WHERE id=?",
                (self._dump({**json.loads(raw), **facts}), study),
            )

    def change_space(
        self,
        study: StudyRow,
        *,
        fingerprint: str,
        space: str,
        origin: str,
        carried: Mapping[int, Carried],
        history: Mapping[int, str],
        said: dict[str, Any],
    ) -> StudyRow:
        """Give a study another search space, all at once.

        Args:
            study: The study.
            fingerprint: What the new space means.
            space: Its text.
            origin: The file it came from.
            carried: Trials that still count, in its terms.
            history: Why the other ones do not.
            said: What to keep of it as the event ``migrated``; the old space is added.
        """
        with self.change() as db:
            db.execute(
                "UPDATE studies SET fingerprint=?, space=?, origin=? WHERE id=?",
                (fingerprint, space, origin, study.id),
            )
            for number, trial in carried.items():
                db.execute(
                    "UPDATE trials SET origin=?, params=?, assignment=? WHERE study=? AND number=?",
                    (
                        trial.origin,
                        self._dump(trial.params),
                        self._dump(trial.assignment),
                        study.id,
                        number,
                    ),
                )
            for number, why in history.items():
                db.execute(
                    "UPDATE trials SET history=? WHERE study=? AND number=?",
                    (why, study.id, number),
                )
            before = {"fingerprint": study.fingerprint, "space": study.space}
            self._event(db, study.id, "migrated", {**said, "before": before})
        return self.study(study.name)

    # --- trials ----------------------------------------------------------------------------------

    def plan(  # noqa: PLR0913 - what a new row holds, all named
        self,
        study: int,
        *,
        origin: Origin,
        params: dict[str, Any],
        assignment: dict[str, Any] | None,
        deployment: dict[str, Any],
        repeats: int | None = None,
        block: int | None = None,
        beside: Sequence[Said] = (),
    ) -> TrialRow:
        """Enter a new trial with the next number, and events that become true with it."""
        with self.change() as db:
            (number,) = db.execute(
                "SELECT COALESCE(MAX(number) + 1, 0) FROM trials WHERE study=?", (study,)
            ).fetchone()
            db.execute(
                "INSERT INTO trials(study, number, origin, repeats, block, params, assignment, deployment, stage,"
                " created) VALUES (?,?,?,?,?,?,?,?,?,?)",
                (
                    study,
                    number,
                    origin,
                    repeats,
                    block,
                    self._dump(params),
                    None if assignment is None else self._dump(assignment),
                    self._dump(deployment),
                    Stage.PLANNED,
                    time.time(),
                ),
            )
            self._append(db, study, number, 0, Stage.PLANNED, {})
            self._event(
                db, study, "plan", {"origin": origin, "params": params, "repeats": repeats}, number
            )
            for kind, data in beside:
                self._event(db, study, kind, data, number)
        return self.trial(study, number)

    def advance(
        self,
        trial: TrialRow,
        stage: Stage,
        *,
        detail: dict[str, Any] | None = None,
        say: dict[str, Any] | None = None,
        **found: Any,
    ) -> TrialRow:
        """Commit that a trial enters a stage, together with what was found before it.

        Args:
            trial: The trial as it was last read.
            stage: The stage that begins.
            detail: What to keep with the transition.
            say: What to tell those who watch, besides the stage and the attempt.
            **found: Columns of the trial to set with it: ``verdict``, ``judgement``, ``metrics``,
                ``score``, ``feasible``, ``constraints``, ``value``.

        Raises:
            LedgerCorrupt: When the trial is not in a stage from which this one may be entered.
        """
        with self.change() as db:
            row = db.execute(
                "SELECT stage, attempt, verdict FROM trials WHERE study=? AND number=?",
                (trial.study, trial.number),
            ).fetchone()
            now = Stage(row["stage"])
            if not may_follow(now, stage):
                raise LedgerCorrupt(f"trial {trial.number} cannot go from {now} to {stage}")
            attempt = row["attempt"] + (stage is Stage.STARTING)
            columns = {**found, "stage": stage, "attempt": attempt}
            if stage is Stage.TOLD:
                columns["ended"] = time.time()
            if stage is Stage.PLANNED:
                # What an attempt found is its own: the next one begins with nothing.
                columns |= dict.fromkeys(_FOUND)
                detail = {**(detail or {}), "was": row["verdict"]}
                detail["retry"] = (trial.judgement or {}).get("retry")
            self._set(db, trial, columns)
            self._append(db, trial.study, trial.number, attempt, stage, detail or {})
            said = {"stage": stage, "attempt": attempt, **(say or {})}
            kind = "told" if stage is Stage.TOLD else "stage"
            self._event(db, trial.study, kind, said, trial.number)
        return self.trial(trial.study, trial.number)

    def _set(self, db: sqlite3.Connection, trial: TrialRow, columns: dict[str, Any]) -> None:
        unknown = set(columns) - _SETTABLE
        if unknown:
            raise TypeError(f"not columns of a trial that change: {sorted(unknown)}")
        values = [
            self._dump(v) if name in parsed.JSON_COLUMNS and v is not None else v
            for name, v in columns.items()
        ]
        names = ", ".join(f"{name}=?" for name in columns)
        db.execute(
            f"UPDATE trials SET {names} WHERE study=? AND number=?",  # noqa: S608 - names come from a fixed set
            (*values, trial.study, trial.number),
        )

    def _append(
        self,
        db: sqlite3.Connection,
        study: int,
        number: int,
        attempt: int,
        stage: Stage,
        detail: dict[str, Any],
    ) -> None:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        db.execute(
            "INSERT INTO transitions(study, number, attempt, stage, at, clock, boot, detail) VALUES (?,?,?,?,?,?,?,?)",
            (
                study,
                number,
                attempt,
                stage,
                time.time(),
                time.monotonic(),
                boot,
                self._dump(detail),
            ),
        )

    def trial(self, study: int, number: int) -> TrialRow:
        """One trial.

        Raises:
            StudyNotFound: When the study has no such trial.
        """
        row = self._db.row("SELECT * FROM trials WHERE study=? AND number=?", (study, number))
        if row is None:
            raise StudyNotFound(
                f"the study has no trial {number}", mend="`tuner trials` lists those that it has"
            )
        return parsed.trial(row)

    def trials(
        self,
        study: int,
        *,
        after: int = -1,
        light: bool = False,
        unfinished: bool = False,
        history: bool = False,
    ) -> list[TrialRow]:
        """Trials of a study, in the order of their numbers.

        Args:
            study: The study.
            after: Only those with a higher number.
            light: Leave out what is large: deployment, judgement and metrics.
            unfinished: Only those that were not told.
            history: Whether those are wanted too that do not count any more.
        """
        rows = self._db.rows(
            f"SELECT {_LIGHT if light else '*'} FROM trials WHERE study=? AND number>?"  # noqa: S608 - fixed lists
            " AND (NOT ? OR stage<>'told') AND (? OR history IS NULL) ORDER BY number",
            (study, after, unfinished, history),
        )
        return [parsed.trial(row) for row in rows]

    def first_of(self, study: int, origin: Origin) -> TrialRow | None:
        """The first trial of a study whose point came from there; None while there is none."""
        row = self._db.row(
            "SELECT * FROM trials WHERE study=? AND origin=? AND history IS NULL"
            " ORDER BY number LIMIT 1",
            (study, origin),
        )
        return None if row is None else parsed.trial(row)

    def transitions(self, study: int, number: int | None = None) -> list[Transition]:
        """The steps of one trial, or of all trials of a study, in the order in which they were taken."""
        rows = self._db.rows(
            "SELECT * FROM transitions WHERE study=? AND (? IS NULL OR number=?) ORDER BY id",
            (study, number, number),
        )
        return [parsed.transition(row) for row in rows]

    # --- launches --------------------------------------------------------------------------------

    def launch_intended(self, trial: TrialRow, kind: str, identity: dict[str, Any]) -> int:
        """Record that an engine is about to be started, and how it will be known.

        Returns:
            The number by which the launch is named from now on.
        """
        with self.change() as db:
            done = db.execute(
                "INSERT INTO launches(study, number, attempt, kind, identity, status, at) VALUES (?,?,?,?,?,?,?)",
                (
                    trial.study,
                    trial.number,
                    trial.attempt,
                    kind,
                    self._dump(identity),
                    "intended",
                    time.time(),
                ),
            )
        return int(done.lastrowid or 0)

    def launch_seen(self, launch: int, identity: dict[str, Any]) -> None:
        """Record what is known of a started engine now."""
        with self.change() as db:
            db.execute(
                "UPDATE launches SET identity=?, status='started' WHERE id=?",
                (self._dump(identity), launch),
            )

    def launch_over(self, launch: int, status: str, proof: dict[str, Any]) -> None:
        """Record that an engine is ``gone``, or ``quarantined`` because it could not be proven so."""
        with self.change() as db:
            db.execute(
                "UPDATE launches SET status=?, proof=? WHERE id=?",
                (status, self._dump(proof), launch),
            )

    def open_launches(self, study: int | None = None) -> list[LaunchRow]:
        """Launches, of one study or of any, that were never proven gone."""
        rows = self._db.rows(
            "SELECT * FROM launches WHERE status IN ('intended','started','quarantined')"
            " AND (? IS NULL OR study=?) ORDER BY id",
            (study, study),
        )
        return [parsed.launch(row) for row in rows]

    # --- quarantine and events -------------------------------------------------------------------

    def quarantine(
        self, device: str, reason: str, *, study: int | None = None, number: int | None = None
    ) -> None:
        """Refuse a device to all further starts, and tell those who watch, once for each reason.

        Args:
            device: The device's key, or the host's name.
            reason: Why, for people.
            study: The study that found it so; None tells nobody.
            number: The trial that did.
        """
        reason = self.redact.text(reason)
        with self.change() as db:
            known = db.execute(
                "SELECT 1 FROM quarantine WHERE device=? AND reason=?", (device, reason)
            ).fetchone()
            if study is not None and known is None:
                said = {"device": device, "reason": reason}
                self._event(db, study, "quarantine", said, number)
            db.execute(
                "INSERT OR REPLACE INTO quarantine(device, reason, since) VALUES (?,?,?)",
                (device, reason, time.time()),
            )

    def release(self, device: str) -> None:
        """Take a device out of quarantine."""
        with self.change() as db:
            db.execute("DELETE FROM quarantine WHERE device=?", (device,))

    def quarantined(self) -> dict[str, str]:
        """Devices in quarantine, with the reason."""
        return {row["device"]: row["reason"] for row in self._db.rows("SELECT * FROM quarantine")}

    def keep_baseline(self, row: BaselineRow) -> None:
        """Record what a device holds when nothing of ours runs."""
        with self.change() as db:
            db.execute(
                "INSERT OR REPLACE INTO baselines(device, boot, name, used, total, at)"
                " VALUES (?,?,?,?,?,?)",
                (row.device, row.boot, row.name, row.used, row.total, time.time()),
            )

    def baselines(self, boot: str) -> dict[str, BaselineRow]:
        """What was recorded of the devices at rest since the machine was started, by device."""
        rows = self._db.rows("SELECT * FROM baselines WHERE boot=?", (boot,))
        return {
            r["device"]: BaselineRow(r["device"], r["boot"], r["name"], r["used"], r["total"])
            for r in rows
        }

    def note(
        self,
        study: int,
        kind: str,
        data: dict[str, Any],
        number: int | None = None,
        beside: Sequence[Said] = (),
    ) -> None:
        """Keep an event, and others of the same trial that become true with it."""
        with self.change() as db:
            for each, particulars in ((kind, data), *beside):
                self._event(db, study, each, particulars, number)

    def events(
        self,
        study: int | None = None,
        after: int = 0,
        *,
        kinds: Sequence[str] = (),
        limit: int = -1,
    ) -> list[Event]:
        """Events with a higher id than ``after``, in order.

        Args:
            study: Of one study; None for those of all studies.
            after: The last id that is known already.
            kinds: Only of these kinds; empty for all.
            limit: The most that are wanted; -1 for no limit.
        """
        chosen = json.dumps(list(kinds)) if kinds else None
        rows = self._db.rows(
            "SELECT * FROM events WHERE id>? AND (? IS NULL OR study=?)"
            " AND (? IS NULL OR kind IN (SELECT value FROM json_each(?))) ORDER BY id LIMIT ?",
            (after, study, study, chosen, chosen, limit),
        )
        return [
            Event(r["id"], r["study"], r["number"], r["kind"], r["at"], json.loads(r["data"]))
            for r in rows
        ]

    def last_event(self) -> int:
        """The id of the newest event of any study; 0 while there is none."""
        ((found,),) = self._db.rows("SELECT COALESCE(MAX(id), 0) FROM events")
        return int(found)

    # --- how things are written ------------------------------------------------------------------

    def _event(
        self,
        db: sqlite3.Connection,
        study: int,
        kind: str,
        data: dict[str, Any],
        number: int | None = None,
    ) -> None:
        db.execute(
            "INSERT INTO events(study, number, kind, at, data) VALUES (?,?,?,?,?)",
            (study, number, kind, time.time(), self._dump(data)),
        )

    def _dump(self, data: Any) -> str:
        """JSON that reads back equal: no NaN, sorted, one form for one meaning, no secret."""
        return json.dumps(
            self.redact.data(data), sort_keys=True, allow_nan=False, ensure_ascii=False
        )


_LIGHT = (
    "study, number, origin, repeats, block, params, assignment, '{}' AS deployment, stage, attempt,"
    " verdict, NULL AS judgement, NULL AS metrics, score, feasible, constraints, value, created, ended,"
    " history"
)
_FOUND = parsed.JSON_COLUMNS | {"verdict", "score", "feasible", "value"}
_SETTABLE = _FOUND | {"stage", "attempt", "ended"}
