"""Probes of conversations: who may speak, in which order, in which script."""

from __future__ import annotations

import json
from typing import Any

from tuner.quality.asking import Asker, ProbeFailed
from tuner.quality.checks import completion

_USER = {"role": "user", "content": "Say one word."}


async def chat(ask: Asker) -> None:
    """A plain chat is answered, with a finish reason and token counts that add up."""
    found = completion(await ask.chat("Say hello.", max_tokens=8), most=8)
    if found.first.finish == "length" and found.output_tokens != 8:
        raise ProbeFailed(f"cut off for its length after {found.output_tokens} tokens of 8")


async def system(ask: Asker) -> None:
    """A system message may come first."""
    completion(await ask.chat([{"role": "system", "content": "Be brief."}, _USER]), most=4)


async def multi_system(ask: Asker) -> None:
    """More than one system message, also in the middle of a conversation."""
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "system", "content": "Be kind."},
        _USER,
        {"role": "assistant", "content": "Yes."},
        {"role": "system", "content": "Be exact."},
        _USER,
    ]
    completion(await ask.chat(messages), most=4)


async def multi_turn(ask: Asker) -> None:
    """A conversation with earlier answers in it, and with content in parts."""
    messages: list[dict[str, Any]] = [
        _USER,
        {"role": "assistant", "content": "Blue."},
        {"role": "user", "content": [{"type": "text", "text": "Another one."}]},
    ]
    completion(await ask.chat(messages), most=4)


async def languages(ask: Asker) -> None:
    """Scripts of several languages, right to left too, and signs outside the basic plane."""
    text = "请用中文回答。日本語で。한국어로. بالعربية. По-русски. 👩🏽🦜 𐍈"
    completion(await ask.chat(text, max_tokens=8), most=8)


async def tool_messages(ask: Asker) -> None:
    """A history with a tool call, without content, and the tool's answer."""
    call = {"name": "get_time", "arguments": json.dumps({"zone": "UTC"})}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "What time is it?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "12:00"},
    ]
    completion(await ask.chat(messages), most=4)


async def reasoning(ask: Asker) -> None:
    """A model that thinks: its reasoning stands apart from the answer, and there is an answer."""
    found = completion(
        await ask.chat(
            "What is 2 + 3?",
            max_tokens=1024,
            chat_template_kwargs={"enable_thinking": True},
        )
    )
    message = found.first.message
    thought = message.get("reasoning") or message.get("reasoning_content") or ""
    if not thought:
        raise ProbeFailed("no reasoning beside the answer: the server needs a reasoning parser")
    if found.first.finish == "stop" and not found.first.text.strip():
        raise ProbeFailed("reasoning and no answer")
    if "<think>" in found.first.text or "</think>" in found.first.text:
        raise ProbeFailed("marks of the reasoning are in the answer")
