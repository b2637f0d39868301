"""What a daemon and its workers say to each other: one JSON object a packet, over a socket pair.

The packets of a worker only tell those who watch now; what must not be lost is in the ledger. So a
worker never waits for its daemon: a packet that finds no room is dropped. When one side dies, the
other one reads the end of the stream at once.
"""

from __future__ import annotations

import json
import socket
from typing import Any

LARGEST = 128 * 1024
"""Bytes of the largest packet; a larger one is not sent."""


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends, whose packets stay whole."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(end: socket.socket, data: dict[str, Any]) -> bool:
    """Send a packet, if there is room for it and somebody to read it; whether it was sent."""
    raw = json.dumps(data, ensure_ascii=False).encode()
    if len(raw) > LARGEST:
        return False
    try:
        end.send(raw, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    except (BlockingIOError, BrokenPipeError, ConnectionError):
        return False
    return True


def parse(raw: bytes) -> dict[str, Any] | None:
    """A packet's data; None at the end of the stream."""
    if not raw:
        return None
    found: dict[str, Any] = json.loads(raw)
    return found


def receive(end: socket.socket) -> dict[str, Any] | None:
    """Wait for a packet; None at the end of the stream."""
    try:
        return parse(end.recv(LARGEST))
    except ConnectionError:
        return None
