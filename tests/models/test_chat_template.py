"""The tiny model's chat template, rendered with the settings that the engine uses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

TEMPLATE = Path(__file__).parents[2] / "engine" / "models" / "chat_template.jinja"


def _render(messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None) -> str:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(messages=messages, tools=tools, add_generation_prompt=True)


def test_a_conversation_is_chatml() -> None:
    assert _render(
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    ) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_system_messages_may_stand_anywhere() -> None:
    text = _render(
        [
            {"role": "user", "content": "a"},
            {"role": "system", "content": "one"},
            {"role": "system", "content": "two"},
        ]
    )
    assert text.index("user\na") < text.index("system\none") < text.index("system\ntwo")


def test_content_may_be_parts() -> None:
    parts = [{"type": "text", "text": "one "}, {"type": "image"}, {"type": "text", "text": "two"}]
    assert _render([{"role": "user", "content": parts}]) == _render(
        [{"role": "user", "content": "one two"}]
    )


@pytest.mark.parametrize("arguments", ['{"x": 1}', {"x": 1}])
def test_tools_calls_and_answers_are_shown(arguments: Any) -> None:
    tool = {"type": "function", "function": {"name": "add", "parameters": {}}}
    call = {"id": "1", "type": "function", "function": {"name": "add", "arguments": arguments}}
    text = _render(
        [
            {"role": "user", "content": "1 + 1"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": "2"},
        ],
        [tool],
    )
    assert text.startswith("<|im_start|>system\n# Tools\n")
    assert '"name": "add"' in text
    assert '<tool_call>\n{"name": "add", "arguments": {"x": 1}}\n</tool_call><|im_end|>' in text
    assert "<tool_response>\n2\n</tool_response>" in text
    assert "None" not in text


def test_a_longer_conversation_only_adds_to_a_shorter_one() -> None:
    """The prefix cache works only when an earlier turn's prompt is a prefix of the next one's."""
    first = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    answered = [*first, {"role": "assistant", "content": "answer"}]
    later = _render([*answered, {"role": "user", "content": "v"}])
    assert later.startswith(_render(first) + "answer")
