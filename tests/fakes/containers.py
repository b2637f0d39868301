"""Containers that tests leave, and a proxy before the daemon that can be made to hang."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

FOLDER = "tuner.folder"
"""Label by which a test knows its containers: others may use the same daemon."""


def of(folder: Path) -> set[str]:
    """Ids of all containers, running or not, that a test made for plans under its folder."""
    listed = '{{.ID}} {{.Label "' + FOLDER + '"}}'
    said = subprocess.run(
        ["docker", "ps", "--all", "--no-trunc", "--filter", f"label={FOLDER}", "--format", listed],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = (line.split(" ", 1) for line in said.stdout.splitlines())
    return {one for one, where in lines if Path(where).is_relative_to(folder)}


@contextlib.contextmanager
def none_left(folder: Path) -> Iterator[None]:
    """Fail where a container of a test is left behind, and remove it."""
    yield
    left = of(folder)
    for container in left:
        subprocess.run(["docker", "rm", "--force", container], capture_output=True, check=True)
    assert not left, f"containers left behind: {left}"


class Proxy:
    """A unix socket that passes everything on to the real daemon, until it is told to hang.

    Args:
        folder: Where the socket lies.
        forward: Whether there is a daemon behind it at all.
    """

    def __init__(self, folder: Path, *, forward: bool = True) -> None:
        self.path = folder / "proxy.sock"
        self._target = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
        self._forward = forward
        self._open = threading.Event()
        self._open.set()
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(self.path))
        self._server.listen(16)
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._spawn(self._accept)

    @property
    def address(self) -> str:
        """What to set DOCKER_HOST to."""
        return f"unix://{self.path}"

    def hang(self) -> None:
        """Pass nothing on any more; connections are still taken, as a stopped daemon's are."""
        self._open.clear()

    def heal(self) -> None:
        """Pass everything on again."""
        self._open.set()

    def close(self) -> None:
        """End all threads."""
        self._open.set()
        for end in (self._server, *self._ends):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        for thread in self._threads:
            thread.join(5)

    def _spawn(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            self._ends.append(client)
            if self._forward:
                self._spawn(self._pump, client)

    def _pump(self, client: socket.socket) -> None:
        daemon = socket.socket(socket.AF_UNIX)
        self._ends.append(daemon)
        self._open.wait()
        with contextlib.suppress(OSError), selectors.DefaultSelector() as watched:
            daemon.connect(self._target.removeprefix("unix://"))
            watched.register(client, selectors.EVENT_READ, daemon)
            watched.register(daemon, selectors.EVENT_READ, client)
            while True:
                for key, _ in watched.select():
                    piece = key.fileobj.recv(65536)  # type: ignore[union-attr]
                    self._open.wait()
                    if not piece:
                        for end in (client, daemon):
                            end.shutdown(socket.SHUT_RDWR)
                        return
                    key.data.sendall(piece)
