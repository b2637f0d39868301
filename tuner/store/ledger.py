"""The ledger: what was planned, what was begun, what came of it. The only truth there is.

One SQLite file, written by one process at a time (a lock beside it sees to that) and read by
anyone. Each change is one immediate transaction in WAL mode with ``synchronous=FULL``: a change
that was reported is on disk, also after a power cut. Stages are appended to ``transitions``, and
the row of a trial holds their sum; the two change together.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from filelock import FileLock, Timeout

from tuner.errors import LedgerCorrupt, StateUnusable, StudyConflict, StudyNotFound
from tuner.store import schema
from tuner.store.rows import Event, LaunchRow, Origin, StudyRow, Transition, TrialRow
from tuner.store.stages import Stage, may_follow

LEDGER_NAME = "ledger.sqlite"


class Ledger:
    """The ledger of one state folder.

    Args:
        folder: The state folder.
        write: Whether to hold the folder's lock and to change things; else it is only read.

    Raises:
        StateUnusable: When the folder cannot be written, or another tuner holds it.
        LedgerCorrupt: When the file is not a ledger that this tuner can read.
    """

    def __init__(self, folder: Path, *, write: bool) -> None:
        self.folder = folder
        self.path = folder / LEDGER_NAME
        self._lock: FileLock | None = None
        if write:
            self._take(folder)
        try:
            self._db = self._open(write=write)
        except BaseException:
            self._release()
            raise

    def _take(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = FileLock(folder / "ledger.lock")
            self._lock.acquire(timeout=0)
        except Timeout:
            self._lock = None
            raise StateUnusable(
                "another tuner works with this state folder",
                file=folder,
                mend="see `tuner status`, or give this one its own folder with --state",
            ) from None
        except OSError as error:
            self._lock = None
            raise StateUnusable(
                f"the state folder cannot be written: {error.strerror}",
                file=folder,
                mend="name another one with --state DIR or TUNER_STATE",
            ) from error

    def _open(self, *, write: bool) -> sqlite3.Connection:
        if not write and not self.path.is_file():
            raise self._nothing_yet()
        try:
            db = sqlite3.connect(
                self.path if write else f"file:{self.path}?mode=ro",
                uri=not write,
                isolation_level=None,
                timeout=30,
                check_same_thread=False,
            )
            db.row_factory = sqlite3.Row
            db.execute("PRAGMA foreign_keys=ON")
            if not write and schema.version(db) == 0:
                db.close()  # another tuner is making it at this moment
                raise self._nothing_yet()
            if write:
                db.execute("PRAGMA journal_mode=WAL")
                db.execute("PRAGMA synchronous=FULL")
                self._check(db)
                schema.prepare(db)
        except sqlite3.Error as error:
            raise LedgerCorrupt(
                f"{self.path} cannot be read as a ledger: {error}. "
                "It was left as it is: move the file away to begin anew",
            ) from error
        return db

    def _nothing_yet(self) -> StudyNotFound:
        return StudyNotFound(
            "there is no study in this state folder yet",
            file=self.folder,
            mend="start one with `tuner run SPACE`",
        )

    @staticmethod
    def _check(db: sqlite3.Connection) -> None:
        (word,) = db.execute("PRAGMA quick_check(1)").fetchone()
        if word != "ok":
            raise sqlite3.DatabaseError(word)

    def close(self) -> None:
        """Give the file and the lock back."""
        self._db.close()
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    # --- studies ---------------------------------------------------------------------------------

    def create_study(self, *, name: str, fingerprint: str, space: str, origin: str) -> StudyRow:
        """Enter a new study.

        Raises:
            StudyConflict: When the name is in use.
        """
        try:
            with self._change() as db:
                db.execute(
                    "INSERT INTO studies(name, fingerprint, space, origin, status, facts, created)"
                    " VALUES (?,?,?,?,'running','{}',?)",
                    (name, fingerprint, space, origin, time.time()),
                )
        except sqlite3.IntegrityError:
            raise StudyConflict(f"a study named {name!r} exists already") from None
        return self.study(name)

    def study(self, name: str) -> StudyRow:
        """The study of that name.

        Raises:
            StudyNotFound: When there is none.
        """
        row = self._db.execute("SELECT * FROM studies WHERE name=?", (name,)).fetchone()
        if row is None:
            known = ", ".join(s.name for s in self.studies()) or "none"
            raise StudyNotFound(f"there is no study named {name!r}", mend=f"studies here: {known}")
        return _study(row)

    def studies(self) -> list[StudyRow]:
        """All studies, the oldest first."""
        return [_study(row) for row in self._db.execute("SELECT * FROM studies ORDER BY id")]

    def set_status(self, study: int, status: str, reason: str | None = None) -> None:
        """Say that a study runs, finished, was stopped or failed, and why."""
        ended = None if status == "running" else time.time()
        with self._change() as db:
            db.execute(
                "UPDATE studies SET status=?, reason=?, ended=? WHERE id=?",
                (status, reason, ended, study),
            )

    def add_facts(self, study: int, facts: dict[str, Any]) -> None:
        """Add to what is known of the machine and the engine of a study."""
        with self._change() as db:
            (raw,) = db.execute("SELECT facts FROM studies WHERE id=?", (study,)).fetchone()
            db.execute(
                "UPDATE studies SET facts=? WHERE id=?",
                (_dump({**json.loads(raw), **facts}), study),
            )

    # --- trials ----------------------------------------------------------------------------------

    def plan(
        self,
        study: int,
        *,
        origin: Origin,
        params: dict[str, Any],
        assignment: dict[str, Any] | None,
        deployment: dict[str, Any],
        repeats: int | None = None,
        block: int | None = None,
    ) -> TrialRow:
        """Enter a new trial with the next number."""
        with self._change() as db:
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
                    _dump(params),
                    None if assignment is None else _dump(assignment),
                    _dump(deployment),
                    Stage.PLANNED,
                    time.time(),
                ),
            )
            self._append(db, study, number, 0, Stage.PLANNED, {})
        return self.trial(study, number)

    def advance(
        self, trial: TrialRow, stage: Stage, *, detail: dict[str, Any] | None = None, **found: Any
    ) -> TrialRow:
        """Commit that a trial enters a stage, together with what was found before it.

        Args:
            trial: The trial as it was last read.
            stage: The stage that begins.
            detail: What to keep with the transition.
            **found: Columns of the trial to set with it: ``verdict``, ``judgement``, ``metrics``,
                ``score``, ``feasible``, ``constraints``, ``value``.

        Raises:
            LedgerCorrupt: When the trial is not in a stage from which this one may be entered.
        """
        with self._change() as db:
            row = db.execute(
                "SELECT stage, attempt FROM trials WHERE study=? AND number=?",
                (trial.study, trial.number),
            ).fetchone()
            now = Stage(row["stage"])
            if not may_follow(now, stage):
                raise LedgerCorrupt(f"trial {trial.number} cannot go from {now} to {stage}")
            attempt = row["attempt"] + (stage is Stage.STARTING)
            columns = {**found, "stage": stage, "attempt": attempt}
            if stage is Stage.TOLD:
                columns["ended"] = time.time()
            self._set(db, trial, columns)
            self._append(db, trial.study, trial.number, attempt, stage, detail or {})
        return self.trial(trial.study, trial.number)

    @staticmethod
    def _set(db: sqlite3.Connection, trial: TrialRow, columns: dict[str, Any]) -> None:
        unknown = set(columns) - _SETTABLE
        if unknown:
            raise TypeError(f"not columns of a trial that change: {sorted(unknown)}")
        values = [_dump(v) if name in _JSON and v is not None else v for name, v in columns.items()]
        names = ", ".join(f"{name}=?" for name in columns)
        db.execute(
            f"UPDATE trials SET {names} WHERE study=? AND number=?",  # noqa: S608 - names come from a fixed set
            (*values, trial.study, trial.number),
        )

    @staticmethod
    def _append(
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
            (study, number, attempt, stage, time.time(), time.monotonic(), boot, _dump(detail)),
        )

    def trial(self, study: int, number: int) -> TrialRow:
        """One trial.

        Raises:
            StudyNotFound: When the study has no such trial.
        """
        row = self._db.execute(
            "SELECT * FROM trials WHERE study=? AND number=?", (study, number)
        ).fetchone()
        if row is None:
            raise StudyNotFound(f"the study has no trial {number}")
        return _trial(row)

    def trials(self, study: int) -> list[TrialRow]:
        """All trials of a study, in the order of their numbers."""
        rows = self._db.execute("SELECT * FROM trials WHERE study=? ORDER BY number", (study,))
        return [_trial(row) for row in rows]

    def transitions(self, study: int, number: int | None = None) -> list[Transition]:
        """The steps of one trial, or of all trials of a study, in the order in which they were taken."""
        rows = self._db.execute(
            "SELECT * FROM transitions WHERE study=? AND (? IS NULL OR number=?) ORDER BY id",
            (study, number, number),
        )
        return [_transition(row) for row in rows]

    # --- launches --------------------------------------------------------------------------------

    def launch_intended(self, trial: TrialRow, kind: str, identity: dict[str, Any]) -> int:
        """Record that an engine is about to be started, and how it will be known.

        Returns:
            The number by which the launch is named from now on.
        """
        with self._change() as db:
            done = db.execute(
                "INSERT INTO launches(study, number, attempt, kind, identity, status, at) VALUES (?,?,?,?,?,?,?)",
                (
                    trial.study,
                    trial.number,
                    trial.attempt,
                    kind,
                    _dump(identity),
                    "intended",
                    time.time(),
                ),
            )
        return int(done.lastrowid or 0)

    def launch_seen(self, launch: int, identity: dict[str, Any]) -> None:
        """Record what is known of a started engine now."""
        with self._change() as db:
            db.execute(
                "UPDATE launches SET identity=?, status='started' WHERE id=?",
                (_dump(identity), launch),
            )

    def launch_over(self, launch: int, status: str, proof: dict[str, Any]) -> None:
        """Record that an engine is ``gone``, or ``quarantined`` because it could not be proven so."""
        with self._change() as db:
            db.execute(
                "UPDATE launches SET status=?, proof=? WHERE id=?", (status, _dump(proof), launch)
            )

    def open_launches(self) -> list[LaunchRow]:
        """Launches, of any study, that were never proven gone."""
        rows = self._db.execute(
            "SELECT * FROM launches WHERE status IN ('intended','started','quarantined') ORDER BY id"
        )
        return [_launch(row) for row in rows]

    # --- quarantine and events -------------------------------------------------------------------

    def quarantine(self, device: str, reason: str) -> None:
        """Refuse a device to all further starts."""
        with self._change() as db:
            db.execute(
                "INSERT OR REPLACE INTO quarantine VALUES (?,?,?)", (device, reason, time.time())
            )

    def release(self, device: str) -> None:
        """Take a device out of quarantine."""
        with self._change() as db:
            db.execute("DELETE FROM quarantine WHERE device=?", (device,))

    def quarantined(self) -> dict[str, str]:
        """Devices in quarantine, with the reason."""
        return {
            row["device"]: row["reason"] for row in self._db.execute("SELECT * FROM quarantine")
        }

    def note(self, study: int, kind: str, data: dict[str, Any], number: int | None = None) -> None:
        """Keep an event."""
        with self._change() as db:
            db.execute(
                "INSERT INTO events(study, number, kind, at, data) VALUES (?,?,?,?,?)",
                (study, number, kind, time.time(), _dump(data)),
            )

    def events(self, study: int, after: int = 0) -> list[Event]:
        """Events of a study with a higher id than ``after``, in order."""
        rows = self._db.execute(
            "SELECT * FROM events WHERE study=? AND id>? ORDER BY id", (study, after)
        )
        return [
            Event(r["id"], r["number"], r["kind"], r["at"], json.loads(r["data"])) for r in rows
        ]


_JSON = {"judgement", "metrics", "constraints"}
_SETTABLE = _JSON | {"stage", "attempt", "verdict", "score", "feasible", "value", "ended"}


def _dump(data: Any) -> str:
    """JSON that reads back equal: no NaN, sorted, one form for one meaning."""
    return json.dumps(data, sort_keys=True, allow_nan=False, ensure_ascii=False)


def _load(raw: str | None) -> Any:
    return None if raw is None else json.loads(raw)


def _study(row: sqlite3.Row) -> StudyRow:
    return StudyRow(**{**dict(row), "facts": json.loads(row["facts"])})


def _trial(row: sqlite3.Row) -> TrialRow:
    fields = dict(row)
    for name in ("params", "assignment", "deployment", *_JSON):
        fields[name] = _load(fields[name])
    feasible = None if row["feasible"] is None else bool(row["feasible"])
    return TrialRow(
        **{
            **fields,
            "origin": Origin(row["origin"]),
            "stage": Stage(row["stage"]),
            "feasible": feasible,
        }
    )


def _transition(row: sqlite3.Row) -> Transition:
    return Transition(
        row["number"],
        row["attempt"],
        Stage(row["stage"]),
        row["at"],
        row["clock"],
        row["boot"],
        json.loads(row["detail"]),
    )


def _launch(row: sqlite3.Row) -> LaunchRow:
    fields = {name: row[name] for name in ("id", "study", "number", "attempt", "kind", "status")}
    return LaunchRow(**fields, identity=json.loads(row["identity"]), proof=_load(row["proof"]))
