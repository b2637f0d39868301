"""A container's output, copied into a file of the trial while it comes.

The daemon keeps the output too, for as long as it keeps the container. So nothing is lost with a
tuner that dies: whoever takes the container over copies the rest, from where the file ends.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import IO

from tuner.errors import DockerLost
from tuner.launch.dockerapi import CALL_S, Docker, LogStream, Refused

_AGAIN = 0.5


class LogCopy:
    """A thread that copies one container's output; it ends when the container does.

    Args:
        container: The container's id.
        path: The file; what it holds already is the beginning of the output.
        timeout: Seconds that one call to the daemon may take; the stream itself takes what it takes.
    """

    def __init__(self, container: str, path: Path, *, timeout: float = CALL_S) -> None:
        self._container = container
        self._path = path
        self._ending = threading.Event()
        self._docker = Docker(timeout=timeout)
        self._stream: LogStream | None = None
        self._thread = threading.Thread(target=self._run, name="container-log", daemon=True)
        self._thread.start()

    def finish(self, seconds: float) -> bool:
        """Wait for the rest, after the container has ended.

        Returns:
            Whether all of it was copied in time.
        """
        self._ending.set()
        self._thread.join(seconds)
        whole = not self._thread.is_alive()
        if not whole and self._stream is not None:
            self._stream.close()
            self._thread.join(1.0)
        return whole

    def _run(self) -> None:
        with self._path.open("ab") as out, self._docker:
            while not self._copy(out):
                # The daemon went away, or was started anew beside a container that lives on.
                if self._ending.wait(_AGAIN):
                    self._copy(out)
                    return

    def _copy(self, out: IO[bytes]) -> bool:
        """Copy until the stream ends; whether there is no more to come."""
        skip = out.tell()
        try:
            self._stream = self._docker.follow(self._container)
            for piece in self._stream:
                out.write(piece[skip:])
                out.flush()
                skip = max(0, skip - len(piece))
            known = self._docker.inspect(self._container)
        except DockerLost:
            return False
        except Refused:
            return True  # it has been removed
        return known is None or not known["State"]["Running"]
