"""Probes of answers with a form: JSON, and calls of functions."""

from __future__ import annotations

import json
from typing import Any

from tuner.quality.asking import Asker, ProbeFailed
from tuner.quality.checks import Choice, completion, structured

_CITIES = ["Paris", "Rome"]
_ARGUMENTS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "enum": _CITIES},
        "metric": {"type": "boolean"},
    },
    "required": ["city", "metric"],
    "additionalProperties": False,
}
_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": _ARGUMENTS,
    },
}
_ASKED = "What is the weather in Paris, in metric units?"


async def json_object(ask: Asker) -> None:
    """An answer that is a JSON object."""
    found = completion(
        await ask.chat(
            "Answer with a JSON object.", max_tokens=16, response_format={"type": "json_object"}
        ),
        most=16,
    )
    value = structured(found.first)
    if value is not None and not isinstance(value, dict):
        raise ProbeFailed(f"the answer is JSON and no object: {found.first.text[:80]!r}")


async def json_schema(ask: Asker) -> None:
    """An answer that fits a JSON Schema."""
    form = {"name": "place", "schema": _ARGUMENTS, "strict": True}
    found = completion(
        await ask.chat(
            _ASKED,
            max_tokens=24,
            response_format={"type": "json_schema", "json_schema": form},
        ),
        most=24,
    )
    value = structured(found.first)
    if value is not None:
        _fits(value)


def _fits(value: Any) -> None:
    fits = (
        isinstance(value, dict)
        and set(value) == {"city", "metric"}
        and value["city"] in _CITIES
        and isinstance(value["metric"], bool)
    )
    if not fits:
        raise ProbeFailed(f"the JSON does not fit its schema: {json.dumps(value)[:120]}")


async def tool_choice(ask: Asker) -> None:
    """A function that must be called: the call names it, and its arguments parse."""
    chosen = {"type": "function", "function": {"name": "get_weather"}}
    reply = await ask.chat(_ASKED, max_tokens=64, tools=[_TOOL], tool_choice=chosen)
    _called(completion(reply).first, cut_allowed=True)


async def tool_call(ask: Asker) -> None:
    """A model that is free to call a function and has every reason to."""
    reply = await ask.chat(_ASKED, max_tokens=1024, tools=[_TOOL], tool_choice="auto")
    _called(completion(reply).first, cut_allowed=False)


def _called(choice: Choice, *, cut_allowed: bool) -> None:
    calls = choice.message.get("tool_calls") or []
    if not calls:
        raise ProbeFailed(f"no tool call, but {choice.text[:80]!r}")
    function = calls[0].get("function") or {}
    if function.get("name") != "get_weather":
        raise ProbeFailed(f"the call names {function.get('name')!r}")
    try:
        _fits(json.loads(function.get("arguments") or ""))
    except ValueError:
        if not (cut_allowed and choice.finish == "length"):
            said = str(function.get("arguments"))[:80]
            raise ProbeFailed(f"the arguments are no JSON: {said!r}") from None
