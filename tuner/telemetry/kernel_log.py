"""The kernel's log: what a driver says about its cards there, and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["KMSG", "KernelLog"]

KMSG = Path("/dev/kmsg")

_RECORD = 8192  # the longest record that the kernel hands out
_MOST = 10_000
"""Records that are read at once; a kernel that says more will not stop saying it."""


class KernelLog:
    """What the kernel says from now on.

    Who may not read the kernel's log, as in most containers, reads nothing, and is told no error.

    Args:
        path: The device that hands out the log, a record at a time.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._handle: int | None = None
        try:
            self._handle = os.open(path or KMSG, os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self._handle, 0, os.SEEK_END)
        except OSError:
            self.close()

    def lines(self) -> list[str]:
        """What it has said since the last call."""
        found: list[str] = []
        for _ in range(_MOST if self._handle is not None else 0):
            try:
                record = os.read(self._handle, _RECORD)  # type: ignore[arg-type]
            except BrokenPipeError:  # records were overwritten before they were read: go on behind
                continue
            except OSError:
                break
            if not record:
                break
            found.extend(record.decode(errors="replace").splitlines())
        return found

    def close(self) -> None:
        """Let go of the log. Calling it again changes nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)
