"""One request, from its bytes to its record."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass

import h11

from tuner.load.answer import Answer, error_text, one_line
from tuner.load.endpoint import Endpoint
from tuner.load.motion import Motion
from tuner.load.record import ErrorClass, Record
from tuner.load.wire import Pool, WireFailed

EVENT_STREAM = "text/event-stream"
_MAX_ERROR_BODY = 64 * 1024


class Reception:
    """Takes one response in: the stream of an answer, or the body of a refusal."""

    __slots__ = ("answer", "error_body", "media_type", "sent_at", "status")

    def __init__(self) -> None:
        self.answer = Answer()
        self.sent_at: float | None = None
        self.status: int | None = None
        self.media_type = ""
        self.error_body = b""

    def sent(self, at: float) -> None:
        """Note when the request was given to the socket."""
        self.sent_at = at

    def head(self, status: int, content_type: str) -> None:
        """Note the status and the media type."""
        self.status = status
        self.media_type = content_type

    def data(self, data: bytes, at: float) -> None:
        """Take a piece of the body in."""
        if self.status == 200 and self.media_type == EVENT_STREAM:
            self.answer.feed(data, at)
        elif len(self.error_body) < _MAX_ERROR_BODY:
            self.error_body += data

    def conclude(self) -> tuple[ErrorClass, str] | None:
        """Why this is not a success, now that the response is over; None where it is one."""
        if self.status == 200 and self.media_type == EVENT_STREAM:
            return self.answer.conclude()
        said = _said(self.error_body)
        if self.status is not None and 400 <= self.status < 500:
            return ErrorClass.HTTP_4XX, said
        if self.status is not None and self.status >= 500:
            return ErrorClass.HTTP_5XX, said
        kind = self.media_type or "nothing"
        return ErrorClass.MALFORMED, f"status {self.status} with {kind} and no stream: {said}"[:300]


def _said(body: bytes) -> str:
    """What the body of a refusal says, on one line."""
    text = body.decode("utf-8", "replace")
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return one_line(text)
    if isinstance(parsed, dict):
        parsed = parsed.get("error", parsed)
    return error_text(parsed)


@dataclass(frozen=True, slots=True)
class Place:
    """Which request of a plan this is.

    Attributes:
        workload: Name of the workload.
        session: Conversation number.
        turn: Turn number within it.
        scheduled: When it is due, in seconds since the start of the load.
    """

    workload: str
    session: int
    turn: int
    scheduled: float


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of a request.

    Attributes:
        record: Its record.
        answer: The answer; None where the request failed.
    """

    record: Record
    answer: Answer | None


class Client:
    """Sends requests to one server and writes one record for each.

    Args:
        endpoint: The server.
        clock: Monotonic seconds since the start of the load.
        keep: Is given each record, once, when its request is over.
        motion: Where the signs of progress of all its requests can be read.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        clock: Callable[[], float],
        keep: Callable[[Record], None],
        motion: Motion | None = None,
    ) -> None:
        self._clock = clock
        self._keep = keep
        self._motion = Motion() if motion is None else motion
        self._pool = Pool(endpoint.host, endpoint.port, uds=endpoint.uds, clock=clock)
        host = "localhost" if endpoint.uds else endpoint.url.removeprefix("http://")
        self._target = f"{endpoint.prefix}/v1/chat/completions"
        self._headers = [
            ("host", host.partition("/")[0]),
            ("accept", EVENT_STREAM),
            ("content-type", "application/json"),
            *endpoint.headers.items(),
        ]

    def close(self) -> None:
        """Drop all connections."""
        self._pool.close()

    async def request(self, place: Place, body: bytes, timeout_s: float) -> Answered:
        """Send one request; its record, and its answer where it is a success.

        Nothing is sent twice. When the task is cancelled, the record goes to ``keep`` all the same
        and the cancellation goes on.
        """
        taken = Reception()
        whole = False
        self._motion.begin(taken.answer)
        try:
            async with asyncio.timeout(timeout_s):
                wire = await self._pool.connect()
                try:
                    await wire.exchange(self._head(len(body)), body, taken)
                finally:
                    self._pool.release(wire)
            whole = True
            failure = taken.conclude()
        except WireFailed as failed:
            failure = _wire_failure(failed, taken)
        except TimeoutError:
            failure = _unless_done(taken, ErrorClass.TIMEOUT, f"no end within {timeout_s:g} s")
        except asyncio.CancelledError:
            failure = _unless_done(taken, ErrorClass.CANCELLED, "the load was stopped")
            self._keep(self._record(place, taken, failure))
            raise
        finally:
            self._motion.end(taken.answer, whole=whole)
        record = self._record(place, taken, failure)
        self._keep(record)
        return Answered(record, None if failure else taken.answer)

    def _head(self, size: int) -> h11.Request:
        return h11.Request(
            method="POST",
            target=self._target,
            headers=[*self._headers, ("content-length", str(size))],
        )

    def _record(
        self,
        place: Place,
        taken: Reception,
        failure: tuple[ErrorClass, str] | None,
    ) -> Record:
        answer = taken.answer
        end = answer.done_at if answer.done_at is not None else self._clock()
        times = tuple(answer.times)
        error, detail = failure or (None, None)
        return Record(
            workload=place.workload,
            session=place.session,
            turn=place.turn,
            scheduled=place.scheduled,
            sent=taken.sent_at,
            first_token=times[0] if times else None,
            end=end,
            chunk_times=times,
            prompt_tokens=answer.prompt_tokens,
            cached_tokens=answer.cached_tokens,
            output_tokens=answer.output_tokens,
            reasoning_tokens=answer.reasoning_tokens,
            finish_reason=answer.finish_reason,
            error=error,
            detail=detail,
            status=taken.status,
            answer_digest=answer.digest if error is None else None,
        )


def _wire_failure(failed: WireFailed, taken: Reception) -> tuple[ErrorClass, str] | None:
    detail = one_line(str(failed))
    if not failed.connected:
        return ErrorClass.CONNECT, detail
    if failed.malformed:
        return _unless_done(taken, ErrorClass.MALFORMED, f"not HTTP: {detail}")
    return _unless_done(taken, ErrorClass.STREAM_ABORTED, detail)


def _unless_done(taken: Reception, kind: ErrorClass, detail: str) -> tuple[ErrorClass, str] | None:
    """A failure of the connection; what the stream itself said before comes first.

    Once the end mark has come, it is no matter what became of the connection.
    """
    if taken.answer.done_at is not None or taken.answer.failure is not None:
        return taken.conclude()
    return kind, detail
