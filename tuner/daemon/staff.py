"""One worker as its daemon knows it: started, listened to, told things, and waited for."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuner.daemon import wire

LOG = "worker.log"


@dataclass(frozen=True, slots=True)
class Task:
    """What a worker is to do.

    Attributes:
        study: The study's id.
        name: Its name.
        folder: Its folder in the state folder.
        stood: The folder that relative exports go to.
        budget: Limits in place of the search space's own.
        secrets: Values of the variables that its engines are given.
        devices: The devices that it may have; None for what its search space asks.
        leases: The devices that it is lent.
    """

    study: int
    name: str
    folder: Path
    stood: str
    budget: dict[str, float]
    secrets: dict[str, str] = field(repr=False)
    devices: tuple[str, ...] | None
    leases: tuple[str, ...]


class Worker:
    """A process that works on one study.

    Args:
        task: What it is to do.
        hear: Called with each packet that it sends, in the event loop's thread.
    """

    def __init__(self, task: Task, hear: Callable[[dict[str, Any]], None]) -> None:
        self.task = task
        self._hear = hear
        self._end: socket.socket | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Its process, once it was started."""
        return self._process.pid if self._process is not None else None

    async def start(self, state: Path) -> None:
        """Start the process and tell it what to do."""
        ours, theirs = wire.pair()
        ours.setblocking(False)  # noqa: FBT003 - its only argument
        self._end = ours
        task = self.task
        try:
            with (task.folder / LOG).open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "tuner.daemon.worker",
                    f"--state={state}",
                    f"--study={task.name}",
                    f"--channel={theirs.fileno()}",
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    pass_fds=[theirs.fileno()],
                    env=clean_environment(),
                )
        except BaseException:
            self._end = None
            ours.close()
            raise
        finally:
            theirs.close()
        self.tell(stood=task.stood, budget=task.budget, secrets=task.secrets, devices=task.devices)
        self._listening = asyncio.create_task(self._listen(ours), name=f"listen {task.name}")

    def tell(self, **data: Any) -> None:
        """Tell it something; nothing happens when it has ended. For any thread."""
        if self._end is not None:
            with contextlib.suppress(OSError):
                wire.send(self._end, data)

    async def wait(self) -> int:
        """Wait until the process has ended and all that it said was heard.

        Returns:
            Its exit status; negative for the signal that ended it.
        """
        if self._process is None:
            return 1
        status = await self._process.wait()
        if self._listening is not None:
            await self._listening
        return status

    def kill(self) -> None:
        """End the process at once; it is a child of this one, so its number is surely its own."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def _listen(self, end: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            while (said := wire.parse(await loop.sock_recv(end, wire.LARGEST))) is not None:
                self._hear(said)
        except ConnectionError:
            return
        finally:
            self._end = None
            end.close()


def clean_environment() -> dict[str, str]:
    """This process's environment, for a child of ours that stands in another folder."""
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # small problems: threads only disturb
    if path := env.get("PYTHONPATH"):
        # What is relative was meant from the folder in which this process was started.
        env["PYTHONPATH"] = os.pathsep.join(str(Path(p).absolute()) for p in path.split(os.pathsep))
    return env
