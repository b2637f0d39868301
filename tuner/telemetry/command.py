"""A vendor's tool, run so that it can hang without hanging tuner."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import IO

import psutil

from tuner.errors import TelemetryLost

__all__ = ["Tool"]

_MAX_OUTPUT = 4 * 2**20
_POLL = 0.005
_KILL_WAIT = 1.0


class Tool:
    """Runs one program again and again, with a limit on its time.

    A driver in trouble can leave its tool in uninterruptible sleep, where no signal reaches it.
    Then the tool is given up, and it is not started again while the one that hangs is there:
    otherwise each sample would leave another.

    Args:
        program: Path of the program.
        timeout: Seconds that one run may take.
        env: Variables to set beside those of this process.
    """

    def __init__(
        self, program: str, *, timeout: float, env: Mapping[str, str] | None = None
    ) -> None:
        self.program = program
        self.timeout = timeout
        self.cpu_seconds = 0.0
        self._env = {**os.environ, **(env or {})}
        self._stuck: subprocess.Popen[bytes] | None = None

    def run(self, arguments: Sequence[str]) -> str:
        """Run the program once and return what it printed, standard error after standard output.

        Raises:
            TelemetryLost: When it cannot be started, runs out of time, or is still stuck from an
                earlier run. A failing exit status is no error: the text tells more.
        """
        if self._stuck is not None and self._stuck.poll() is None:
            raise TelemetryLost(f"{self.program} (pid {self._stuck.pid}) still hangs")
        self._stuck = None
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            try:
                process = subprocess.Popen(
                    [self.program, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    env=self._env,
                    start_new_session=True,
                )
            except OSError as problem:
                raise TelemetryLost(f"{self.program} cannot be started: {problem}") from problem
            if not self._await(process, self.timeout):
                self._give_up(process)
                raise TelemetryLost(
                    f"{self.program} {' '.join(arguments)} took more than {self.timeout:g} s"
                )
            return "".join(_content(each) for each in (out, err))

    def _await(self, process: subprocess.Popen[bytes], seconds: float) -> bool:
        """Wait for the end, and note the CPU time before the process is reaped."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                process.poll()
                return True
            if ended is not None:
                self._note_cost(process.pid)
                process.wait()
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL)

    def _note_cost(self, pid: int) -> None:
        try:
            times = psutil.Process(pid).cpu_times()
        except psutil.Error:
            return
        self.cpu_seconds += times.user + times.system

    def _give_up(self, process: subprocess.Popen[bytes]) -> None:
        # The tool leads a session of its own, so its group is exactly what was started here.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if not self._await(process, _KILL_WAIT):
            self._stuck = process


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_MAX_OUTPUT).decode(errors="replace")
