"""HTTP/1.1 on asyncio, with each read stamped where it happens.

The chunks of 64 streams arrive by the thousand a second, and what the client spends on one of them
delays the stamp of the next. httpx hands a chunk through four layers and two task switches before
its caller can look at a clock. Here a read is stamped and put aside; once all sockets that were
ready have been read, what was put aside is parsed and given to the sinks. Requests and the heads of
responses are h11's, which httpx stands on too; chunked bodies are decoded in one step
(:mod:`tuner.load.chunked`). ``benchmarks/load_client`` measures the difference. Nothing is ever
sent twice: a connection that fails ends its request, and the request is a failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import h11

from tuner.load.chunked import BadChunk, ChunkedBody

IDLE_LIMIT_S = 2.0
"""An idle connection older than this is not used again: the server may be closing it just then
(uvicorn does so after 5 s), and a request lost that way would be held against the engine."""
_READ_BYTES = 256 * 1024
_MAX_HEAD_BYTES = 64 * 1024


class WireFailed(Exception):
    """Raised when a response did not come to its end.

    Attributes:
        connected: Whether a connection stood.
        malformed: Whether the bytes were no HTTP.
    """

    def __init__(self, detail: str, *, connected: bool, malformed: bool = False) -> None:
        self.connected = connected
        self.malformed = malformed
        super().__init__(detail)


class Sink(Protocol):
    """Takes an exchange in, piece by piece."""

    def sent(self, at: float) -> None:
        """The first byte of the request is being given to the socket."""

    def head(self, status: int, content_type: str) -> None:
        """The status and the media type have arrived."""

    def data(self, data: bytes, at: float) -> None:
        """A piece of the body has arrived, read at a time."""


class Reads:
    """What was read and not parsed yet, over all connections of a loop.

    An engine emits the tokens of all streams in one step, so reads come in bursts. To parse the
    first before the second is stamped would make the second late.

    Args:
        clock: Monotonic seconds; stamps the reads.

    Attributes:
        buffer: What all sockets are read into, one after another. A new buffer for each read, as
            asyncio's plain protocols have, costs more than the parsing.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.buffer = memoryview(bytearray(_READ_BYTES))
        self._waiting: list[tuple[Wire, bytes, float]] = []

    def add(self, wire: Wire, size: int) -> None:
        """Stamp a read and put it aside until the sockets that are ready now have been read."""
        at = self.clock()
        self._waiting.append((wire, bytes(self.buffer[:size]), at))
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Parse what was put aside."""
        waiting, self._waiting = self._waiting, []
        for wire, data, at in waiting:
            wire.parse(data, at)


class Wire(asyncio.BufferedProtocol):
    """One connection: one exchange at a time, kept open between them."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._http = _new_http()
        self._chunked: ChunkedBody | None = None
        self._sink: Sink | None = None
        self._over: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None
        self.idle_since = 0.0

    @property
    def reusable(self) -> bool:
        """Whether another exchange may be made on this connection."""
        open_ = self._transport is not None and not self._transport.is_closing()
        return open_ and self._http.our_state is h11.IDLE

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport (asyncio calls this)."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  (what create_connection gives)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  (asyncio's signature)
        """Where to read to (asyncio calls this)."""
        return self._reads.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Stamp a read and put it aside (asyncio calls this)."""
        self._reads.add(self, nbytes)

    def parse(self, data: bytes, at: float) -> None:
        """Parse what was read at a time and hand it on."""
        if self._sink is None:
            self.abort()  # bytes that nobody asked for: this connection is out of step
            return
        try:
            if self._chunked is not None:
                self._decode(self._chunked, self._sink, data, at)
            else:
                self._http.receive_data(data)
                self._drain(self._sink, at)
        except (h11.RemoteProtocolError, BadChunk) as wrong:
            self._fail(WireFailed(str(wrong), connected=True, malformed=True))

    def connection_lost(self, exc: Exception | None) -> None:
        """End the exchange under way (asyncio calls this)."""
        self._reads.flush()
        if self._sink is None:
            return
        if self._chunked is None:
            try:
                self._http.receive_data(b"")  # a body may be one that ends with its connection
                self._drain(self._sink, self._reads.clock())
            except h11.RemoteProtocolError:
                pass  # the response was not complete, as the line below says
        why = f"connection lost: {exc}" if exc else "the server closed the connection"
        self._fail(WireFailed(why, connected=True))

    async def exchange(self, head: h11.Request, body: bytes, sink: Sink) -> None:
        """Send a request and take its whole response in.

        Raises:
            WireFailed: When the response did not come to its end.
        """
        if self._transport is None or not self.reusable:
            raise WireFailed("the server closed the connection", connected=True)
        self._sink = sink
        self._over = asyncio.get_running_loop().create_future()
        request = (self._http.send(head) or b"") + (self._http.send(h11.Data(data=body)) or b"")
        self._http.send(h11.EndOfMessage())
        sink.sent(self._reads.clock())
        self._transport.write(request)
        try:
            await self._over
        finally:
            self._sink = self._over = None
        self._renew()

    def _renew(self) -> None:
        """Make the connection ready for another exchange, or drop it where the server will."""
        if self._chunked is not None:
            kept, self._chunked = self._http.their_state is h11.SEND_BODY, None
        else:
            kept = self._http.their_state is h11.DONE
        if kept and self._http.our_state is h11.DONE:
            self._http = _new_http()
        else:
            self.abort()

    def abort(self) -> None:
        """Drop the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def _drain(self, sink: Sink, at: float) -> None:
        """Hand on what h11 has: the head of a response, and a body that is not chunked."""
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Data):
                sink.data(bytes(event.data), at)
            elif event is h11.NEED_DATA or event is h11.PAUSED:
                return
            elif isinstance(event, h11.Response):
                headers = dict(event.headers)
                sink.head(event.status_code, _media_type(headers))
                if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
                    self._chunked = ChunkedBody()
                    self._decode(self._chunked, sink, self._http.trailing_data[0], at)
                    return
            elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                self._finish()
                return

    def _decode(self, body: ChunkedBody, sink: Sink, data: bytes, at: float) -> None:
        for piece in body.feed(data):
            sink.data(piece, at)
        if body.done:
            self._finish()

    def _finish(self) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    def _fail(self, failure: WireFailed) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_exception(failure)
        self.abort()


def _new_http() -> h11.Connection:
    return h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)


def _media_type(headers: dict[bytes, bytes]) -> str:
    kind = headers.get(b"content-type", b"").decode("latin-1")
    return kind.partition(";")[0].strip().lower()


class Pool:
    """Connections to one address, as many as there are exchanges at a time.

    Args:
        host: Address to connect to; not used where ``uds`` is set.
        port: Its port.
        uds: Unix socket to connect to.
        clock: Monotonic seconds; stamps the reads.
    """

    def __init__(
        self, host: str, port: int, *, uds: Path | None, clock: Callable[[], float]
    ) -> None:
        self._host = host
        self._port = port
        self._uds = uds
        self._reads = Reads(clock)
        self._idle: list[Wire] = []

    async def connect(self) -> Wire:
        """A connection that no exchange is using.

        Raises:
            WireFailed: When none can be made.
        """
        loop = asyncio.get_running_loop()
        while self._idle:
            wire = self._idle.pop()
            if wire.reusable and loop.time() - wire.idle_since < IDLE_LIMIT_S:
                return wire
            wire.abort()
        try:
            if self._uds is not None:
                _, wire = await loop.create_unix_connection(self._new, str(self._uds))
            else:
                _, wire = await loop.create_connection(self._new, self._host, self._port)
        except OSError as wrong:
            raise WireFailed(str(wrong), connected=False) from None
        return wire

    def release(self, wire: Wire) -> None:
        """Give a connection back."""
        if wire.reusable:
            wire.idle_since = asyncio.get_running_loop().time()
            self._idle.append(wire)
        else:
            wire.abort()

    def close(self) -> None:
        """Drop all idle connections."""
        while self._idle:
            self._idle.pop().abort()

    def _new(self) -> Wire:
        return Wire(self._reads)
