"""Tool schemas: functions with arguments as an agent's client offers them."""

from __future__ import annotations

import json
import random

from tuner.load.plan import Tool
from tuner.load.text import between, pick

_VERBS = ("read", "write", "list", "find", "open", "send", "make", "drop", "move", "sort")
_THINGS = ("file", "mail", "page", "note", "task", "team", "bill", "shop", "road", "game")
_ARGUMENTS = ("path", "name", "query", "limit", "offset", "format", "since", "until", "filter")
_KINDS = ("string", "integer", "boolean", "number")


def tool_schema(rng: random.Random, count: int) -> tuple[Tool, ...]:
    """So many different functions, each with two to five described arguments."""
    tools = []
    for number in range(count):
        verb, thing = _VERBS[number % 10], _THINGS[number // 10 % 10]
        name = f"{verb}_{thing}" if number < 100 else f"{verb}_{thing}_{number // 100}"
        tools.append(Tool(name, f"{verb.title()} a {thing} for the user.", _parameters(rng)))
    return tuple(tools)


def _parameters(rng: random.Random) -> str:
    names = sorted({pick(rng, _ARGUMENTS) for _ in range(between(rng, 2, 5))})
    properties = {
        name: {"type": pick(rng, _KINDS), "description": f"The {name} to use for this call."}
        for name in names
    }
    return json.dumps({"type": "object", "properties": properties, "required": names[:1]})


def tools_text(tools: tuple[Tool, ...]) -> str:
    """The tools as a chat template would write them, for servers whose template leaves them out."""
    lines = [
        f'{{"type": "function", "function": {{"name": {json.dumps(tool.name)}, '
        f'"description": {json.dumps(tool.description)}, "parameters": {tool.parameters}}}}}'
        for tool in tools
    ]
    return "\n".join(["# Tools", *lines]) + "\n"
