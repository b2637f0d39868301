"""The seal: how many changes the ledger has seen, kept outside of it.

SQLite mends a torn file by itself: a write-ahead log that was cut is read up to its last whole
transaction, and a file of no bytes is an empty database. What comes out is sound and may be old,
which is worse than broken: trials told twice, engines forgotten. So the number of the last change is
written beside the ledger after each one. A ledger that has seen fewer changes than its seal has
lost some.

Two lines of fixed length are written in turns, each with a sum of its own, so that a write that
was torn spoils one of them at most.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path

from tuner.files import fsync_folder

SEAL_NAME = "ledger.seal"
_LINE = 32


class SealBroken(ValueError):
    """Raised when a seal is there and no line of it can be read."""


class Seal:
    """The seal of one ledger.

    Args:
        path: Its file. It is made when the first change is sealed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None

    def read(self) -> int | None:
        """The number of the last change that was sealed; None where there is no seal.

        Raises:
            SealBroken: When the file is there and says nothing.
        """
        try:
            raw = self.path.read_bytes()
        except FileNotFoundError:
            return None
        found = [n for n in (_parse(raw[at : at + _LINE]) for at in (0, _LINE)) if n is not None]
        if not found:
            raise SealBroken(str(self.path))
        return max(found)

    def write(self, number: int) -> None:
        """Seal a change; it is on disk when this returns."""
        fresh = self._handle is None and not self.path.exists()
        if self._handle is None:
            self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.pwrite(self._handle, _line(number), _LINE * (number % 2))
        os.fdatasync(self._handle)
        if fresh:
            fsync_folder(self.path.parent)

    def close(self) -> None:
        """Let go of the file."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def _line(number: int) -> bytes:
    words = f"{number:022d}"
    return f"{words} {zlib.crc32(words.encode()):08x}\n".encode()


def _parse(line: bytes) -> int | None:
    number = line[:22]
    return int(number) if number.isdigit() and line == _line(int(number)) else None
