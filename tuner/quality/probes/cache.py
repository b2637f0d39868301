"""The probe of the prefix cache: a prompt that comes again must come from it."""

from __future__ import annotations

from tuner.quality.asking import Asker, ProbeFailed
from tuner.quality.checks import completion

_TIMES = 3
"""Some engines keep the states of a prompt only when it has come twice."""


async def cache(ask: Asker) -> None:
    """A prompt that was sent before reports cached tokens."""
    said: list[int | None] = []
    for _ in range(_TIMES):
        found = completion(await ask.chat(f"{ask.long_text}\nGo on.", max_tokens=1))
        said.append(found.cached_tokens)
        if said[-1]:
            return
    if all(count is None for count in said):
        raise ProbeFailed(
            "no answer says how many tokens were cached (--enable-prompt-tokens-details)"
        )
    raise ProbeFailed(f"{_TIMES} times the same prompt, and no token of it came from the cache")
