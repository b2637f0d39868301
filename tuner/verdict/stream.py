"""From the bytes of a log to the lines worth reading, in one pass with bounded memory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

CHUNK = 4 * 2**20
_BATCH = 1_000
_TAIL_BYTES = 64 * 2**10
_LOOK_BACK = 2_000
_LOOKS = 500
"""How often the lines before a trigger are read too."""
_BORING = 200
"""Records of one source line without a hit, after which that source line is read no more."""
_RECORD = re.compile(rb"(?:INFO|WARNING|ERROR|DEBUG) [\d :.-]+\[?([\w./]+:\d+)\]")
_STORM_HEAD = b"Exception in ASGI application"
_STORM_BODY = re.compile(
    rb"(?:(?:\(\w+ pid=\d+\) )?(?:[ \t|+][^\n]*|Traceback [^\n]*|During [^\n]*|The above [^\n]*)?\n)+"
)


def chunks(source: Path | Iterable[str | bytes]) -> Iterator[bytes]:
    """The bytes of a file, or of lines.

    Raises:
        OSError: When the file cannot be read.
    """
    if not isinstance(source, Path):
        yield from _joined(source)
        return
    with source.open("rb") as file:
        head = file.read(2)
        if head not in (b"\xff\xfe", b"\xfe\xff"):
            yield head
            while chunk := file.read(CHUNK):
                yield chunk
            return
    # UTF-16 with its mark is what a Windows shell writes with ``>``.
    with source.open(encoding="utf-16", errors="replace", newline="") as text:
        while part := text.read(CHUNK):
            yield part.encode(errors="replace")


def _joined(lines: Iterable[str | bytes]) -> Iterator[bytes]:
    batch: list[bytes] = []
    for line in lines:
        raw = line.encode(errors="replace") if isinstance(line, str) else line
        batch.append(raw if raw.endswith(b"\n") else raw + b"\n")
        if len(batch) == _BATCH:
            yield b"".join(batch)
            batch.clear()
    yield b"".join(batch)


class Gate:
    """Gives out the lines worth reading.

    While lines are watched, or a traceback is open, every line is given. Otherwise only those with a
    trigger are, without those source lines that have written very often and never said anything.

    Args:
        triggers: What makes a line worth reading.
        open_message: Whether a message has begun that must be read to its end.
        watch: How many lines are watched at the start.
    """

    def __init__(
        self, triggers: re.Pattern[bytes], open_message: Callable[[], bool], watch: int
    ) -> None:
        self._triggers = triggers
        self._open = open_message
        self._watch = watch
        self._rest = b""
        self._tail = b""
        self._read_to = 0
        self._storm = 0
        self._looks = _LOOKS
        self._seen: Counter[bytes] = Counter()
        self._telling: set[bytes] = set()
        self.number = 0
        self.size = 0

    def watch(self, lines: int, *, only_more: bool = False) -> None:
        """Give out the next lines whatever is in them."""
        self._watch = max(self._watch, lines) if only_more else lines

    def telling(self, source: str) -> None:
        """Remember a source line, such as ``core.py:1195``, as one that says something."""
        self._telling.add(source.encode())

    def feed(self, chunk: bytes) -> Iterator[tuple[int, bytes]]:
        """The lines worth reading of the next bytes, with their numbers."""
        self.size += len(chunk)
        data = self._rest + chunk if self._rest else chunk
        end = data.rfind(b"\n") + 1
        if end == 0 and len(data) < CHUNK:
            self._rest = data
            return
        end = end or len(data)
        yield from self._lines(data, end)
        self._rest = data[end:]
        self._tail = (self._tail + data[:end])[-_TAIL_BYTES:]

    def close(self) -> Iterator[tuple[int, bytes]]:
        """What is left: the last line, and those near the end that were passed over."""
        if self._rest:
            rest, self._rest = self._rest + b"\n", b""
            yield from self._lines(rest, len(rest))
            self._tail = (self._tail + rest)[-_TAIL_BYTES:]
        for number, raw in self.tail():
            if number > self._read_to:
                yield number, raw

    def tail(self) -> list[tuple[int, bytes]]:
        """The last lines, read or not."""
        lines = self._tail.split(b"\n")[:-1]
        if len(lines) > 1 and len(self._tail) == _TAIL_BYTES:
            del lines[0]  # most likely the end of a line only
        return list(enumerate(lines, self.number - len(lines) + 1))

    def _lines(self, data: bytes, end: int) -> Iterator[tuple[int, bytes]]:
        at = 0
        while at < end:
            if self._watch <= 0 and not self._open():
                at = self._skip(data, at, end)
                if at >= end:
                    return
            stop = data.find(b"\n", at, end)
            stop = end if stop < 0 else stop
            self.number += 1
            self._watch -= 1
            self._read_to = self.number
            raw = data[at:stop]
            yield self.number, raw
            at = stop + 1
            if _STORM_HEAD in raw:
                at = self._pass_storm(data, at, end)

    def _pass_storm(self, data: bytes, at: int, end: int) -> int:
        """Past the traceback of a failed request, when there were very many of them already."""
        self._storm += 1
        if self._storm <= _BORING:
            return at
        body = _STORM_BODY.match(data, at, end)
        if body is None or b"Dead" in body[0]:
            return at
        stop = data.find(b"\n", body.end(), end) + 1
        if stop == 0 or b"Dead" in data[body.end() : stop]:
            return at
        self.number += data.count(b"\n", at, stop)
        self._read_to = self.number
        return stop

    def _skip(self, data: bytes, at: int, end: int) -> int:
        """Where the next line worth reading begins; the lines before it are counted."""
        begin = at
        while (found := self._triggers.search(data, at, end)) is not None:
            start = data.rfind(b"\n", at, found.start()) + 1 or at
            stop = data.find(b"\n", start, end)
            if not self._boring(data, start, end) or stop < 0:
                start = self._look_back(data, begin, start)
                self.number += data.count(b"\n", begin, start)
                return start
            at = stop + 1
        self.number += data.count(b"\n", begin, end)
        return end

    def _look_back(self, data: bytes, begin: int, start: int) -> int:
        """A few lines before one that is worth reading: a cause may stand there in plain words."""
        if self._looks == 0:
            return start
        self._looks -= 1
        return data.rfind(b"\n", begin, max(begin, start - _LOOK_BACK)) + 1 or begin

    def _boring(self, data: bytes, start: int, end: int) -> bool:
        found = _RECORD.search(data, start, min(end, start + 300))
        if found is None:
            return False
        key = found[1]
        self._seen[key] += 1
        return self._seen[key] > _BORING and key not in self._telling
