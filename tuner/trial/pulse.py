"""Where in its start an engine is, by its own log, and how long it may be silent there."""

from __future__ import annotations

from tuner.launch.readiness import Patience
from tuner.spec import StartLimits
from tuner.trial.events import Voice
from tuner.verdict import Stage, StageReader


class Pulse:
    """Follows the log of a starting engine.

    Args:
        voice: Told when the engine enters another stage of its start.
        number: The trial.
    """

    def __init__(self, voice: Voice, number: int) -> None:
        self._voice = voice
        self._number = number
        self._reader = StageReader()
        self._said: Stage | None = None

    def lines(self, lines: list[str]) -> None:
        """Take in what the log gained."""
        for line in lines:
            self._reader.feed(line)
        stage = self._reader.stage
        if stage is not self._said:
            self._said = stage
            self._voice.say("engine", self._number, stage=str(stage))

    def patience(self, limits: StartLimits) -> Patience:
        """How long the engine may be silent in the stage that it is in."""
        silent = {
            Stage.LOADING: limits.load,
            Stage.PROFILING: limits.profile,
            Stage.KV_CACHE: limits.profile,
            Stage.CAPTURE: limits.capture,
        }.get(self._reader.stage, limits.silent)
        return Patience(quiet=min(limits.quiet, silent), silent=silent, total=limits.total)
