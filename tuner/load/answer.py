"""What a stream of chat completion chunks says, read as it arrives."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from tuner.load.record import ErrorClass
from tuner.load.sse import EventTooLarge, SseParser

DONE = b"[DONE]"
_BROKEN_FINISH = ("abort", "error")  # how vLLM ends a request that it gave up


@dataclass(slots=True)
class ToolCall:
    """One tool call, put together from its deltas."""

    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class Answer:
    """The answer to one request, growing with each read.

    A chunk has generated content when its delta carries text, reasoning or a part of a tool call.
    A delta with an empty text counts as well, unless it only names the role or ends the answer: it
    is a token whose text is not whole yet, as in the middle of a multi-byte character.

    Attributes:
        times: When each chunk with generated content arrived, on the clock of the reader.
        done_at: When the end mark arrived; None until it has.
        usage: The last token counts that the server gave.
        failure: What was wrong with the stream, where something was; the first finding stays.
    """

    times: list[float] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    tool_calls: dict[int, ToolCall] = field(default_factory=dict)
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None
    done_at: float | None = None
    failure: tuple[ErrorClass, str] | None = None
    _parser: SseParser = field(default_factory=SseParser)

    def feed(self, data: bytes, at: float) -> None:
        """Take in bytes of the body that were read at a time."""
        try:
            for payload in self._parser.feed(data):
                if payload == DONE:
                    self.done_at = at
                elif self.done_at is None:
                    self._chunk(json.loads(payload.decode()), at)
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as wrong:
            self._fail(ErrorClass.MALFORMED, _malformed(wrong))

    def conclude(self) -> tuple[ErrorClass, str] | None:
        """Why the answer is not a success, now that the stream is over; None where it is one."""
        if self.failure is not None:
            return self.failure
        if self.done_at is None:
            return ErrorClass.STREAM_ABORTED, "the stream ended without its end mark"
        if self.finish_reason is None:
            return ErrorClass.MALFORMED, "the stream ended without a finish reason"
        if self.finish_reason in _BROKEN_FINISH:
            return ErrorClass.STREAM_ERROR, f"the server gave up: {self.finish_reason}"
        if self.prompt_tokens is None or self.output_tokens is None:
            return ErrorClass.NO_USAGE, "the stream ended without token counts"
        return None

    @property
    def text(self) -> str:
        """The generated text, without reasoning and tool calls."""
        return "".join(self.texts)

    @property
    def prompt_tokens(self) -> int | None:
        """Tokens of the prompt, as the server counted them."""
        return _count(self.usage, "prompt_tokens")

    @property
    def output_tokens(self) -> int | None:
        """Tokens of the answer, as the server counted them."""
        return _count(self.usage, "completion_tokens")

    @property
    def cached_tokens(self) -> int | None:
        """Prompt tokens from the prefix cache; None where the server did not say."""
        return _count(_details(self.usage, "prompt_tokens_details"), "cached_tokens")

    @property
    def reasoning_tokens(self) -> int | None:
        """Tokens of the reasoning part; None where the server did not say."""
        return _count(_details(self.usage, "completion_tokens_details"), "reasoning_tokens")

    @property
    def digest(self) -> str:
        """SHA-256 of reasoning, text and tool calls, for comparing answers."""
        calls = [[call.name, call.arguments] for _, call in sorted(self.tool_calls.items())]
        whole = json.dumps(["".join(self.reasoning), self.text, calls])
        return hashlib.sha256(whole.encode()).hexdigest()

    def _fail(self, kind: ErrorClass, detail: str) -> None:
        if self.failure is None:
            self.failure = (kind, detail)

    def _chunk(self, chunk: dict[str, Any], at: float) -> None:
        if (error := chunk.get("error")) is not None:
            self._fail(ErrorClass.STREAM_ERROR, error_text(error))
            return
        if (usage := chunk.get("usage")) is not None:
            if not isinstance(usage, dict):
                raise TypeError("usage is not an object")
            self.usage = usage
        generated = False
        for choice in chunk["choices"]:
            generated |= self._choice(choice)
        if generated:
            self.times.append(at)

    def _choice(self, choice: dict[str, Any]) -> bool:
        """Take in one choice of a chunk; whether it carries generated content."""
        delta = choice["delta"]
        finish = choice.get("finish_reason")
        first = choice.get("index", 0) == 0
        if finish is not None and first:
            self.finish_reason = _text(finish)
        content = _text(delta.get("content"))
        reasoning = _text(delta.get("reasoning") or delta.get("reasoning_content"))
        calls = delta.get("tool_calls")
        if first:
            self.texts.append(content)
            self.reasoning.append(reasoning)
            self._calls(calls or [])
        if content or reasoning or calls:
            return True
        return delta.get("content") == "" and finish is None and "role" not in delta

    def _calls(self, deltas: list[dict[str, Any]]) -> None:
        for delta in deltas:
            call = self.tool_calls.setdefault(int(delta.get("index", 0)), ToolCall())
            function = delta.get("function") or {}
            call.id = call.id or _text(delta.get("id"))
            call.name += _text(function.get("name"))
            call.arguments += _text(function.get("arguments"))


def error_text(error: Any) -> str:
    """What an error object of the API says, on one line of at most 300 characters."""
    if isinstance(error, dict):
        error = error.get("message") or json.dumps(error)
    return one_line(str(error))


def one_line(text: str, limit: int = 300) -> str:
    """A text from outside made fit to store: one line, nothing but printable characters, cut."""
    flat = "".join(char if char.isprintable() else " " for char in text[: 4 * limit])
    return " ".join(flat.split())[:limit]


def _malformed(wrong: Exception) -> str:
    if isinstance(wrong, EventTooLarge):
        return str(wrong)
    return one_line(f"a chunk is not what the protocol says: {type(wrong).__name__}: {wrong}")


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} where text belongs")
    return value


def _details(usage: dict[str, Any] | None, key: str) -> dict[str, Any] | None:
    found = usage.get(key) if usage else None
    return found if isinstance(found, dict) else None


def _count(usage: dict[str, Any] | None, key: str) -> int | None:
    found = usage.get(key) if usage else None
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None
