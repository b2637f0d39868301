"""Probes at the edge of what the server allows: they find what would kill it hours into a load."""

from __future__ import annotations

import asyncio

from tuner.quality.asking import Asker, ProbeFailed
from tuner.quality.checks import completion

_ROOM = 96
"""Tokens left for the chat template and the answer."""
_CUTS = 8


async def long_context(ask: Asker) -> None:
    """A prompt of most of the context, and once more from the cache."""
    text = await _text(ask, part=0.9)
    for _ in range(2):
        completion(await ask.chat(text, max_tokens=4), most=4)


async def worst_case(ask: Asker) -> None:
    """The longest prompts that fit, two choices each, two of them at once."""
    text = await _text(ask, part=1.0)
    bodies = [
        ask.body(f"{word} {text}", n=2, temperature=1.0, seed=1, max_tokens=16)
        for word in ("one", "two")
    ]
    for reply in await asyncio.gather(*map(ask.post, bodies)):
        completion(reply, choices=2, most=16)


async def _text(ask: Asker, *, part: float) -> str:
    """A text that fills a part of the context, by the server's own count of its tokens."""
    if ask.context is None:
        raise ProbeFailed("the server does not say how long its context is")
    wanted = int((ask.context - _ROOM) * part)
    text = ask.long_text * (1 + wanted // max(1, await ask.count(ask.long_text)))
    for _ in range(_CUTS):
        count = await ask.count(text)
        if count <= wanted:
            return text
        text = text[: int(len(text) * wanted / count) - 1]
    return text
