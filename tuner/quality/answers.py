"""The answer oracle's questions: what an engine answers, greedily, to prompts that never change."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuner.quality.asking import Asker, ProbeFailed
from tuner.quality.checks import Choice, completion

PROMPTS: Mapping[str, str] = {
    "sea": "Write one sentence about the sea.",
    "list": "List three colours and three animals, then stop.",
    "code": "def fibonacci(n):\n    # the n-th number, counted from 0\n    return",
    "sum": "What is 17 * 23? Answer with the number only.",
}
"""Short prompts; one more is made of a long text, to be read cold and then from the cache."""
_LONG = "long"
_TOP = 8
"""Alternatives that are kept of each token, so that a near tie can be told from a difference."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """One answer.

    Attributes:
        text: Its text.
        tokens: Its tokens, where the server was asked for log-probabilities.
        logprobs: The log-probability of each, in nats.
        likely: The most likely tokens at each place, with their log-probabilities.
    """

    text: str
    tokens: tuple[str, ...] = ()
    logprobs: tuple[float, ...] = ()
    likely: tuple[Mapping[str, float], ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The answer as JSON-ready data."""
        return {
            "text": self.text,
            "tokens": list(self.tokens),
            "logprobs": [round(value, 5) for value in self.logprobs],
            "likely": [{t: round(v, 5) for t, v in place.items()} for place in self.likely],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Spoken:
        """The answer that :meth:`as_json` wrote."""
        return cls(
            data["text"],
            tuple(data["tokens"]),
            tuple(data["logprobs"]),
            tuple(data["likely"]),
        )


Sheet = Mapping[str, Spoken]
"""Answers by ``alone/sea``, ``crowd/sea`` and so on."""


def sheet_json(sheet: Sheet) -> dict[str, Any]:
    """A sheet as JSON-ready data."""
    return {name: spoken.as_json() for name, spoken in sheet.items()}


def sheet_from_json(data: Mapping[str, Any]) -> Sheet:
    """The sheet that :func:`sheet_json` wrote."""
    return {name: Spoken.from_json(spoken) for name, spoken in data.items()}


async def ask_alone(ask: Asker, tokens: int, *, logprobs: bool) -> Sheet:
    """Each prompt by itself: steps of one token.

    Args:
        ask: The server.
        tokens: Tokens of each answer.
        logprobs: Whether to ask for log-probabilities.

    Raises:
        ProbeFailed: When an answer does not come, or lacks what was asked for.
    """
    found = {}
    for name, prompt in _prompts(ask).items():
        found[f"alone/{name}"] = await _spoken(ask, prompt, tokens, logprobs=logprobs)
    return found


async def ask_crowd(ask: Asker, tokens: int, *, logprobs: bool) -> Sheet:
    """All prompts at once: steps of several tokens, and prompts from the cache.

    Raises:
        ProbeFailed: As :func:`ask_alone`.
    """
    prompts = _prompts(ask)
    spoken = await asyncio.gather(
        *(_spoken(ask, prompt, tokens, logprobs=logprobs) for prompt in prompts.values())
    )
    return {f"crowd/{name}": one for name, one in zip(prompts, spoken, strict=True)}


def _prompts(ask: Asker) -> dict[str, str]:
    long = {_LONG: f"{ask.long_text}\nSum it up."} if ask.long_text else {}
    return {**long, **PROMPTS}


async def _spoken(ask: Asker, prompt: str, tokens: int, *, logprobs: bool) -> Spoken:
    more: dict[str, Any] = {"logprobs": True, "top_logprobs": _TOP} if logprobs else {}
    found = completion(await ask.chat(prompt, max_tokens=tokens, seed=0, **more), most=tokens)
    return _with_logprobs(found.first) if logprobs else Spoken(found.first.text)


def _with_logprobs(choice: Choice) -> Spoken:
    try:
        places = (choice.raw["logprobs"] or {})["content"] or []
        tokens = tuple(str(place["token"]) for place in places)
        values = tuple(float(place["logprob"]) for place in places)
        likely = tuple(
            {str(top["token"]): float(top["logprob"]) for top in place["top_logprobs"]}
            for place in places
        )
    except (KeyError, TypeError, ValueError):
        raise ProbeFailed(
            "the server gives no log-probabilities: declare quality.answers.match: exact, or off"
        ) from None
    if not tokens and choice.text:
        raise ProbeFailed("an answer came without log-probabilities")
    return Spoken(choice.text, tokens, values, likely)


def non_finite(sheet: Sheet) -> str | None:
    """Where an answer has a log-probability that is no finite number, in words; None where none has."""
    for name, spoken in sheet.items():
        for place, value in enumerate(spoken.logprobs):
            if not math.isfinite(value) or value < _NO_NUMBER:
                return f"answer {name}: the log-probability of token {place} is {value:g}"
    return None


_NO_NUMBER = -9000.0
"""vLLM writes -9999 where a log-probability is minus infinity; a greedy token never has that."""
