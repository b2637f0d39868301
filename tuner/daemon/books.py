"""The ledger as the daemon's threads share it: one connection that writes, one for each reading."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from tuner.errors import TunerError, UserError
from tuner.store.ledger import Ledger
from tuner.store.queue import Queue
from tuner.store.redact import NOTHING, SHORTEST, Redactor
from tuner.store.rows import StudyRow
from tuner.trial.entry import secret_names, stored_space

_READERS = 8
"""Readers that are kept open for the next question."""


class Books:
    """A state folder's ledger, held for writing or only to be read.

    Args:
        state: The state folder.
        write: Whether to hold the folder and to write.

    Raises:
        StateUnusable: When another tuner holds the folder.
        LedgerCorrupt: When the ledger cannot be read.
    """

    def __init__(self, state: Path, *, write: bool) -> None:
        self.state = state
        self._lock = threading.RLock()
        self._ledger = Ledger(state, write=True, later=True) if write else None
        self._secrets: dict[int, dict[str, str]] = {}
        self._guard = threading.Lock()
        self._known: frozenset[tuple[str, str]] = frozenset()
        self._redact = NOTHING
        self._looked = False
        self._idle: queue.SimpleQueue[Ledger] = queue.SimpleQueue()

    @property
    def writable(self) -> bool:
        """Whether the folder is held."""
        return self._ledger is not None

    @contextlib.contextmanager
    def write(self) -> Iterator[tuple[Ledger, Queue]]:
        """The ledger and the queue, for one thread at a time."""
        if self._ledger is None:
            raise RuntimeError("these books are only read")
        with self._lock:
            yield self._ledger, Queue(self._ledger)

    @contextlib.contextmanager
    def read(self) -> Iterator[Ledger]:
        """The ledger to read in, for one thread at a time."""
        ledger = self._reader()
        try:
            yield ledger
        except TunerError:
            self._put_back(ledger)
            raise
        except BaseException:
            ledger.close()
            raise
        self._put_back(ledger)

    def _reader(self) -> Ledger:
        """A reader that is idle, or a new one: opening one is a look at the whole file."""
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            return Ledger(self.state, write=False)

    def _put_back(self, ledger: Ledger) -> None:
        if self.writable and self._idle.qsize() < _READERS:
            self._idle.put(ledger)
        else:
            ledger.close()

    def verify(self) -> None:
        """Look at the sum of every row of the ledger, before anything is changed in it.

        Raises:
            LedgerCorrupt: When a row is not what tuner wrote.
        """
        if self._ledger is not None:
            self._ledger.db.verify()

    def close(self) -> None:
        """Give the folder back."""
        while not self._idle.empty():
            self._idle.get().close()
        if self._ledger is not None:
            with self._lock:
                self._ledger.close()

    # --- secrets: kept in memory, and nowhere else -----------------------------------------------

    def give(self, study: int, secrets: dict[str, str]) -> None:
        """Keep the secrets that a study's engines are to be given."""
        self._secrets[study] = {**self._secrets.get(study, {}), **secrets}
        self._know(secrets)

    def secrets(self, study: int) -> dict[str, str]:
        """The secrets of a study."""
        return dict(self._secrets.get(study, {}))

    def inherit(self, row: StudyRow) -> None:
        """Know the secrets of a study that stand in this process's environment: its workers have them from there."""
        self._know(
            {
                name: value
                for name in self._names(row)
                if len(value := os.environ.get(name, "")) >= SHORTEST
            }
        )

    def unknown(self, row: StudyRow) -> tuple[str, ...]:
        """Variables of a study's secrets whose values are not known here, so that nothing can hide them."""
        self.inherit(row)
        known = {name for name, _ in self._known}
        return tuple(name for name in self._names(row) if name not in known)

    @property
    def redact(self) -> Redactor:
        """Takes every secret that this process was given, or has in its environment, out of what it says."""
        if not self._looked:
            with self.read() as ledger:
                open_rows = [r for r in ledger.studies() if ledger.trials(r.id, unfinished=True)]
            for row in open_rows:
                self.inherit(row)
            self._looked = True
        return self._redact

    def _names(self, row: StudyRow) -> tuple[str, ...]:
        try:
            with self.read() as ledger:
                return secret_names(stored_space(ledger, row))
        except UserError:
            return ()  # a space that cannot be read (any more) starts no engine

    def _know(self, secrets: Mapping[str, str]) -> None:
        """Hide these for good: a value that was replaced may still stand in a log."""
        with self._guard:
            known = self._known | set(secrets.items())
            if known != self._known:
                self._known = known
                self._redact = Redactor(sorted(known))
