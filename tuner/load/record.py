"""What the client knows of one request: one record each, whatever became of it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal

Since = Literal["sent", "scheduled"]
"""Where a latency starts: at the send, or when the request was due (open loop, lagging client)."""


class ErrorClass(enum.StrEnum):
    """Why a request is not a success. Each request that failed has exactly one."""

    CONNECT = "connect"  # no connection, or it was refused
    TIMEOUT = "timeout"  # the request's own time ran out
    HTTP_4XX = "http_4xx"  # the server refused the request
    HTTP_5XX = "http_5xx"  # the server failed
    STREAM_ERROR = "stream_error"  # an error object inside a 200 stream
    STREAM_ABORTED = "stream_aborted"  # the stream ended before its end mark
    MALFORMED = "malformed"  # the stream was not what the protocol says
    NO_USAGE = "no_usage"  # the stream ended well but said no token counts
    NOT_SENT = "not_sent"  # the load ended before this request was due
    CANCELLED = "cancelled"  # the load was stopped while it ran


@dataclass(frozen=True, slots=True)
class Record:
    """One request as the client saw it.

    All times are seconds on one monotonic clock whose zero is the start of the load. A time that
    never came is None. Token counts are the server's own (``usage``), never counted chunks.

    Attributes:
        workload: Name of the workload that the request belongs to.
        session: Conversation number within the workload.
        turn: Turn number within the conversation, from 0.
        scheduled: When the request was due.
        sent: When its first byte was given to the socket.
        first_token: When the first chunk with generated content arrived (text, reasoning or tool call).
        end: When the stream ended, well or not.
        chunk_times: Arrival of each chunk with generated content; ``chunk_times[0] == first_token``.
        prompt_tokens: Tokens of the prompt, cached ones included.
        cached_tokens: Prompt tokens that the server took from its prefix cache.
        output_tokens: Generated tokens, reasoning included.
        reasoning_tokens: Generated tokens inside the reasoning part.
        finish_reason: ``stop``, ``length``, ``tool_calls`` …, as the server said it.
        error: None for a success.
        detail: What the server or the transport said of the failure, cut to a line.
        status: HTTP status, where one came.
        answer_digest: SHA-256 of the generated text, for comparing answers.
    """

    workload: str
    session: int
    turn: int
    scheduled: float
    sent: float | None
    first_token: float | None
    end: float | None
    chunk_times: tuple[float, ...] = ()
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    finish_reason: str | None = None
    error: ErrorClass | None = None
    detail: str | None = None
    status: int | None = None
    answer_digest: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the request was a success: it ended well and said its token counts."""
        return self.error is None
