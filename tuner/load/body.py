"""Requests as bytes. Each message is encoded once and used again in every later turn."""

from __future__ import annotations

import json
from dataclasses import replace

from tuner.load.answer import Answer
from tuner.load.plan import Message, Session, Turn
from tuner.load.salt import salted_tool

NO_ANSWER = Message("assistant", "(no answer)")
"""Stands in a conversation where the server gave no answer, so that the roles still alternate."""
TOOL_RESULT = "ok"
"""What a tool call of the model's gets for a result where the plan says nothing else."""


def encode_message(message: Message) -> bytes:
    """The JSON of a message."""
    role = json.dumps(message.role)
    content = message.content if message.parts else json.dumps(message.content)
    extra = f", {message.extra.strip()[1:-1]}" if message.extra and message.extra != "{}" else ""
    return f'{{"role": {role}, "content": {content}{extra}}}'.encode()


def salted_message(message: Message, salt: str) -> Message:
    """The first message of a conversation with the salt at its very front."""
    if not message.parts:
        return replace(message, content=salt + message.content)
    parts = [{"type": "text", "text": salt}, *json.loads(message.content)]
    return replace(message, content=json.dumps(parts))


def encode_answer(answer: Answer) -> list[bytes]:
    """The messages that put the server's answer into its conversation.

    An answer with tool calls keeps an empty text (some servers refuse null) and each call gets a
    result, since chat templates ask for one.
    """
    if not answer.tool_calls:
        return [encode_message(Message("assistant", answer.text))]
    calls = [
        {
            "id": call.id or f"call_{index}",
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for index, call in sorted(answer.tool_calls.items())
    ]
    asked = Message("assistant", answer.text, extra=json.dumps({"tool_calls": calls}))
    results = [
        Message("tool", TOOL_RESULT, extra=json.dumps({"tool_call_id": call["id"]}))
        for call in calls
    ]
    return [encode_message(one) for one in (asked, *results)]


class Conversation:
    """The request bodies of one session, turn by turn.

    Args:
        session: What the plan says.
        model: The model's name in requests.
        salt: Goes in front of the first message and of the first tool; empty for none.
    """

    def __init__(self, session: Session, *, model: str, salt: str) -> None:
        self._salt = salt
        self._messages: list[bytes] = []
        self._head = f'{{"model": {json.dumps(model)}, "messages": ['.encode()
        self._tools = _encode_tools(session, salt)

    def body(self, turn: Turn) -> bytes:
        """Append the turn's messages; the request that asks for its answer."""
        for message in turn.messages:
            first = not self._messages
            one = salted_message(message, self._salt) if first and self._salt else message
            self._messages.append(encode_message(one))
        fields = {"stream": True, "stream_options": {"include_usage": True}}
        if turn.max_tokens is not None:
            fields["max_tokens"] = turn.max_tokens
        fields |= json.loads(turn.sampling)
        tail = json.dumps(fields)[1:].encode()
        return b"".join((self._head, b", ".join(self._messages), b"], ", self._tools, tail))

    def answered(self, answer: Answer | None) -> None:
        """Put the server's answer, or its stand-in where there was none, into the conversation."""
        self._messages += encode_answer(answer) if answer else [encode_message(NO_ANSWER)]


def _encode_tools(session: Session, salt: str) -> bytes:
    if not session.tools:
        return b""
    first, *rest = session.tools
    tools = [salted_tool(first, salt, session.tool_choice) if salt else first, *rest]
    functions = ", ".join(
        f'{{"type": "function", "function": {{"name": {json.dumps(tool.name)}, '
        f'"description": {json.dumps(tool.description)}, "parameters": {tool.parameters}}}}}'
        for tool in tools
    )
    named = session.tool_choice.startswith("{")
    choice = session.tool_choice if named else json.dumps(session.tool_choice)
    return f'"tools": [{functions}], "tool_choice": {choice}, '.encode()
