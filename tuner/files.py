"""Files written so that a crash leaves the old content or the new, never a part."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tuner.errors import UserError


def fsync_folder(folder: Path) -> None:
    """Make a rename inside a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomic(path: Path, data: bytes | str, *, mode: int = 0o644) -> None:
    """Replace a file in one step: write beside it, sync, rename, sync the folder.

    Args:
        path: The file to replace; its folder must exist.
        data: The new content; text is written as UTF-8 with its line ends as they are.
        mode: The permission bits of the new file.
    """
    raw = data.encode() if isinstance(data, str) else data
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(raw)
            out.flush()
            os.fchmod(out.fileno(), mode)
            os.fsync(out.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    fsync_folder(path.parent)


def check_writable(path: Path) -> None:
    """Refuse a file that cannot be written, before there is anything to lose. It is left as it is.

    Raises:
        UserError: When it cannot be written.
    """
    there = path.exists()
    try:
        with path.open("ab"):
            pass
        if not there:
            path.unlink()
    except OSError as wrong:
        raise UserError(f"cannot be written: {wrong.strerror}", file=path) from None


def digest_files(paths: Iterable[tuple[str, Path]]) -> str:
    """A SHA-256 over named files: names, lengths and contents, in the order of the names.

    Args:
        paths: Pairs of the name that enters the digest and the file it stands for.
    """
    total = hashlib.sha256()
    for name, path in sorted(paths):
        raw = path.read_bytes()
        total.update(f"{name}\0{len(raw)}\0".encode())
        total.update(raw)
    return total.hexdigest()
