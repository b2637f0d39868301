"""Server-sent events, parsed exactly, on bytes, however the stream is cut into reads."""

from __future__ import annotations

_BOM = b"\xef\xbb\xbf"
MAX_EVENT_BYTES = 64 * 2**20
"""An event that grows past this is taken for garbage, not for data."""


class EventTooLarge(ValueError):
    """Raised when an event has not ended after :data:`MAX_EVENT_BYTES`."""


class SseParser:
    """Turns the body of an event stream into the data of its events.

    Follows the parsing rules of the HTML standard (server-sent events): lines end in LF, CRLF or
    CR; one leading byte order mark is dropped; lines that start with a colon are comments; several
    data lines of one event are joined by LF; an event without data, and one that the end of the
    stream cuts off, is not an event. Names, ids and retry times are not of interest here.
    """

    __slots__ = ("_rest", "_skip_lf", "_started")

    def __init__(self) -> None:
        self._rest = b""
        self._skip_lf = False
        self._started = False

    def feed(self, data: bytes) -> list[bytes]:
        """The data of each event that these bytes complete.

        Raises:
            EventTooLarge: When an event does not end.
        """
        if self._skip_lf and data:
            self._skip_lf = False
            data = data.removeprefix(b"\n")
        if b"\r" in data:
            self._skip_lf = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if self._rest:
            data = self._rest + data
        *events, self._rest = data.split(b"\n\n")
        if len(self._rest) > MAX_EVENT_BYTES:
            raise EventTooLarge(f"an event is larger than {MAX_EVENT_BYTES} bytes")
        found = []
        for event in events:
            if not self._started:
                self._started = True
                event = event.removeprefix(_BOM)  # noqa: PLW2901  (the mark belongs to no event)
            if event.startswith(b"data: ") and b"\n" not in event:
                found.append(event[6:])
            elif (payload := _payload(event)) is not None:
                found.append(payload)
        return found


def _payload(event: bytes) -> bytes | None:
    """The joined data lines of an event; None where it has none."""
    lines = []
    for line in event.split(b"\n"):
        if line.startswith(b"data:"):
            value = line[5:]
            lines.append(value.removeprefix(b" "))
        elif line == b"data":
            lines.append(b"")
    return b"\n".join(lines) if lines else None
