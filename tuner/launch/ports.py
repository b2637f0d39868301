"""A TCP port on 127.0.0.1 for an engine."""

from __future__ import annotations

import errno
import socket

from tuner.errors import PortTaken

HOST = "127.0.0.1"


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
