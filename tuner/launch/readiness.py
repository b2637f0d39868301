"""Waiting for an engine: until it answers, dies, falls silent, or is no longer wanted.

Ready means that a completion came back, and from the engine that was started: another server may
listen on its port. ``/health`` is no proof: an engine whose core is dead can answer it for hours.
"""

from __future__ import annotations

import enum
import math
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

from tuner.launch.base import Exit, Launch
from tuner.launch.logfile import LogTail
from tuner.load.endpoint import PLAIN

_POLL = 0.25
_FIRST_POLL = 0.05  # an engine that starts in no time is seen in no time
_CPU_LOOK = 2.0
_BROKEN_ANSWERS = 3


class Ended(enum.StrEnum):
    """Why the wait ended."""

    READY = "ready"
    EXITED = "exited"
    HUNG = "hung"
    BROKEN = "broken"  # healthy, but every completion fails
    PORT = "port"  # somebody else answers on its port
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an engine may make no visible progress, in seconds.

    Attributes:
        quiet: Nothing moves: no log, no processor time, no device.
        silent: The log does not move, though something works: a spinning hang.
        total: The whole start; after it only an engine whose log still moves may go on.
        most: The whole start, whatever moves.
    """

    quiet: float = 60.0
    silent: float = 300.0
    total: float = 3600.0
    most: float = 14400.0


@dataclass(frozen=True, slots=True)
class Waited:
    """What came of the wait.

    Attributes:
        ended: Why it ended.
        seconds: How long it lasted.
        exit: How the engine ended, when it did.
        silence: Seconds since its log last moved.
        deadline: Seconds that were allowed, where it took too long.
        detail: What was seen, in a sentence.
        status: HTTP status of the last completion that failed.
        holder: Who else listens on its port.
    """

    ended: Ended
    seconds: float
    exit: Exit | None = None
    silence: float = 0.0
    deadline: float | None = None
    detail: str = ""
    status: int | None = None
    holder: str | None = None


def await_ready(
    launch: Launch,
    *,
    model: str,
    patience: Callable[[], Patience],
    on_lines: Callable[[list[str]], bool] = lambda _: True,
    worked: Callable[[], float] = lambda: -math.inf,
    cancelled: threading.Event | None = None,
) -> Waited:
    """Wait until the engine gives a completion, or until it is clear that it will not.

    Args:
        launch: The engine that was started.
        model: Name of the served model.
        patience: Asked at every look, so that it can depend on the stage the log shows.
        on_lines: Gets the log's new lines as they come, and says whether they tell of progress.
        worked: When a device was last seen at work, on the monotonic clock.
        cancelled: Set from outside to end the wait.
    """
    return _Wait(launch, model, patience, on_lines, worked, cancelled or threading.Event()).run()


class _Wait:
    def __init__(
        self,
        launch: Launch,
        model: str,
        patience: Callable[[], Patience],
        on_lines: Callable[[list[str]], bool],
        worked: Callable[[], float],
        cancelled: threading.Event,
    ) -> None:
        self._launch = launch
        self._model = model
        self._patience = patience
        self._on_lines = on_lines
        self._worked = worked
        self._cancelled = cancelled
        self._tail = LogTail(launch.log)
        self._began = self._log_moved = self._life = self._cpu_looked = time.monotonic()
        self._cpu = 0.0
        self._broken = 0
        self._status: int | None = None
        self._question: _Question | None = None

    def run(self) -> Waited:
        with (
            self._tail,
            httpx.Client(
                base_url=self._launch.base_url, timeout=5.0, trust_env=False, verify=PLAIN
            ) as client,
        ):
            while True:
                if found := self._look(client):
                    self._read_log()
                    return found
                if self._question is None:
                    elapsed = time.monotonic() - self._began
                    self._cancelled.wait(min(_POLL, max(_FIRST_POLL, elapsed / 4)))

    def _look(self, client: httpx.Client) -> Waited | None:
        if self._cancelled.is_set():
            return self._waited(Ended.CANCELLED, "the trial was cancelled")
        if (gone := self._launch.exit()) is not None:
            return self._waited(Ended.EXITED, "the engine ended before it was ready", gone)
        self._read_log()
        self._feel_pulse()
        if (hang := self._hang()) is not None:
            said, deadline = hang
            return self._waited(Ended.HUNG, said, deadline=deadline)
        return self._ask(client)

    def _read_log(self) -> None:
        lines = self._tail.read()
        if lines and self._on_lines(lines):
            self._log_moved = self._life = time.monotonic()

    def _feel_pulse(self) -> None:
        self._life = max(self._life, self._worked())
        now = time.monotonic()
        if now - self._cpu_looked < _CPU_LOOK:
            return
        used = self._launch.cpu_seconds()
        # A tick or two is the housekeeping of idle threads, not work.
        if used - self._cpu > 0.05 * (now - self._cpu_looked):
            self._life = now
        self._cpu, self._cpu_looked = used, now

    def _hang(self) -> tuple[str, float] | None:
        """What shows that the start hangs, and the deadline that it passed."""
        now = time.monotonic()
        limits = self._patience()
        age, still, silence = now - self._began, now - self._life, now - self._log_moved
        healthy = "" if self._question is None else "healthy, but no completion comes: "
        if still > limits.quiet:
            moved = "no new log line, no processor time and no device at work"
            return f"{healthy}{moved} for {still:.0f} s", limits.quiet
        if silence > limits.silent:
            return f"{healthy}no new log line for {silence:.0f} s", limits.silent
        if age > limits.total and silence > limits.quiet:
            said = f"not ready after {age:.0f} s, and no new log line for {silence:.0f} s"
            return f"{healthy}{said}", limits.quiet
        if age > limits.most:
            return f"{healthy}not ready after {age:.0f} s", limits.most
        return None

    def _ask(self, client: httpx.Client) -> Waited | None:
        """Ask for a completion once the server is up; the wait goes on while it is on its way."""
        if self._question is None:
            if not self._healthy(client):
                return None
            if (holder := self._launch.port_holder()) is not None:
                said = f"its port is held by {holder}"
                return self._waited(Ended.PORT, said, holder=holder)
            # Compiling for a first answer may take long: what moves meanwhile says whether it hangs.
            self._question = _Question(self._launch.base_url, self._model, self._patience().most)
        answer = self._question.wait(_POLL)
        if answer is None:
            return None
        self._question = None
        return self._heard(answer)

    def _heard(self, answer: httpx.Response | httpx.RequestError) -> Waited | None:
        if isinstance(answer, httpx.RequestError):
            return None  # just gone: the next look tells
        if answer.status_code == httpx.codes.OK:
            return self._waited(Ended.READY, "a completion came back")
        self._broken += 1
        self._status = answer.status_code
        if self._broken < _BROKEN_ANSWERS:
            return None
        said = " ".join(answer.text.split())[:200]
        return self._waited(
            Ended.BROKEN, f"healthy, but a completion gives {answer.status_code}: {said}"
        )

    @staticmethod
    def _healthy(client: httpx.Client) -> bool:
        """Whether the server says it is well; one that is busy starting may not answer in time."""
        try:
            return client.get("/health").status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def _waited(
        self,
        ended: Ended,
        detail: str,
        gone: Exit | None = None,
        *,
        deadline: float | None = None,
        holder: str | None = None,
    ) -> Waited:
        now = time.monotonic()
        return Waited(
            ended=ended,
            seconds=now - self._began,
            exit=gone,
            silence=now - self._log_moved,
            deadline=deadline,
            detail=detail,
            status=self._status,
            holder=holder,
        )


class _Question:
    """One completion of one token, asked by a thread of its own.

    An engine that is up and hangs holds the connection for as long as it likes; meanwhile its end,
    and the user's wish to stop, must be noticed. The thread has a client of its own: one that is
    closed by another thread while it connects leaves its socket open.
    """

    def __init__(self, base_url: str, model: str, timeout: float) -> None:
        self._answers: queue.SimpleQueue[httpx.Response | httpx.RequestError] = queue.SimpleQueue()
        body = {"model": model, "prompt": "Hi", "max_tokens": 1}
        ask = threading.Thread(
            target=self._ask, args=(base_url, body, timeout), name="first-completion", daemon=True
        )
        ask.start()

    def _ask(self, base_url: str, body: dict[str, Any], timeout: float) -> None:
        try:
            with httpx.Client(base_url=base_url, timeout=timeout, trust_env=False) as client:
                self._answers.put(client.post("/v1/completions", json=body))
        except httpx.RequestError as error:
            self._answers.put(error)

    def wait(self, seconds: float) -> httpx.Response | httpx.RequestError | None:
        """The answer, or what became of the connection; None when neither came in time."""
        try:
            return self._answers.get(timeout=seconds)
        except queue.Empty:
            return None
