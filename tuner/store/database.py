"""The file under the ledger: one writer, whole transactions, and a plain word when it is not sound.

What is opened is looked at before anything is changed: the pages, the sum of every row, and the
number of changes against the seal. A file that does not pass is left as it is, its write-ahead log
included, so that whatever can be saved of it can still be saved.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from tuner.errors import (
    LedgerClosed,
    LedgerCorrupt,
    NoSpaceLeft,
    StateUnusable,
    StudyNotFound,
    TunerError,
)
from tuner.store import schema
from tuner.store.locks import Hold, file_number, hold_folder
from tuner.store.seal import SEAL_NAME, Seal, SealBroken
from tuner.store.sums import register, sound

LEDGER_NAME = "ledger.sqlite"


class Database:
    """The database of one state folder.

    Args:
        folder: The state folder.
        write: Whether things are to be changed; else it is only read.
        hold: Whether a writer takes the folder's lock. One that works under a tuner that holds it
            does not, and leaves it to that one to look at the sum of every row.
        later: Whether the sums are looked at later, with :meth:`verify`: they are many.

    Raises:
        StateUnusable: When the folder cannot be written, another tuner holds it, or a newer one
            wrote it.
        StudyNotFound: When there is nothing to read.
        LedgerCorrupt: When the file is not what tuner wrote.
    """

    def __init__(
        self, folder: Path, *, write: bool, hold: bool = True, later: bool = False
    ) -> None:
        self.folder = folder
        self.path = folder / LEDGER_NAME
        self._every_sum = write and hold and not later
        self._turn = threading.RLock()
        self._closed = False
        self._file: tuple[int, int] | None = None
        self._seal = Seal(folder / SEAL_NAME)
        self._lock: Hold | None = hold_folder(folder) if write and hold else None
        try:
            self._db = self._open(write=write)
        except BaseException:
            self._release()
            raise

    def _open(self, *, write: bool) -> sqlite3.Connection:
        with self._said():
            # Read before the ledger is: a change is sealed after it was made, so a ledger that is
            # looked at later has seen at least as many.
            sealed = self._sealed()
            self._look_at_size()
            if _size(self.path):
                reader = _connect(f"file:{_quoted(self.path)}?mode=ro")
                try:
                    self._look(reader, sealed, write=write)
                except BaseException:
                    reader.close()
                    raise
                if not write:
                    return self._newest(reader)
                reader.close()
            elif write or sealed:
                self._require_sealed(sealed, 0)
            else:
                raise self._nothing_yet()
            return self._open_to_write()

    def _look_at_size(self) -> None:
        """Refuse what SQLite would take for an empty database: it removes the write-ahead log then.

        The file is never opened here: when a process closes any handle of a file, the kernel drops
        all locks that it has on it, those of SQLite's own connections included.
        """
        log = self.path.with_name(f"{self.path.name}-wal")
        size, ahead = (_size(path) for path in (self.path, log))
        if size < _PAGE and (size or ahead):
            raise LedgerCorrupt(f"{self.path} is not a ledger, or was cut to pieces. {_KEPT}")

    def _look(self, db: sqlite3.Connection, sealed: int, *, write: bool) -> None:
        """Refuse what is not sound, or not of a form that can be read."""
        form = schema.version(db)
        if form > schema.VERSION:
            raise StateUnusable(
                f"a newer tuner wrote this ledger (form {form}, this one knows {schema.VERSION})",
                file=self.path,
                mend="update tuner, or give this one its own folder with --state",
            )
        if form == 0 and not write:
            raise self._nothing_yet()  # another tuner is making it at this moment
        (word,) = db.execute("PRAGMA quick_check(1)").fetchone()
        if word != "ok":
            raise sqlite3.DatabaseError(word)
        if form == 0 and db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise sqlite3.DatabaseError("it is another program's database")
        summed = form == schema.VERSION
        if summed and self._every_sum:
            self._look_at_sums(db)
        self._require_sealed(sealed, schema.changes(db) if summed else 0)

    def verify(self) -> None:
        """Look at the sum of every row; needed only of what was opened to be looked at later.

        Raises:
            LedgerCorrupt: When a row is not what tuner wrote.
        """
        with self._said(), contextlib.closing(_connect(f"file:{_quoted(self.path)}?mode=ro")) as db:
            self._look_at_sums(db)

    def _look_at_sums(self, db: sqlite3.Connection) -> None:
        if table := schema.altered(db):
            raise self._altered(table)

    def _newest(self, reader: sqlite3.Connection) -> sqlite3.Connection:
        """A reader of the ledger in its newest form; an older one is brought up to date first.

        Raises:
            StateUnusable: When the tuner that wrote it is at work.
        """
        if schema.version(reader) < schema.VERSION:
            reader.close()
            with hold_folder(self.folder):
                self._open_to_write().close()
            reader = _connect(f"file:{_quoted(self.path)}?mode=ro")
        return reader

    def _altered(self, where: str) -> LedgerCorrupt:
        return LedgerCorrupt(f"{self.path}: a row of {where} is not what tuner wrote. {_KEPT}")

    def _sealed(self) -> int:
        """The number of the last change that was sealed; 0 where none was."""
        try:
            return self._seal.read() or 0
        except SealBroken:
            raise LedgerCorrupt(
                f"{self._seal.path} cannot be read, so nobody can tell whether {self.path.name} is "
                "whole. Move it away to take the ledger as it is",
            ) from None

    def _require_sealed(self, sealed: int, changes: int) -> None:
        """Refuse a ledger that has seen fewer changes than its seal says."""
        if sealed > changes:
            raise LedgerCorrupt(
                f"{self.path}: the last {sealed - changes} of {sealed} changes are missing; it or its "
                f"write-ahead log was cut, removed or replaced. {_KEPT}, or move "
                f"{self._seal.path.name} away to go on from what is left",
            )

    def _open_to_write(self) -> sqlite3.Connection:
        if not self.path.exists():
            self.path.touch(mode=0o600)  # SQLite gives its write-ahead log the same rights
        db = _connect(f"file:{_quoted(self.path)}?mode=rw")
        try:
            self._file = file_number(self.path)
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=FULL")
            schema.prepare(db)
            self._seal_now(schema.changes(db))
        except BaseException:
            db.close()
            raise
        return db

    def _nothing_yet(self) -> StudyNotFound:
        return StudyNotFound(
            "there is no study in this state folder yet",
            file=self.folder,
            mend="start one with `tuner run SPACE`",
        )

    def close(self) -> None:
        """Give the file and the lock back, once nobody is in the middle of a question.

        A connection that is closed under a thread that uses it takes the whole process with it.
        """
        with self._turn:
            self._closed = True
            self._db.close()
        self._release()

    def _release(self) -> None:
        self._seal.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- changes and questions -------------------------------------------------------------------

    @contextlib.contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """One transaction: on disk and sealed when the block has ended, undone when it raises.

        Raises:
            NoSpaceLeft: When the disk is full.
            StateUnusable: When the disk refuses otherwise, or the files are not ours any more.
            LedgerCorrupt: When the file turns out to be damaged.
            LedgerClosed: When it was closed before.
        """
        with self._turn, self._said():
            self._require_open()
            self._require_ours()
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                number = schema.count_change(self._db)
                self._commit()
            except BaseException:
                self._undo()
                raise
            self._seal_now(number)

    def _commit(self) -> None:
        self._db.execute("COMMIT")

    def _undo(self) -> None:
        if self._db.in_transaction:  # some errors have ended it already
            self._db.execute("ROLLBACK")

    def _seal_now(self, number: int) -> None:
        try:
            self._seal.write(number)
        except OSError as error:
            raise StateUnusable(
                f"the seal of the ledger cannot be written: {error.strerror}",
                file=self._seal.path,
                mend="see `tuner doctor`",
            ) from error

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """All rows that a question gives.

        Raises:
            LedgerCorrupt: When a row that was asked for whole is not what tuner wrote.
            LedgerClosed: When it was closed before.
        """
        with self._turn, self._said():
            self._require_open()
            found = self._db.execute(sql, values).fetchall()
        if not all(map(sound, found)):
            raise self._altered("a table")
        return found

    def row(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Row | None:
        """The first row that a question gives."""
        return next(iter(self.rows(sql, values)), None)

    def _require_open(self) -> None:
        """Refuse a question that comes when the connection was given back, as nothing is wrong with the file."""
        if self._closed:
            raise LedgerClosed(
                f"{self.path} was closed before it was asked: the daemon, or the command that read it, is ending"
            )

    def _require_ours(self) -> None:
        """Refuse to go on when somebody took the lock or the ledger away under us."""
        gone = None
        if self._file is not None and file_number(self.path) != self._file:
            gone = self.path
        elif self._lock is not None and not self._lock.in_place:
            gone = self._lock.path
        if gone is not None:
            raise StateUnusable(
                f"{gone.name} was removed or replaced while this tuner worked with it",
                file=gone,
                mend="another tuner may be at work here; see `tuner status`",
            )

    @contextlib.contextmanager
    def _said(self) -> Iterator[None]:
        """Say in tuner's own words what SQLite raises."""
        try:
            yield
        except sqlite3.IntegrityError:
            raise
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._in_words(error) from error

    def _in_words(self, error: sqlite3.Error | UnicodeDecodeError) -> TunerError:
        code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
        if code == sqlite3.SQLITE_FULL:
            return NoSpaceLeft(
                "the disk is full: the ledger could not be written; nothing in it was lost",
                file=self.folder,
                mend="make room and go on with `tuner resume STUDY`",
            )
        if code in _REFUSED:
            return StateUnusable(
                f"the ledger could not be read or written: {error}; what it held before is kept",
                file=self.path,
                mend="see `tuner doctor`",
            )
        return LedgerCorrupt(f"{self.path} cannot be read as a ledger: {error}. {_KEPT}")


_KEPT = "It was left as it is: move the file away to begin anew"
_PAGE = 512
"""The smallest page that SQLite knows, and so the smallest database that is not empty."""
_REFUSED = {
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_LOCKED,
}


def _connect(uri: str) -> sqlite3.Connection:
    db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=30, check_same_thread=False)
    db.row_factory = sqlite3.Row
    db.execute("PRAGMA foreign_keys=ON")
    register(db)
    return db


def _size(path: Path) -> int:
    """Bytes of a file; 0 for one that is not there."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _quoted(path: Path) -> str:
    """A path as it may stand in a URI."""
    return os.fspath(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
