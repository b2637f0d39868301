"""Asking an engine whether it would take a configuration, without starting it.

One warm process in the engine's own environment answers in some tens of milliseconds what a start
would say after ten seconds or more. It only ever says no on the engine's own word: where it cannot
answer, the point is started.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

SCRIPT = Path(__file__).parent / "inside" / "preflight.py"
_WARM_TIMEOUT = 180.0
_ASK_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the engine says of a configuration.

    Attributes:
        accepted: Whether it would take it; None when it could not be asked.
        error: The engine's own words when it would not, or why it could not be asked.
    """

    accepted: bool | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Package:
    """The engine's package, as its own interpreter finds it.

    Attributes:
        path: The file that is imported, as the engine sees it.
        own: Whether it is of the engine's environment, and no source tree that shadows it.
    """

    path: str
    own: bool


@dataclass(frozen=True, slots=True)
class Question:
    """A configuration that an engine is asked about.

    Attributes:
        argv: Arguments of the server, the model's among them.
        env: Variables that the trial sets.
    """

    argv: Sequence[str]
    env: Mapping[str, str]


class Preflight:
    """A warm process that answers for one engine and one model.

    Args:
        argv: The command that runs :data:`SCRIPT` with the engine's own interpreter.
        env: The environment of that command.
        model: The model's folder as the engine sees it.
        folder: Where its log goes.
        after: Called when the process has ended, to remove what it ran in.
    """

    def __init__(
        self,
        argv: Sequence[str],
        env: dict[str, str],
        model: str,
        folder: Path,
        *,
        after: Callable[[], None] = lambda: None,
    ) -> None:
        self._argv = list(argv)
        self._after = after
        self._env = env
        self._model = model
        self._log = folder / "preflight.log"
        self._child: subprocess.Popen[bytes] | None = None
        self._heard = b""
        self._broken = ""
        self._said = False
        self._package: Package | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def warm(self) -> None:
        """Start the process, if it is not there; it loads while the caller does other things."""
        if self._child is not None or self._broken:
            return
        neutral = (
            tempfile.gettempdir()
        )  # a source tree in the working folder would shadow the engine
        with self._log.open("ab") as log:
            self._child = subprocess.Popen(
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=neutral,
                env=self._env,
                start_new_session=True,
            )
        self._send({"model": self._model})

    def ask(self, argv: Sequence[str], env: dict[str, str]) -> Answer:
        """Whether the engine would take these flags in this environment.

        Args:
            argv: Arguments of the server, the model's among them.
            env: Variables that the trial sets.
        """
        (answer,) = self.ask_all([Question(argv, env)])
        return answer

    def ask_all(self, questions: Sequence[Question]) -> list[Answer]:
        """What the engine says of each of several configurations, which it looks at side by side."""
        self._greet()
        if questions and not self._broken:
            asked = [{"argv": list(one.argv), "env": dict(one.env)} for one in questions]
            self._send({"questions": asked})
        return [self._hear() for _ in questions]

    def _hear(self) -> Answer:
        """The answer to the next question; one that nobody gave when the process is broken."""
        if self._broken:
            return Answer(None, self._broken)
        answer = self._receive(_ASK_TIMEOUT)
        if "ok" not in answer or answer.get("crashed"):
            self._give_up(str(answer.get("error", "no answer")))
            return Answer(None, self._broken)
        return Answer(bool(answer["ok"]), str(answer.get("error", "")))

    def package(self) -> Package | None:
        """Where the engine's package is imported from; None where it has none or cannot be asked."""
        self._greet()
        return self._package

    def flags(self) -> frozenset[str] | None:
        """All flags of the engine's server, long and short; None where it cannot be asked."""
        self._greet()
        if self._broken:
            return None
        self._send({"flags": True})
        found = self._receive(_ASK_TIMEOUT).get("flags")
        return None if found is None else frozenset(found)

    def _greet(self) -> None:
        """Start the process and hear whether it can answer, once."""
        self.warm()
        if not self._said and not self._broken:
            self._said = True
            hello = self._receive(_WARM_TIMEOUT)
            if found := hello.get("package"):
                self._package = Package(found["path"], found["own"])
            if not hello.get("ready"):
                self._give_up(str(hello.get("error", "no answer")))

    def close(self) -> None:
        """End the process: its standard input closes, and it is waited for."""
        if self._child is None:
            return
        child, self._child = self._child, None
        for pipe in (child.stdin, child.stdout):
            _close(pipe)
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            # Its group, because a check that hangs is a fork of it.
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        self._after()

    def _give_up(self, why: str) -> None:
        self._broken = why
        self.close()

    def _send(self, data: dict[str, Any]) -> None:
        if self._child is None or self._child.stdin is None:
            return
        try:
            self._child.stdin.write(json.dumps(data).encode() + b"\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            return  # it died; the next receive says so

    def _receive(self, timeout: float) -> dict[str, Any]:
        """The next answer; one with only an error when none came in time."""
        line = self._line(timeout)
        if line is None:
            return {"error": self._broken}
        if not line:
            return {
                "error": f"the engine's own check gave no answer within {timeout:.0f} s; see {self._log}"
            }
        found: dict[str, Any] = json.loads(line)
        return found

    def _line(self, timeout: float) -> bytes | None:
        """The next line, empty when none came in time; None when there is nobody to say one.

        Several answers may come at once, so what is waited for is read here and not by a buffer that
        a wait knows nothing of.
        """
        if self._child is None or self._child.stdout is None:
            return None
        pipe = self._child.stdout.fileno()
        deadline = time.monotonic() + timeout
        while b"\n" not in self._heard:
            ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
            more = os.read(pipe, 1 << 16) if ready else b""
            if not more:
                return b""
            self._heard += more
        line, _, self._heard = self._heard.partition(b"\n")
        return line


def _close(pipe: IO[bytes] | None) -> None:
    if pipe is None:
        return
    try:
        pipe.close()
    except BrokenPipeError:
        return  # what was still to be written has no reader any more
