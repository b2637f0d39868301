"""One builder at a time for each engine, even when a builder dies and leaves a step running.

The lock is an advisory one of the kernel (``flock``) on a file beside the engine's folder. Its handle is
given on to every step that the builder starts, so the lock stays held for as long as any of them lives:
whoever gets it knows that nobody writes into the folder any more. That is why this is not done with
filelock, whose handle ends with the process that took it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_POLL_S = 0.1


@contextmanager
def build_lock(path: Path, *, waiting: Callable[[str], None] | None = None) -> Iterator[int]:
    """Hold the lock of an engine.

    Args:
        path: The lock's file; it is made when missing and never removed.
        waiting: Called with who holds the lock, again and again while it is held by someone else. What
            it raises ends the waiting.

    Yields:
        The handle, to be given to the steps.
    """
    handle = _open(path)
    try:
        while not _take(handle):
            if waiting is not None:
                waiting(_holder(handle))
            time.sleep(_POLL_S)
        _sign(handle)
        yield handle
    finally:
        os.close(handle)


@contextmanager
def try_lock(path: Path) -> Iterator[int | None]:
    """Hold the lock of an engine if nobody else does; yields None where someone does."""
    handle = _open(path)
    try:
        if _take(handle):
            _sign(handle)
            yield handle
        else:
            yield None
    finally:
        os.close(handle)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _take(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
            return False
        raise
    return True


def _sign(handle: int) -> None:
    """Leave the holder's pid in the file, for the message of those who wait."""
    os.ftruncate(handle, 0)
    os.pwrite(handle, str(os.getpid()).encode(), 0)


def _holder(handle: int) -> str:
    pid = os.pread(handle, 32, 0).decode("ascii", "replace").strip()
    return f"process {pid}" if pid else "another process"
