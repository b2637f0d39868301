"""Probes of how an answer ends: at a length, at a word, or when the user goes away."""

from __future__ import annotations

from tuner.quality.asking import Asker, ProbeFailed, Reply
from tuner.quality.checks import completion

_LEAVE = 6
"""Chunks after which a probe of long answers goes away."""


async def max_tokens_1(ask: Asker) -> None:
    """An answer of one token, which ends for its length."""
    await _exactly(ask, 1)


async def max_tokens_64(ask: Asker) -> None:
    """An answer of at most 64 tokens."""
    await _exactly(ask, 64)


async def _exactly(ask: Asker, tokens: int) -> None:
    found = completion(await ask.chat("Count from one.", max_tokens=tokens), most=tokens)
    if found.first.finish == "length" and found.output_tokens != tokens:
        raise ProbeFailed(f"ends for its length after {found.output_tokens} tokens of {tokens}")
    if tokens == 1 and found.first.finish not in {"length", "stop"}:
        raise ProbeFailed(f"finish_reason {found.first.finish!r} after one token")


async def max_tokens_none(ask: Asker) -> None:
    """No limit given: the answer begins, and the server lives with a user who goes away."""
    body = ask.body("Count from one.")
    del body["max_tokens"]
    _began(await ask.stream(body, leave_after=_LEAVE))


async def max_tokens_large(ask: Asker) -> None:
    """As many tokens as the context leaves: accepted, and begun."""
    if ask.context is None:
        raise ProbeFailed("the server does not say how long its context is")
    probe = completion(await ask.chat("Count from one.", max_tokens=1))
    most = ask.context - probe.prompt_tokens
    _began(await ask.stream(ask.body("Count from one.", max_tokens=most), leave_after=_LEAVE))


def _began(reply: Reply) -> None:
    if reply.answer is None:
        raise ProbeFailed(reply.words)
    if reply.answer.failure is not None:
        raise ProbeFailed(reply.answer.failure[1])
    if not reply.answer.times:
        raise ProbeFailed("the stream ended without a token")


async def stop(ask: Asker) -> None:
    """A stop word ends the answer, and is not in it."""
    whole = completion(await ask.chat("Count from one.", max_tokens=8)).first.text
    word = whole[len(whole) // 2 :][:2]
    if not word.strip():
        word = "e"
    found = completion(await ask.chat("Count from one.", max_tokens=8, stop=[word]), most=8)
    if word in found.first.text:
        raise ProbeFailed(f"the answer {found.first.text!r} holds the stop word {word!r}")
    if found.first.finish not in {"stop", "length"}:
        raise ProbeFailed(f"finish_reason {found.first.finish!r} at a stop word")
