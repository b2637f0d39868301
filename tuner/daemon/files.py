"""Files of a study, opened so that no name leads out of its folder and no link is followed."""

from __future__ import annotations

import gzip
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, cast

from tuner.daemon.problems import Refused
from tuner.store.redact import RedactedStream, Redactor

_PIECE = 1 << 16
_PRIVATE = (".lock", ".holder", ".tmp")
_NONE = "there is no such file"


def open_inside(root: Path, parts: Sequence[str]) -> IO[bytes]:
    """Open a regular file below a folder.

    Args:
        root: The folder.
        parts: The names of folders below it, and of the file.

    Raises:
        Refused: When there is no such file, or a name is no plain name.
    """
    if any(part in {"", ".", ".."} or "/" in part or "\0" in part for part in parts):
        raise Refused(404, _NONE)
    handle = -1
    try:
        handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        for part in parts[:-1]:
            handle = _step(handle, part, os.O_DIRECTORY)
        handle = _step(handle, parts[-1], os.O_NONBLOCK)
    except (OSError, UnicodeEncodeError):
        raise Refused(404, _NONE) from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise Refused(404, _NONE)
    return os.fdopen(handle, "rb")


def _step(handle: int, name: str, flags: int) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=handle)
    finally:
        os.close(handle)


def open_text(root: Path, parts: Sequence[str]) -> IO[bytes]:
    """Open a file below a folder, or the packed one that took its place.

    Raises:
        Refused: When there is neither.
    """
    try:
        return open_inside(root, parts)
    except Refused:
        return cast("IO[bytes]", _Packed(open_inside(root, [*parts[:-1], f"{parts[-1]}.gz"])))


class _Packed(gzip.GzipFile):
    """A packed file that closes the file it reads from."""

    def __init__(self, packed: IO[bytes]) -> None:
        super().__init__(fileobj=packed)
        self._packed = packed

    def close(self) -> None:
        """Close both."""
        super().close()
        self._packed.close()


def listed(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    """The regular files below a folder that may be shown: relative path and status, in order."""
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            path = Path(folder) / name
            if private(name):
                continue
            try:
                found = path.lstat()
            except OSError:
                continue
            if stat.S_ISREG(found.st_mode):
                yield str(path.relative_to(root)), found


def private(name: str) -> bool:
    """Whether a file is for the tuner itself only."""
    return name.startswith(".") or name.endswith(_PRIVATE)


def pieces(file: IO[bytes], redact: Redactor) -> Iterator[bytes]:
    """A file's content without secrets; closes it at the end."""
    stream = RedactedStream(redact)
    with file:
        while raw := file.read(_PIECE):
            yield stream.feed(raw)
    yield stream.end()


def whole_lines(
    file: IO[bytes], offset: int, limit: int, redact: Redactor
) -> tuple[bytes, int, bool]:
    """A part of a growing text file that does not cut a line, unless the line alone is longer.

    Args:
        file: The file.
        offset: Bytes to skip.
        limit: The most bytes to read.
        redact: Takes secrets out.

    Returns:
        The part without secrets, the offset of what follows, and whether the file ends there.
    """
    file.seek(offset)
    raw = file.read(limit)
    at_end = not file.read(1)
    cut = raw.rfind(b"\n") + 1
    if cut == 0 or (at_end and raw.endswith(b"\n")):
        cut = len(raw)
    if not raw[:cut].endswith(b"\n"):
        cut = redact.safe_cut(raw[:cut]) or cut
    part = raw[:cut]
    return redact.raw(part), offset + len(part), at_end and cut == len(raw)
