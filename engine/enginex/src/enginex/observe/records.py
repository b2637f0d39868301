"""Step records: a line of JSON for each step, for those who model an engine's time.

A line holds what :class:`~enginex.observe.step.Step` says and ``seconds``. A thread writes the file, so that a step
costs its making and one append to a queue.
"""

from __future__ import annotations

import atexit
import json
import os
import threading
import time
from collections import deque
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from enginex.errors import SettingError
from enginex.observe.runner import Observer
from enginex.observe.step import Step

__all__ = ["StepRecords", "check_path"]

_TICK_S = 0.2


def check_path(path: Path) -> None:
    """Refuse a file that cannot be written, before a model is loaded.

    Raises:
        SettingError: With the reason; the message is one line.
    """
    try:
        with path.open("a", encoding="utf-8"):
            pass
    except OSError as error:
        raise SettingError(f"{path} cannot be written: {error.strerror}") from error


class StepRecords(Observer):
    """Appends the steps of this process to a file, whole lines at a time.

    Args:
        path: The file; what it holds already stays.
        tick_s: How often the thread writes.
    """

    def __init__(self, path: Path, tick_s: float = _TICK_S) -> None:
        self._path = path
        self._tick_s = tick_s
        self._waiting: deque[tuple[Step, float, float]] = deque()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._file: TextIO | None = None
        self._thread = threading.Thread(target=self._run, name="enginex-records", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def done(self, step: Step, seconds: float) -> None:
        """Take a step that is over."""
        self._waiting.append((step, seconds, time.time()))

    def close(self) -> None:
        """Write what is waiting and end the thread."""
        self._stop.set()
        self._thread.join()
        self._write()

    def _run(self) -> None:
        while not self._stop.wait(self._tick_s):
            self._write()

    def _write(self) -> None:
        lines = []
        with self._lock:
            while self._waiting:
                lines.append(_line(*self._waiting.popleft()))
            if not lines:
                return
            if self._file is None:
                self._file = self._path.open("a", encoding="utf-8")
            self._file.write("".join(lines))
            self._file.flush()


def _line(step: Step, seconds: float, at: float) -> str:
    fields = {**asdict(step), "seconds": round(seconds, 9), "at": round(at, 6), "pid": os.getpid()}
    return json.dumps(fields, separators=(",", ":")) + "\n"
