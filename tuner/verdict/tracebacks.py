"""Tracebacks of interleaved processes, put together again.

vLLM's processes write into one file at once, so a traceback is rarely in one piece. Each record
prefix (process, level, source line) is its own thread here; the message that a traceback ends
with is told apart from the frames above it and from ordinary records.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass, field

from tuner.verdict.kinds import Level, Place
from tuner.verdict.lines import Line

_THREADS = 512
"""Open tracebacks kept at once; the oldest is given up when a log opens more."""
_STALE = 600
"""Lines after which a traceback that never came to its exception is given up."""
_TAIL = 40
"""Lines after an exception's first that still count as its message (pydantic writes many)."""

_HEAD = re.compile(r"(?:^|: |\| |\+ (?:Exception Group )?)Traceback \(most recent call last\):\s*$")
_FRAME = re.compile(r'^[\s|]*File "(?P<file>[^"]*)", line \d+(?:, in (?P<function>.+))?$')
_LINK = re.compile(
    r"^(?:The above exception was the direct|During handling of the above exception)"
)
_GUTTER = re.compile(r"^\s*[|+][ |+-]*")
_IGNORED = re.compile(r"Exception ignored (?:in|on)|Exception in thread .*GC")
EXCEPTION = re.compile(
    r"^(?:\^C)?(?:[A-Za-z_]\w*\.)*[A-Z]\w*"
    r"(?:Error|Exception|Interrupt|Exit|OutOf[A-Z]\w*|Failure|Timeout|Dead)(?=:|\s*$)"
    r"|^\s+(?:(?:Value|Assertion) (?:error|failed), |Input should be )"  # pydantic's own lines
)


def _by_level(level: Level) -> Place:
    """What an exception's message is: one that was only warned of ended nothing."""
    if level is Level.WARNING:
        return Place.WARNING
    return Place.INFO if level in (Level.INFO, Level.DEBUG) else Place.EXCEPTION


@dataclass(frozen=True, slots=True)
class Entry:
    """A line and what it is within its log.

    Attributes:
        line: The line.
        place: What it is.
        functions: Names of the functions of its traceback, outermost first; empty without one.
        files: Source files of those functions.
        ignored: Whether Python said that it ignores the exception, as in ``__del__``.
        first: Whether it is the first line of an exception's message.
    """

    line: Line
    place: Place
    functions: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    ignored: bool = False
    first: bool = False


@dataclass(slots=True)
class _Thread:
    functions: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    ignored: bool = False
    tail: int = 0
    last: int = 0


class Tracebacks:
    """Follows the tracebacks of one log, line by line."""

    def __init__(self) -> None:
        self._threads: OrderedDict[tuple[str, Level, str], _Thread] = OrderedDict()
        self._ignore_next: set[str] = set()
        self._number = 0

    @property
    def open(self) -> bool:
        """Whether some traceback has begun lately and not come to its exception."""
        return any(
            thread.tail == 0 and self._number - thread.last < _STALE
            for thread in self._threads.values()
        )

    def reset(self) -> None:
        """Forget all that is open, as at the start of a new engine."""
        self._threads.clear()
        self._ignore_next.clear()

    def place(self, line: Line) -> Entry:
        """What a line is; lines must come in the order of the file."""
        self._number = line.number
        key = (line.process, line.level, line.source)
        thread = self._threads.get(key)
        if _HEAD.search(line.text):
            return self._begin(key, line, thread)
        if (frame := _FRAME.match(line.text)) is not None:
            thread = self._thread(key) if thread is None or thread.tail else thread
            if len(thread.functions) < 200:
                thread.functions.append(frame["function"] or "<module>")
                thread.files.append(frame["file"])
            return self._entry(line, Place.FRAME, thread)
        if thread is not None:
            return self._inside(key, line, thread)
        return self._plain(line)

    def _begin(self, key: tuple[str, Level, str], line: Line, old: _Thread | None) -> Entry:
        ignored = line.process in self._ignore_next or (old is not None and old.ignored)
        self._ignore_next.discard(line.process)
        thread = self._thread(key)
        thread.ignored = ignored
        return self._entry(line, Place.FRAME, thread)

    def _thread(self, key: tuple[str, Level, str]) -> _Thread:
        thread = self._threads[key] = _Thread()
        self._threads.move_to_end(key)
        if len(self._threads) > _THREADS:
            self._threads.popitem(last=False)
        thread.last = self._number
        return thread

    def _inside(self, key: tuple[str, Level, str], line: Line, thread: _Thread) -> Entry:
        thread.last = line.number
        text = _GUTTER.sub("", line.text)
        if not text.strip() or _LINK.match(text):
            return self._entry(line, Place.FRAME, thread)
        if thread.tail == 0:
            if text[0].isspace() or text.startswith(("^", "~", "[Previous line", "...<")):
                return self._entry(line, Place.FRAME, thread)
            thread.tail = 1
            return self._entry(line, _by_level(line.level), thread, first=True)
        thread.tail += 1
        if EXCEPTION.match(text):
            return self._entry(line, _by_level(line.level), thread, first=True)
        if thread.tail > _TAIL:
            del self._threads[key]
            return self._plain(line)
        return self._entry(line, _by_level(line.level), thread)

    def _plain(self, line: Line) -> Entry:
        if _IGNORED.search(line.text):
            self._ignore_next.add(line.process)
        if EXCEPTION.match(line.text):
            return Entry(line, _by_level(line.level), first=True)
        if line.level is Level.NONE:
            return Entry(line, Place.RAW)
        return Entry(line, Place.ERROR if line.level >= Level.ERROR else _by_level(line.level))

    @staticmethod
    def _entry(line: Line, place: Place, thread: _Thread, *, first: bool = False) -> Entry:
        return Entry(
            line, place, tuple(thread.functions), tuple(thread.files), thread.ignored, first
        )
