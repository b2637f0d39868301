"""What the fake server answers: words made of a hash, log-probabilities beside them, and refusals.

Equal prompts give equal answers, as a greedy model does. A kernel only rounds: it moves the
log-probabilities by thousandths. The kernel ``wrong`` answers something else.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

LETTERS = "abcdefghijklmnop"
_ROUNDING = {"native": 0.0, "loop": 0.002, "tokenwise": -0.001, "bmm": 0.003}
_FORMED = '{"city": "Paris", "metric": true}'


def _draw(*parts: object) -> int:
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "big")


class Words:
    """The words of one engine: its kernel, and what misbehaves."""

    def __init__(self, switches: set[str], after: int) -> None:
        self.after = after
        self.switches = switches
        self.impl = os.environ.get("ENGINEX_MOE_TINY_IMPL", "native")
        self.rounding = _ROUNDING.get(self.impl, 0.0)

    def tokens(
        self, prompt: bytes, count: int, body: dict[str, Any], choice: int, served: int
    ) -> list[str]:
        """The tokens of one choice, the stop words not yet looked at."""
        if self.formed(body):
            return list(self.form(body)[:count])
        if "garbage-in-load" in self.switches and served > self.after:
            return ["!"] * count
        drawn: tuple[object, ...] = (prompt,)
        if body.get("temperature", 1):
            seed = served if "ignores-seed" in self.switches else body.get("seed", served)
            drawn = (prompt, seed, choice)
        if self.impl == "wrong" or ("wears-out" in self.switches and served > self.after):
            drawn = (*drawn, "wrong")
        return [LETTERS[_draw(*drawn, place) % len(LETTERS)] for place in range(count)]

    def formed(self, body: dict[str, Any]) -> bool:
        """Whether the answer has a form."""
        return bool(body.get("response_format")) or isinstance(body.get("tool_choice"), dict)

    def form(self, body: dict[str, Any]) -> str:
        """The formed answer, or what stands in its place."""
        spoilt = "bad-arguments" if body.get("tool_choice") else "prose-for-json"
        return "No weather." if spoilt in self.switches else _FORMED

    def logprobs(self, prompt: bytes, tokens: list[str]) -> dict[str, Any]:
        """The log-probabilities of an answer as the protocol has them."""
        content = []
        for place, token in enumerate(tokens):
            value = -1.0 - (_draw(prompt, token, place) % 1000) / 1000 + self.rounding
            if "nan-logprobs" in self.switches:
                value = float("nan")
            others = [letter for letter in LETTERS[:7] if letter != token]
            likely = [(token, value), *((one, value - 0.5) for one in others)]
            content.append(
                {
                    "token": token,
                    "logprob": value,
                    "top_logprobs": [{"token": t, "logprob": v} for t, v in likely],
                }
            )
        return {"content": content}


def counted(body: dict[str, Any], left: int, switches: set[str]) -> int:
    """How many tokens are made."""
    asked = int(body.get("max_completion_tokens") or body.get("max_tokens") or left)
    return asked + 3 if "ignores-limit" in switches else asked


def cut(
    tokens: list[str], body: dict[str, Any], count: int, switches: set[str]
) -> tuple[list[str], str]:
    """The tokens up to a stop word, and why they end."""
    if "ignores-stop" in switches:
        return tokens, "length"
    text = "".join(tokens)
    given = body.get("stop") or []
    words = [given] if isinstance(given, str) else given
    found = [at for word in words if (at := text.find(word)) >= 0]
    if found:
        return tokens[: min(found)], "stop"
    return tokens, "length" if len(tokens) == count else "stop"


def refusal(body: Any, longest: int, switches: set[str]) -> str | None:
    """Why a request is refused; None where it is not."""
    if not isinstance(body, dict) or ("messages" not in body and "prompt" not in body):
        return "1 validation error: {'type': 'missing', 'loc': ('body', 'messages')}"
    if "messages" in body and (why := _messages(body["messages"], switches)) is not None:
        return why
    if body.get("model", "llm") != "llm":
        return f"The model `{body['model']}` does not exist."
    if "no-newer-name" in switches and "max_completion_tokens" in body:
        return "[{'type': 'extra_forbidden', 'loc': ('body', 'max_completion_tokens')}]"
    return _numbers(body, 128 if "small-answers-only" in switches else longest)


def _messages(messages: Any, switches: set[str]) -> str | None:
    if not isinstance(messages, list):
        return "messages is no list"
    if not messages:
        return "Cannot apply chat template to an empty conversation."
    if any("role" not in message for message in messages):
        return "1 validation error: {'type': 'missing', 'loc': ('body', 'messages', 0, 'role')}"
    if "one-system" in switches and any(m["role"] == "system" for m in messages[1:]):
        return "System message must be at the beginning."
    if "no-null-content" in switches and any(m.get("content") is None for m in messages):
        return "content must be a string"
    return None


def _numbers(body: dict[str, Any], longest: int) -> str | None:
    asked = body.get("max_completion_tokens") or body.get("max_tokens")
    if asked is not None and not 1 <= asked <= longest:
        return f"max_tokens must be between 1 and {longest}, got {asked}."
    if not 0 < body.get("top_p", 1) <= 1:
        return "top_p must be in (0, 1]."
    if body.get("temperature", 1) < 0:
        return "temperature must be non-negative."
    if asked is None and longest == 128:
        return "max_tokens is required."
    if len(prompt_of(body)) + (asked or 1) > max(longest, 129):
        return f"This model's maximum context length is {longest} tokens."
    return None


def prompt_of(body: dict[str, Any]) -> bytes:
    """The prompt, one byte a token."""
    if "messages" not in body:
        return str(body["prompt"]).encode()
    return "".join(f"<{m['role']}>{_text(m.get('content'))}" for m in body["messages"]).encode()


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content)


def message_of(body: dict[str, Any], text: str) -> dict[str, Any]:
    """The message that holds an answer."""
    chosen = body.get("tool_choice")
    if not isinstance(chosen, dict):
        return {"role": "assistant", "content": text}
    function = {"name": chosen["function"]["name"], "arguments": text}
    call = {"id": "call_1", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}
