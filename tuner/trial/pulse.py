"""Where in its start an engine is, by its own log, and how long it may be silent there."""

from __future__ import annotations

from tuner.launch.readiness import Patience
from tuner.spec.document import Deadlines
from tuner.trial.events import Voice
from tuner.verdict import Stage
from tuner.verdict.rules import table
from tuner.verdict.scan import Scanner


class Pulse:
    """Follows the log of a starting engine.

    Args:
        voice: Told when the engine enters another stage of its start.
        number: The trial.
        deadlines: How long its stages may take.
    """

    def __init__(self, voice: Voice, number: int, deadlines: Deadlines) -> None:
        self._voice = voice
        self._number = number
        self._deadlines = deadlines
        self._scanner = Scanner(table())
        self._said: Stage | None = None

    @property
    def stage(self) -> Stage:
        """The furthest stage that its log shows."""
        return self._scanner.stage

    def lines(self, lines: list[str]) -> None:
        """Take in what the log gained."""
        self._scanner.feed("".join(f"{line}\n" for line in lines).encode())
        if self.stage is not self._said:
            self._said = self.stage
            self._voice.say("engine", self._number, stage=str(self.stage))

    def patience(self) -> Patience:
        """How long the engine may be silent in the stage that it is in.

        Quiet means that neither the log nor the processor moves; then nothing will come. A silent
        log alone may be work that says nothing, so it is given longer. Graph capture is the
        exception: it reports its progress, and a capture that waits for a collective spins.
        """
        limits = self._deadlines
        silent = (
            limits.silence if self.stage is Stage.CAPTURE else max(limits.silence, limits.start)
        )
        return Patience(quiet=limits.silence, silent=silent, total=limits.start)
