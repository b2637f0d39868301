"""Who may write: one tuner a state folder, one process a study, one user a device.

All are advisory locks on files that the kernel lets go of when their holder dies, however it dies.
Beside each lock stands who holds it, for messages and for ending a holder that hangs.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any, Self

from filelock import FileLock, Timeout

from tuner.errors import StateUnusable
from tuner.files import write_atomic

_FOLDER_LOCK = "ledger.lock"
_STUDY_LOCK = "study.lock"
_PATIENCE = 0.3
"""Seconds to wait for a lock: as long as somebody may need who only looks whether it is held."""


class Hold:
    """A lock that is held until it is released or its process dies.

    Args:
        path: The lock's file; its folder must exist.
        holder: Who takes it, to be read by :func:`holder_of`.

    Raises:
        Timeout: When somebody else holds it.
        OSError: When the file cannot be written.
    """

    def __init__(self, path: Path, holder: dict[str, Any] | None = None) -> None:
        self.path = path
        self._lock = FileLock(path, mode=0o600)
        self._lock.acquire(timeout=_PATIENCE, poll_interval=0.02)
        try:
            said = json.dumps({"pid": os.getpid(), **(holder or {})})
            write_atomic(_note(path), said + "\n", mode=0o600)
            self._file = file_number(path)
        except BaseException:
            self._lock.release()
            raise

    @property
    def in_place(self) -> bool:
        """Whether the lock's file is still the one that was locked: a removed one keeps nobody out."""
        return file_number(self.path) == self._file

    def release(self) -> None:
        """Let go."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def file_number(path: Path) -> tuple[int, int] | None:
    """What makes a file the same one, whatever its name; None when there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino)


def hold_folder(folder: Path, holder: dict[str, Any] | None = None) -> Hold:
    """Hold a state folder; it is made when it is not there.

    Raises:
        StateUnusable: When another tuner holds it, or it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return Hold(folder / _FOLDER_LOCK, holder)
    except Timeout:
        raise StateUnusable(
            "another tuner works with this state folder",
            file=folder,
            mend="see `tuner status`, or give this one its own folder with --state",
        ) from None
    except OSError as error:
        raise StateUnusable(
            f"the state folder cannot be written: {error.strerror}",
            file=folder,
            mend="name another one with --state DIR or TUNER_STATE",
        ) from error


def folder_holder(folder: Path) -> dict[str, Any] | None:
    """Who holds a state folder, as the holder said; None when nobody does."""
    return holder_of(folder / _FOLDER_LOCK)


def hold_study(folder: Path, holder: dict[str, Any] | None = None) -> Hold:
    """Hold a study: whoever does is the only one who works on it.

    Args:
        folder: The study's own folder in the state folder; it exists.
        holder: Who takes it.

    Raises:
        StateUnusable: When another process works on the study.
    """
    try:
        return Hold(folder / _STUDY_LOCK, holder)
    except Timeout:
        other = (holder_of(folder / _STUDY_LOCK) or {}).get("pid", "unknown")
        raise StateUnusable(
            f"process {other} works on the study {folder.name!r}",
            mend="see `tuner status`; stop it with `tuner stop`",
        ) from None


def study_lock(folder: Path) -> Path:
    """The lock's file of a study's folder."""
    return folder / _STUDY_LOCK


def holder_of(path: Path) -> dict[str, Any] | None:
    """Who holds a lock, as the holder said; None when nobody does."""
    lock = FileLock(path, mode=0o600)
    try:
        with lock.acquire(timeout=0):
            return None
    except Timeout:
        with contextlib.suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads(_note(path).read_text(encoding="utf-8"))
            return found
        return {}
    except OSError:
        return None  # no such folder: nobody was ever there


def _note(path: Path) -> Path:
    return path.with_suffix(".holder")
