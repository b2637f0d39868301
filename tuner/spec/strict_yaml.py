"""YAML as people mean it: one document, plain values, no surprises, and a place for every value.

PyYAML's scanner gives the events; what they mean is decided here, after the YAML 1.2 core schema.
So ``no``, ``on``, ``1:30`` and ``2024-01-01`` are text, and what two readers would read differently
(``010``, duplicate keys, merge keys) is refused. Nothing is expanded: no anchors, no tags.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import yaml

from tuner.errors import SpaceError

MAX_BYTES = 256 * 1024
MAX_DEPTH = 24

Place = tuple[str | int, ...]
"""The way to a value from the top: keys of mappings and indices of lists."""

_NULL = re.compile(r"|~|null|Null|NULL")
_TRUE = re.compile(r"true|True|TRUE")
_FALSE = re.compile(r"false|False|FALSE")
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITY = re.compile(r"[-+]?\.(inf|Inf|INF)")
_NAN = re.compile(r"\.(nan|NaN|NAN)")
_TWO_READINGS = re.compile(r"[-+]?0([0-9]+|[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)")
_UNREADABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a value stands: line and column, counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file.

    Attributes:
        file: The file, for messages.
        data: Null, booleans, numbers and text; lists as tuples, mappings as dicts with text keys.
        marks: The place of every value; of a value in a mapping, the place of its key.
        folder: The folder that paths in the file are relative to.
    """

    file: Path
    data: Any
    marks: Mapping[Place, Mark]
    folder: Path

    def place(self, way: tuple[str | int, ...]) -> Place:
        """The longest real part of a way to a value.

        Elements that name nothing in the file are passed over, so that the ways which pydantic
        reports (with its names of union members in between) can be given as they are.
        """
        here: Any = self.data
        real: list[str | int] = []
        for step in way:
            inside = (isinstance(here, dict) and step in here) or (
                isinstance(here, tuple) and isinstance(step, int) and 0 <= step < len(here)
            )
            if inside:
                here = here[step]
                real.append(step)
        return tuple(real)

    def at(self, place: Place) -> Any:
        """The value at a place that is in the file."""
        here = self.data
        for step in place:
            here = here[step]
        return here

    def line(self, way: tuple[str | int, ...]) -> int:
        """The line of a value, or of the nearest thing around it."""
        return self.marks[self.place(way)].line

    def error(
        self, way: tuple[str | int, ...], message: str, mend: str | None = None
    ) -> SpaceError:
        """An error that says where in the file it is."""
        return SpaceError(message, file=self.file, line=self.line(way), mend=mend)


def read_text(file: Path) -> str:
    """Read a file from disk: a regular file, of a bounded size, in UTF-8.

    Raises:
        SpaceError: When it cannot be read.
    """
    try:
        if not file.is_file():
            raise SpaceError(
                "there is no such file" if not file.exists() else "this is not a regular file",
                file=file,
                mend="give the path of a search space",
            )
        with file.open("rb") as handle:
            raw = handle.read(MAX_BYTES + 1)
    except OSError as error:
        raise SpaceError(f"cannot be read: {error.strerror}", file=file) from error
    return _decode(raw, file)


def parse_document(raw: bytes | str, file: Path) -> Document:
    """Parse the content of a file.

    Args:
        raw: The content, as text or as UTF-8.
        file: The name for messages; it is not opened.

    Raises:
        SpaceError: When the content is not strict YAML.
    """
    text = _decode(raw, file)
    builder = _Builder(file)
    try:
        for event in _events(text):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        if "end of stream" in (error.problem or ""):
            mark = error.context_mark or mark  # where it began is what helps
        raise SpaceError(
            f"this is not YAML: {error.problem or error.context}",
            file=file,
            line=mark.line + 1 if mark else None,
            mend=_mend(error.problem or ""),
        ) from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise SpaceError(f"this is not YAML: {error}", file=file) from error
    return builder.document()


def _decode(raw: bytes | str, file: Path) -> str:
    size = len(raw if isinstance(raw, bytes) else raw.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise SpaceError(
            f"the file is over {MAX_BYTES // 1024} KiB", file=file, mend="split it or shorten it"
        )
    try:
        text = raw.decode("utf-8") if isinstance(raw, bytes) else raw
        text.encode("utf-8")
    except UnicodeError as error:
        line = _line_at(raw, error.start) if isinstance(error, UnicodeDecodeError) else None
        raise SpaceError(
            "the file is not UTF-8", file=file, line=line, mend="save it with the encoding UTF-8"
        ) from error
    text = text.removeprefix("\ufeff")
    if found := _UNREADABLE.search(text):
        raise SpaceError(
            f"the file holds the character U+{ord(found[0]):04X}, which cannot be seen",
            file=file,
            line=_line_at(text, found.start()),
            mend="delete it",
        )
    return text


def _line_at(content: bytes | str, offset: int) -> int:
    head = content[:offset]
    return 1 + (head.count(b"\n") if isinstance(head, bytes) else head.count("\n"))


def _events(text: str) -> Iterator[yaml.Event]:
    yield from yaml.parse(text, Loader=yaml.SafeLoader)


def _mend(problem: str) -> str | None:
    if "'\\t'" in problem:
        return "indent with spaces"
    if "expected <block end>" in problem:
        return "check the indentation of this line and of those above it"
    if "mapping values are not allowed" in problem:
        return "check the indentation, and quote text that holds a colon and a space"
    if "expected ',' or '}'" in problem or "expected ',' or ']'" in problem:
        return "close what is open, and quote text that holds a bracket or a comma"
    if "could not find expected ':'" in problem:
        return "end the key above it with a colon, as in key: value"
    if "end of stream" in problem:
        return "close the quotation mark that is open here"
    if "cannot start any token" in problem:
        return "quote text that begins with %, @ or `"
    return None


@dataclass(slots=True)
class _Frame:
    """An open list or mapping."""

    place: Place
    items: list[Any] | dict[str, Any]
    key: str | None = None


@dataclass(slots=True)
class _Builder:
    """Turns events into data, without recursion."""

    file: Path
    frames: list[_Frame] = field(default_factory=list)
    marks: dict[Place, Mark] = field(default_factory=dict)
    root: Any = None
    documents: int = 0

    def document(self) -> Document:
        if self.documents == 0:
            raise SpaceError("the file is empty", file=self.file, line=1)
        return Document(self.file, self.root, self.marks, self.file.parent)

    def take(self, event: yaml.Event) -> None:
        match event:
            case yaml.DocumentStartEvent():
                self._start_document(event)
            case yaml.AliasEvent():
                self._refuse(
                    event, f"*{event.anchor}: aliases are not taken", "write the value out"
                )
            case yaml.ScalarEvent():
                self._check_plain(event)
                self._scalar(event)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._check_plain(event)
                self._open(event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                frame = self.frames.pop()
                self._put(frame.items if isinstance(frame.items, dict) else tuple(frame.items))

    def _start_document(self, event: yaml.DocumentStartEvent) -> None:
        self.documents += 1
        if self.documents > 1:
            self._refuse(event, "a second document begins here", "one file holds one search space")
        if event.version or event.tags:
            self._refuse(event, "directives (%YAML, %TAG) are not taken", "delete the line")
        self.marks[()] = Mark(1, 1)

    def _check_plain(self, event: yaml.NodeEvent) -> None:
        if event.anchor is not None:
            self._refuse(event, f"&{event.anchor}: anchors are not taken", "write the value out")
        tag = getattr(event, "tag", None)
        if tag is not None:
            self._refuse(event, f"{_short_tag(tag)}: tags are not taken", "write the plain value")

    def _open(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        if len(self.frames) >= MAX_DEPTH:
            self._refuse(event, f"nested deeper than {MAX_DEPTH} levels", "flatten it")
        if self.frames and isinstance(self.frames[-1].items, dict) and self.frames[-1].key is None:
            self._refuse(event, "a key must be plain text", "quote it if it is text")
        place = self._place(event)
        self.frames.append(_Frame(place, {} if isinstance(event, yaml.MappingStartEvent) else []))

    def _place(self, event: yaml.Event) -> Place:
        """The place of the value that begins here; its mark is kept."""
        if not self.frames:
            return ()
        frame = self.frames[-1]
        if isinstance(frame.items, dict):
            return (*frame.place, frame.key or "")
        place = (*frame.place, len(frame.items))
        self.marks[place] = _mark(event)
        return place

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        if found := _UNREADABLE.search(event.value):
            self._refuse(event, f"the text holds the character U+{ord(found[0]):04X}", "delete it")
        if self.frames and isinstance(self.frames[-1].items, dict) and self.frames[-1].key is None:
            self._take_key(event, self.frames[-1], self.frames[-1].items)
            return
        self._place(event)
        self._put(self._value(event))

    def _take_key(self, event: yaml.ScalarEvent, frame: _Frame, items: dict[str, Any]) -> None:
        key = event.value
        if not event.style and key == "<<":
            self._refuse(event, "merge keys (<<) are not taken", "write the keys out")
        if key == "":
            self._refuse(event, "a key is empty", "write its name before the colon")
        if any(character < " " for character in key):
            self._refuse(event, f"the key {key!r} is not one line of text", "write it in one line")
        if key in items:
            first = self.marks[(*frame.place, key)].line
            self._refuse(
                event, f"{key!r} stands twice, first in line {first}", "keep one of the two"
            )
        frame.key = key
        self.marks[(*frame.place, key)] = _mark(event)

    def _put(self, value: Any) -> None:
        if not self.frames:
            self.root = value
            return
        frame = self.frames[-1]
        if isinstance(frame.items, dict):
            frame.items[frame.key or ""] = value
            frame.key = None
        else:
            frame.items.append(value)

    def _value(self, event: yaml.ScalarEvent) -> Any:
        text = event.value
        if event.style:
            return text
        if _NULL.fullmatch(text):
            return None
        if _TRUE.fullmatch(text):
            return True
        if _FALSE.fullmatch(text):
            return False
        return self._number(event, text)

    def _number(self, event: yaml.ScalarEvent, text: str) -> int | float | str:
        if _INFINITY.fullmatch(text):
            return -math.inf if text.startswith("-") else math.inf
        if _NAN.fullmatch(text):
            return math.nan
        if _TWO_READINGS.fullmatch(text):
            self._refuse(
                event, f"{text} can be read in two ways", "quote it, or write a decimal number"
            )
        if _INTEGER.fullmatch(text):
            if len(text) > 20 or not -(2**63) <= int(text) < 2**63:
                self._refuse(event, "the number does not fit in 64 bits", "quote it if it is text")
            return int(text)
        if _FLOAT.fullmatch(text):
            number = float(text)
            if math.isinf(number):
                self._refuse(event, "the number is too large", "quote it if it is text")
            return number
        return text

    def _refuse(self, event: yaml.Event, message: str, mend: str) -> NoReturn:
        raise SpaceError(message, file=self.file, line=_mark(event).line, mend=mend)


def _mark(event: yaml.Event) -> Mark:
    start = event.start_mark
    return Mark(start.line + 1, start.column + 1) if start else Mark(1, 1)


def _short_tag(tag: str) -> str:
    return tag.replace("tag:yaml.org,2002:", "!!")[:80]
