"""A TCP port on 127.0.0.1 for an engine, and whose it is.

That a port answers says little: another program may have taken it before the engine could, or
after the engine was gone, and two servers that ask for it can even share one. So whoever listens
is looked up, and only the engine's own sockets count for it or against it.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from tuner.errors import PortTaken

HOST = "127.0.0.1"
_LISTEN = "0A"
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


@dataclass(frozen=True, slots=True)
class Listener:
    """A socket that accepts connections on a port.

    Attributes:
        inode: Its number, which its holders' open files show.
        uid: The user that opened it.
    """

    inode: int
    uid: int


def is_free(port: int) -> bool:
    """Whether an engine could listen on the port now (sockets in TIME_WAIT do not count)."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno in {errno.EADDRINUSE, errno.EACCES}:
                return False
            raise
    return not is_open(port)


def is_open(port: int, *, timeout: float = 0.5) -> bool:
    """Whether somebody accepts connections on the port."""
    try:
        with socket.create_connection((HOST, port), timeout=timeout):
            return True
    except OSError:
        return False


def free_port(avoid: frozenset[int] = frozenset()) -> int:
    """A port that nobody listens on now.

    Another program can take it before the engine does; that is seen as the verdict ``port`` and
    the launch is tried again with another one.
    """
    for _ in range(50):
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            port = int(probe.getsockname()[1])
        if port not in avoid:
            return port
    raise PortTaken(
        "no free TCP port was found on 127.0.0.1", mend="close some programs and try again"
    )


def require_free(port: int) -> int:
    """The port, if an engine can have it.

    Raises:
        PortTaken: When somebody holds it.
    """
    if not is_free(port):
        raise PortTaken(
            f"port {port} on {HOST} is taken",
            mend=f"see who holds it with `ss -ltnp 'sport = :{port}'`, or leave the port out and a free one is chosen",
        )
    return port


def listeners(port: int) -> tuple[Listener, ...]:
    """Everybody who listens on the port, on whatever address of this machine."""
    return tuple(found for table in _TABLES for found in _listening(table, port))


def strangers(port: int, pids: Collection[int]) -> tuple[str, ...]:
    """Those who surely hold the port and are none of these processes, in words for people.

    Whoever cannot be looked at counts as a stranger only where it is another user's.
    """
    found = []
    for listener in listeners(port):
        holders = _holders(listener.inode)
        if holders and not holders & set(pids):
            found.append(", ".join(_name(pid) for pid in sorted(holders)))
        elif not holders and listener.uid != os.getuid():
            found.append(f"a process of user {listener.uid}")
    return tuple(found)


def still_held(port: int, pids: Collection[int] = ()) -> bool:
    """Whether the port may still be held by an engine of this user.

    Args:
        port: The port.
        pids: The engine's live processes.
    """
    if not any(Path(table).is_file() for table in _TABLES):
        return is_open(port)
    for listener in listeners(port):
        holders = _holders(listener.inode)
        if holders & set(pids) or (not holders and listener.uid == os.getuid()):
            return True
    return False


def _listening(table: str, port: int) -> Iterator[Listener]:
    try:
        lines = Path(table).read_text().splitlines()[1:]
    except OSError:
        return
    for line in lines:
        words = line.split()
        if words[3] == _LISTEN and int(words[1].rpartition(":")[2], 16) == port:
            yield Listener(inode=int(words[9]), uid=int(words[7]))


def _holders(inode: int) -> set[int]:
    """Processes, as far as they may be looked at, that have the socket open."""
    wanted = f"socket:[{inode}]"
    return {pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _has(pid, wanted)}


def _has(pid: int, wanted: str) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    for name in names:
        try:
            if os.readlink(f"{folder}/{name}") == wanted:
                return True
        except OSError:
            continue
    return False


def _name(pid: int) -> str:
    try:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        name = "gone"
    return f"pid {pid} ({''.join(c for c in name if c.isprintable())})"
