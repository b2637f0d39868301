"""Bodies in the chunked coding of HTTP/1.1 (RFC 9112, section 7.1), decoded as they arrive."""

from __future__ import annotations

import re

_SIZE = re.compile(rb"([0-9a-fA-F]{1,16})[ \t]*(?:;[^\r\n]*)?")
_TRAILER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\x00\r\n]*")
_MAX_LINE = 16 * 1024


class BadChunk(ValueError):
    """Raised when a body is not in the chunked coding."""


class ChunkedBody:
    """Takes the coding off a body. What a chunk holds is given out as it comes, not when it is whole.

    h11 does the same, and takes more time for it than all else that the client does for a token;
    ``tests/load/test_chunked.py`` holds the two against each other.
    """

    __slots__ = ("_left", "_rest", "_trailers", "done")

    def __init__(self) -> None:
        self._rest = b""
        self._left = 0  # bytes that the chunk under way still has, its line end included
        self._trailers = False
        self.done = False

    def feed(self, data: bytes) -> list[bytes]:
        """The decoded pieces of these bytes.

        Raises:
            BadChunk: When they break the coding, or go on after its end.
        """
        data = self._rest + data
        at, end = 0, len(data)
        pieces = []
        while at < end and not self.done:
            if self._left:
                stop = min(at + self._left, end)
                if piece := self._inside(data, at, stop):
                    pieces.append(piece)
                at = stop
                continue
            line_end = data.find(b"\r\n", at)
            if line_end < 0:
                break
            self._line(data[at:line_end])
            at = line_end + 2
        self._rest = data[at:]
        if self._rest and self.done:
            raise BadChunk("bytes after the end of the body")
        if len(self._rest) > _MAX_LINE:
            raise BadChunk("a line without end between two chunks")
        return pieces

    def _inside(self, data: bytes, at: int, stop: int) -> bytes:
        """The part of a chunk that these bytes hold; the line end after it is checked, not given."""
        left = self._left
        self._left = left - (stop - at)
        ends_at = at + left - 2  # where the chunk's line end begins
        if stop > ends_at:
            begin = max(at, ends_at)
            if data[begin:stop] != b"\r\n"[begin - ends_at : stop - ends_at]:
                raise BadChunk("a chunk is longer than it says")
        return data[at : min(stop, ends_at)] if ends_at > at else b""

    def _line(self, line: bytes) -> None:
        """Take in a line that stands between chunks."""
        if self._trailers:
            if line and not _TRAILER.fullmatch(line):
                raise BadChunk(f"no trailer field: {line[:40]!r}")
            self.done = not line
            return
        found = _SIZE.fullmatch(line)
        if found is None:
            raise BadChunk(f"no size of a chunk: {line[:40]!r}")
        size = int(found[1], 16)
        if size:
            self._left = size + 2
        else:
            self._trailers = True
