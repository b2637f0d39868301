"""Secrets taken out of the files of a trial, once its engine is gone and nobody writes into them."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path

from tuner.store.redact import RedactedStream, Redactor

_PIECE = 1 << 20


def scrub(folder: Path, redact: Redactor) -> list[Path]:
    """Take every secret out of the files below a folder; links are left alone.

    Args:
        folder: The folder.
        redact: Knows the secrets.

    Returns:
        The files that held one.
    """
    if not redact:
        return []
    found = []
    for place, _, names in os.walk(folder):
        for name in sorted(names):
            path = Path(place) / name
            if stat.S_ISREG(path.lstat().st_mode) and _scrub(path, redact):
                found.append(path)
    return found


def _scrub(path: Path, redact: Redactor) -> bool:
    """Rewrite one file beside itself and put it in its place, if that makes a difference."""
    stream, digests = RedactedStream(redact), (hashlib.sha256(), hashlib.sha256())
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=".scrub-")
    try:
        with os.fdopen(handle, "wb") as new, path.open("rb") as old:
            os.fchmod(new.fileno(), stat.S_IMODE(os.fstat(old.fileno()).st_mode))
            raw = b"-"
            while raw:
                raw = old.read(_PIECE)
                part = stream.feed(raw) if raw else stream.end()
                digests[0].update(raw)
                digests[1].update(part)
                new.write(part)
            new.flush()
            os.fsync(new.fileno())
        changed = digests[0].digest() != digests[1].digest()
        if changed:
            Path(beside).replace(path)
    finally:
        Path(beside).unlink(missing_ok=True)
    return changed
