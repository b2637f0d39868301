"""The log of an engine: followed while it grows, and kept where somebody removes or rotates it."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Self


class KeptLog:
    """A log that is held open, so that it can be put back.

    The engine writes on into a file that was removed or renamed; whoever reads the log by its path
    would then find nothing, or another file.

    Args:
        path: Where the log lies.
        keep: Whether to hold it open; a log that an earlier tuner made may be gone already.
    """

    def __init__(self, path: Path, *, keep: bool) -> None:
        self._path = path
        self._held: IO[bytes] | None = path.open("rb") if keep else None

    @property
    def path(self) -> Path:
        """The log's path, with all that was written so far."""
        if self._held is not None and not self._in_place(self._held):
            self._held.seek(0)
            with self._path.open("wb") as copy:
                shutil.copyfileobj(self._held, copy)
        return self._path

    def close(self) -> None:
        """Hold it no longer; what was written last is put back first, where need be."""
        if self._held is None:
            return
        with contextlib.suppress(OSError):  # the folder may be gone too: then there is no place
            _ = self.path
        self._held.close()
        self._held = None

    def _in_place(self, held: IO[bytes]) -> bool:
        try:
            return os.path.samestat(os.fstat(held.fileno()), self._path.stat())
        except OSError:
            return False


@dataclass(slots=True)
class LogTail:
    """Reads what a log has gained since the last look, in whole lines.

    The file is opened once, so that it can be renamed or removed meanwhile; one that was cut is
    read again from its start.
    """

    path: Path
    _offset: int = 0
    _rest: bytes = field(default=b"", repr=False)
    _file: IO[bytes] | None = field(default=None, repr=False)

    def __enter__(self) -> Self:
        self._file = self.path.open("rb")
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def read(self) -> list[str]:
        """The new lines, decoded leniently, without their ends; only inside of ``with``."""
        if self._file is None:
            raise ValueError("the log is not open")
        if os.fstat(self._file.fileno()).st_size < self._offset:
            self._offset, self._rest = 0, b""
        self._file.seek(self._offset)
        raw = self._file.read(1 << 20)
        self._offset += len(raw)
        *lines, self._rest = (self._rest + raw).split(b"\n")
        return [line.decode(errors="replace") for line in lines]

    @property
    def offset(self) -> int:
        """Bytes read so far."""
        return self._offset
