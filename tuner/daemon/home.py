"""Where a daemon is found: its socket, its token, and the note in the state folder that points to it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import stat
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from tuner.errors import StateUnusable
from tuner.files import write_atomic
from tuner.launch.identity import boot_id, read_stat

POINTER = "daemon.json"
LOG = "daemon.log"
CONFIG = "daemon.toml"
_RUN = "run"
_SOCKET = "daemon.sock"
_LONGEST = 100
"""Bytes of a socket's path that are surely allowed; the kernel's limit is 107."""


@dataclass(frozen=True, slots=True)
class Address:
    """A daemon as its note describes it.

    Attributes:
        pid: Its process.
        start_ticks: When that process started, on the boot's clock.
        boot: The boot that it lives in.
        socket: Path of its socket.
        version: Its version of tuner.
        started: Seconds since 1970.
        tcp: Its port on 127.0.0.1, where it has one.
    """

    pid: int
    start_ticks: int
    boot: str
    socket: str
    version: str
    started: float
    tcp: int | None = None

    @property
    def alive(self) -> bool:
        """Whether the process that wrote the note lives."""
        if self.boot != boot_id():
            return False
        found = read_stat(self.pid)
        return found is not None and not found.dead and found.start_ticks == self.start_ticks


def read_address(state: Path) -> Address | None:
    """The daemon of a state folder; None where none lives."""
    try:
        found = Address(**json.loads((state / POINTER).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return found if found.alive else None


def write_address(state: Path, address: Address) -> None:
    """Leave the note that points to a daemon."""
    write_atomic(state / POINTER, json.dumps(asdict(address)) + "\n", mode=0o600)


def forget_address(state: Path, address: Address) -> None:
    """Take the note and the socket away, where they are still this daemon's."""
    for path in (state / POINTER, Path(address.socket)):
        path.unlink(missing_ok=True)


def socket_path(state: Path) -> Path:
    """Where the socket of a state folder's daemon lies: in the folder, unless its path is too long."""
    near = state / _RUN / _SOCKET
    if len(os.fsencode(near)) <= _LONGEST:
        return near
    name = hashlib.sha256(os.fsencode(state)).hexdigest()[:16]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        return Path(runtime) / f"tuner-{name}" / _SOCKET
    return Path(tempfile.gettempdir()) / f"tuner-{os.getuid()}-{name}" / _SOCKET


def private_folder(folder: Path) -> Path:
    """Make a folder that only this user may enter, or make sure that it is one.

    Raises:
        StateUnusable: When it belongs to somebody else, or is no folder.
    """
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise StateUnusable(
            "this must be a folder of yours, and it is not",
            file=folder,
            mend="remove it, or name another state folder with --state",
        )
    if stat.S_IMODE(found.st_mode) != 0o700:
        folder.chmod(0o700)
    return folder


def token_file(state: Path) -> Path:
    """The file that holds the token for connections over TCP."""
    return state / _RUN / "token"


def token(state: Path) -> str:
    """The token for connections over TCP; made when it is not there."""
    file = token_file(state)
    private_folder(file.parent)
    with contextlib.suppress(OSError):
        found = file.read_text(encoding="ascii").strip()
        if len(found) >= 32 and not stat.S_IMODE(file.stat().st_mode) & 0o077:
            return found
    fresh = secrets.token_urlsafe(32)
    write_atomic(file, fresh + "\n", mode=0o600)
    return fresh
