"""Asking a server one thing, and what it said: for probes, where content counts and time does not."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from tuner.load.answer import Answer, error_text, one_line
from tuner.load.endpoint import Endpoint

NO_ANSWER = "no answer"


class ProbeFailed(Exception):
    """Raised when a server did not do what a probe asks of it; the message says what instead."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One response, as far as it came.

    Attributes:
        status: HTTP status; None where no response came.
        body: The JSON of the body; None where it is none.
        said: What the server or the transport said of a failure, on one line.
        answer: What a stream said.
        seconds: From the send to the end.
    """

    status: int | None
    body: Any = None
    said: str = ""
    answer: Answer | None = None
    seconds: float = 0.0

    @property
    def words(self) -> str:
        """The status and what was said, for people."""
        what = NO_ANSWER if self.status is None else f"status {self.status}"
        return f"{what}: {self.said}" if self.said else what


@dataclass(slots=True)
class Asker:
    """Asks a server.

    Attributes:
        endpoint: The server.
        timeout: Seconds that one request may take.
        context: The longest sequence that the server takes, in tokens; None where it did not say.
        long_text: A text of many tokens, so many that caches keep blocks of it.
        on_reply: Called at each sign of life.
    """

    endpoint: Endpoint
    timeout: float = 60.0
    context: int | None = None
    long_text: str = ""
    on_reply: Callable[[], None] = lambda: None
    _http: httpx.AsyncClient = field(init=False)

    def __post_init__(self) -> None:
        uds = None if self.endpoint.uds is None else str(self.endpoint.uds)
        self._http = httpx.AsyncClient(
            base_url=self.endpoint.url,
            headers=self.endpoint.headers,
            transport=httpx.AsyncHTTPTransport(uds=uds, limits=httpx.Limits(max_connections=64)),
            timeout=httpx.Timeout(self.timeout, pool=None),
            trust_env=False,
        )

    async def close(self) -> None:
        """Drop all connections."""
        await self._http.aclose()

    async def chat(self, content: str | list[dict[str, Any]], **fields: Any) -> Reply:
        """A chat completion; ``content`` is the user's message, or all messages."""
        return await self.post(self.body(content, **fields))

    def body(self, content: str | list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
        """The body of a greedy chat request; a field that is given wins."""
        messages = [{"role": "user", "content": content}] if isinstance(content, str) else content
        greedy: dict[str, Any] = {"temperature": 0, "max_tokens": 4}
        return {"model": self.endpoint.model, "messages": messages, **greedy, **fields}

    async def post(self, body: dict[str, Any] | bytes) -> Reply:
        """Send a body, well formed or not, and take the whole response in."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        began = time.monotonic()
        try:
            found = await self._http.post(_CHAT, content=raw, headers=_JSON)
        except httpx.HTTPError as wrong:
            return Reply(None, said=_wrong(wrong), seconds=time.monotonic() - began)
        self.on_reply()
        return _reply(found, time.monotonic() - began)

    async def stream(self, body: dict[str, Any], *, leave_after: int | None = None) -> Reply:
        """Send a streamed request; go away after so many chunks, as users do."""
        fields = {"stream": True, "stream_options": {"include_usage": True}, **body}
        raw = json.dumps(fields).encode()
        began = time.monotonic()
        answer = Answer()
        try:
            async with self._http.stream("POST", _CHAT, content=raw, headers=_JSON) as found:
                if found.status_code != httpx.codes.OK:
                    await found.aread()
                    return _reply(found, time.monotonic() - began)
                async for piece in found.aiter_bytes():
                    answer.feed(piece, time.monotonic() - began)
                    self.on_reply()
                    if leave_after is not None and len(answer.times) >= leave_after:
                        break
        except httpx.HTTPError as wrong:
            return Reply(None, said=_wrong(wrong), seconds=time.monotonic() - began)
        return Reply(200, answer=answer, seconds=time.monotonic() - began)

    async def count(self, text: str) -> int:
        """Tokens of a text, by the server's own tokenizer.

        Raises:
            ProbeFailed: When the server does not say.
        """
        asked = {"model": self.endpoint.model, "prompt": text, "add_special_tokens": False}
        try:
            found = (await self._http.post("/tokenize", json=asked)).json()["count"]
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as wrong:
            raise ProbeFailed(f"/tokenize does not answer: {one_line(str(wrong))}") from None
        return int(found)


def context_of(endpoint: Endpoint) -> int | None:
    """The longest sequence that a server takes, by its own list of models; None where it is silent."""
    uds = None if endpoint.uds is None else str(endpoint.uds)
    transport = httpx.HTTPTransport(uds=uds)
    with httpx.Client(base_url=endpoint.url, headers=endpoint.headers, transport=transport) as http:
        try:
            models = http.get("/v1/models", timeout=30.0).json()["data"]
            lengths = [model.get("max_model_len") for model in models]
        except (httpx.HTTPError, ValueError, KeyError, TypeError, AttributeError):
            return None
    return next((length for length in lengths if isinstance(length, int)), None)


_CHAT = "/v1/chat/completions"
_JSON = {"content-type": "application/json"}


def _reply(found: httpx.Response, seconds: float) -> Reply:
    try:
        body = found.json()
    except (ValueError, RecursionError):
        return Reply(found.status_code, said=one_line(found.text), seconds=seconds)
    said = ""
    if found.status_code != httpx.codes.OK:
        said = error_text(body.get("error", body) if isinstance(body, dict) else body)
    return Reply(found.status_code, body, said, seconds=seconds)


def _wrong(wrong: httpx.HTTPError) -> str:
    if isinstance(wrong, httpx.TimeoutException):
        return "it did not come in time"
    return one_line(str(wrong)) or type(wrong).__name__
