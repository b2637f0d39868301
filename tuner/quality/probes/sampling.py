"""Probes of sampling: several choices, seeds, and the range of each parameter."""

from __future__ import annotations

import asyncio
from typing import Any

from tuner.quality.asking import Asker, ProbeFailed
from tuner.quality.checks import completion

_ACCEPTED: tuple[dict[str, Any], ...] = (
    {"temperature": 2.0, "top_p": 0.01, "seed": 1},
    {"temperature": 1.0, "top_p": 1.0, "top_k": 5, "seed": 1},
    {"frequency_penalty": -2.0, "presence_penalty": 2.0},
    {"frequency_penalty": 2.0, "presence_penalty": -2.0},
)


async def n_2(ask: Asker) -> None:
    """Two choices of one prompt."""
    reply = await ask.chat("Name a colour.", n=2, temperature=1.0, seed=3, max_tokens=8)
    completion(reply, choices=2, most=8)


async def seed(ask: Asker) -> None:
    """The same seed gives the same answer, also where it is drawn."""
    one, two = [
        completion(await ask.chat("Tell a story.", temperature=1.0, seed=7, max_tokens=8))
        for _ in range(2)
    ]
    if one.first.text != two.first.text:
        raise ProbeFailed(f"seed 7 gave {one.first.text!r} and then {two.first.text!r}")


async def parameters(ask: Asker) -> None:
    """The ends of what the protocol allows, and the newer name of the token limit."""
    bodies = [ask.body("Say one word.", **{"max_tokens": 2, **given}) for given in _ACCEPTED]
    newer = ask.body("Say one word.", max_completion_tokens=2)
    del newer["max_tokens"]
    replies = await asyncio.gather(*map(ask.post, [*bodies, newer]))
    names = [", ".join(f"{k} {v:g}" for k, v in given.items()) for given in _ACCEPTED]
    for name, reply in zip([*names, "max_completion_tokens"], replies, strict=True):
        if reply.status != 200:
            raise ProbeFailed(f"{name}: {reply.words}")
        completion(reply, most=2)
