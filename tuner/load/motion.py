"""What moves in a load while it runs: signs of progress, for whoever watches over it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tuner.load.answer import Answer


@dataclass(slots=True)
class Motion:
    """Signs of progress of one load, counted where they are asked for and not where they arrive.

    A sign is a chunk with generated content, or a response that the server brought to its end,
    a refusal included. A request that runs out of time is none. Written and read by the thread
    of the load.
    """

    _answers: dict[int, Answer] = field(default_factory=dict)
    _over: int = 0

    @property
    def under_way(self) -> int:
        """Requests that were begun and are not over."""
        return len(self._answers)

    @property
    def signs(self) -> int:
        """Signs of progress since the start of the load."""
        return self._over + sum(len(answer.times) for answer in self._answers.values())

    def begin(self, answer: Answer) -> None:
        """Count a request from here on, by its growing answer."""
        self._answers[id(answer)] = answer

    def end(self, answer: Answer, *, whole: bool) -> None:
        """A request is over.

        Args:
            answer: Its answer, as far as it came.
            whole: Whether the server brought its response to an end.
        """
        del self._answers[id(answer)]
        self._over += len(answer.times) + whole
