"""What a daemon does about what an earlier one, or a worker that died, has left behind."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from typing import Any

import psutil

from tuner.daemon.books import Books
from tuner.errors import ResidueFound
from tuner.launch.identity import Member, boot_id
from tuner.launch.kinds import launchers
from tuner.store.ledger import Ledger
from tuner.store.locks import holder_of, study_lock
from tuner.store.rows import StudyRow
from tuner.trial.entry import study_folder
from tuner.trial.recovery import end_leftovers

_log = logging.getLogger(__name__)

PATIENCE = 75.0
"""Seconds that a worker of an earlier daemon gets to end: the stop ladder of its engine and some."""

_POLL = 0.2


class Leftovers:
    """Ends engines that nobody minds any more, and workers whose daemon is gone.

    Args:
        books: The ledger, held for writing.
    """

    def __init__(self, books: Books) -> None:
        self._books = books
        self._launchers = launchers()

    def recover(self) -> None:
        """Bring every study into a status that is true, after whatever ended the last daemon."""
        with self._books.write() as (ledger, _):
            rows = ledger.studies()
            open_launches = {launch.study for launch in ledger.open_launches()}
        deadline = time.monotonic() + PATIENCE
        for row in rows:
            if row.status == "running" or row.id in open_launches:
                self._await_worker(row, deadline)
                try:
                    self.end(row.id)
                except ResidueFound:
                    _log.exception("study %s left something that cannot be ended", row.name)
            self._settle(row.name)
        self.reap()

    def end(self, study: int) -> None:
        """End the engines of a study that no worker minds.

        Raises:
            ResidueFound: When one cannot be ended; its device is in quarantine then.
        """
        # A connection of its own: this takes as long as the engine's stop ladder.
        with Ledger(self._books.state, write=True, hold=False) as ledger:
            if ledger.open_launches(study):
                for ended in end_leftovers(ledger, self._launchers, study):
                    _log.warning("ended a leftover: %s", ended)

    def reap(self, ours: frozenset[int] = frozenset()) -> None:
        """Bury orphans that came to this process as their adopter.

        Args:
            ours: Children that somebody here waits for; they are left alone.
        """
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.Error, ChildProcessError):
                if child.pid not in ours and child.status() == psutil.STATUS_ZOMBIE:
                    os.waitpid(child.pid, os.WNOHANG)

    def _await_worker(self, row: StudyRow, deadline: float) -> None:
        """Let a worker of an earlier daemon end by itself; one that does not is ended."""
        with self._books.write() as (ledger, _):
            lock = study_lock(study_folder(ledger, row.name))
        while (holder := holder_of(lock)) is not None:
            if time.monotonic() > deadline:
                _kill(holder)
                deadline = time.monotonic() + 5
            time.sleep(_POLL)

    def _settle(self, name: str) -> None:
        with self._books.write() as (ledger, queue):
            row = ledger.study(name)
            entry = queue.find(row.id)
            wanted = entry.wanted if entry is not None else "stop"
            if row.status == "running" and wanted == "run":
                ledger.set_status(row.id, "queued", "the daemon ended while it ran")
            elif row.status == "running":
                told = "paused" if wanted == "pause" else "stopped"
                ledger.set_status(row.id, told, "the tuner ended while it ran", exit_code=1)
            elif row.status == "stopped" and wanted == "run":
                ledger.set_status(row.id, "queued", "the daemon ended while it ran")


def _kill(holder: dict[str, Any]) -> None:
    """End a worker that hangs, if it is still the process that took the lock."""
    if holder.get("boot") != boot_id() or not holder.get("start_ticks"):
        return
    member = Member(int(holder["pid"]), int(holder["start_ticks"]), ("holder",))
    _log.error("worker %d of an earlier daemon hangs and is killed", member.pid)
    member.send(signal.SIGKILL)
