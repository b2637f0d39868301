"""Probes of bad requests: each must be refused as the client's mistake, and do no harm."""

from __future__ import annotations

import asyncio
from typing import Any

from tuner.quality.asking import Asker, ProbeFailed
from tuner.quality.checks import refused


async def _all_refused(ask: Asker, bad: dict[str, dict[str, Any] | bytes]) -> None:
    replies = await asyncio.gather(*map(ask.post, bad.values()))
    for what, reply in zip(bad, replies, strict=True):
        refused(reply, what)


async def bad_body(ask: Asker) -> None:
    """Bodies that are no request at all."""
    await _all_refused(
        ask,
        {"a body that is no JSON": b"{nope", "an empty object": {}, "a list": b"[]"},
    )


async def bad_messages(ask: Asker) -> None:
    """Messages that are none."""
    roleless = {**ask.body(""), "messages": [{"content": "Hello."}]}
    textless = {**ask.body(""), "messages": "Hello."}
    await _all_refused(
        ask,
        {
            "no messages": ask.body([]),
            "a message without a role": roleless,
            "messages that are text": textless,
        },
    )


async def bad_parameters(ask: Asker) -> None:
    """Parameters beyond what the protocol allows."""
    await _all_refused(
        ask,
        {
            "max_tokens -1": ask.body("x", max_tokens=-1),
            "top_p 1.1": ask.body("x", top_p=1.1),
            "temperature -1": ask.body("x", temperature=-1),
            "a model that is not there": ask.body("x", model="no-such-model"),
        },
    )


async def too_long(ask: Asker) -> None:
    """More tokens than the context holds, in the prompt and in the answer."""
    if ask.context is None:
        raise ProbeFailed("the server does not say how long its context is")
    long_answer = ask.body("x", max_tokens=ask.context + 1)
    long_prompt = ask.body("a b " * ask.context)
    await _all_refused(
        ask, {"max_tokens over the context": long_answer, "a prompt over the context": long_prompt}
    )
