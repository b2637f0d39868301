"""Reading traces of requests: bodies with their messages, or only lengths and times."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.errors import UserError

_MAX_LINE = 64 * 2**20
_NAMES: Mapping[str, tuple[str, ...]] = {
    "prompt_tokens": ("prompt_tokens", "input_tokens", "input_length", "isl", "request tokens"),
    "output_tokens": (
        "output_tokens",
        "completion_tokens",
        "output_length",
        "osl",
        "response tokens",
    ),
    "max_tokens": ("max_tokens", "max_completion_tokens"),
    "arrival_s": ("arrival_s", "arrival", "timestamp", "timestamp_s", "time"),
    "arrival_ms": ("arrival_ms", "timestamp_ms"),
}
_BODY = frozenset({"messages", "tools", "tool_choice", "model", "stream", "stream_options"})
_OURS = frozenset(name for names in _NAMES.values() for name in names) | {"hash_ids"}
_OTHER_LABELS = frozenset({"id", "index", "request_id", "session", "session_id", "turn", "user"})


@dataclass(frozen=True, slots=True)
class Row:
    """One request of a trace.

    Attributes:
        line: Its line in the file.
        arrival_s: When it arrived, in seconds; None where the trace does not say.
        prompt_tokens: Length of its prompt; None where it has messages.
        output_tokens: Length of its answer; None where it is not recorded.
        max_tokens: The most tokens that it asked for.
        blocks: Names of the blocks that its prompt is made of; equal names, equal texts.
        messages: Its messages, as in a request; None where only lengths are known.
        tools: The functions that it offers, as in a request.
        tool_choice: Its ``tool_choice``.
        fields: Further fields of the request: sampling, stop words, a response format.
    """

    line: int
    arrival_s: float | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    max_tokens: int | None = None
    blocks: tuple[int, ...] = ()
    messages: tuple[dict[str, Any], ...] | None = None
    tools: tuple[dict[str, Any], ...] = ()
    tool_choice: Any = None
    fields: Mapping[str, Any] | None = None


def read_trace(file: Path, limit: int | None = None) -> list[Row]:
    """The rows of a trace.

    A row of a ``.jsonl`` file is a request body (``messages``, ``tools``, sampling fields), possibly
    inside ``body``, or lengths: ``prompt_tokens``, ``output_tokens`` and the names that other traces
    give them (``input_length``, ``ISL``, ``Request tokens`` …). A ``.csv`` file has lengths. When a
    request arrived is ``arrival_s`` or ``timestamp`` in seconds, ``timestamp_ms`` in milliseconds; in
    rows with ``hash_ids`` (Mooncake's form) ``timestamp`` is in milliseconds.

    Args:
        file: The trace.
        limit: Only the first so many rows.

    Raises:
        UserError: When the file cannot be read or a row says too little; it names the line.
    """
    if file.suffix not in (".jsonl", ".csv"):
        raise UserError("a trace ends in .jsonl or .csv", file=file)
    try:
        with file.open(encoding="utf-8-sig", newline="") as text:
            numbered = _csv_rows(text, file) if file.suffix == ".csv" else _json_rows(text, file)
            rows: list[Row] = []
            for number, values in numbered:
                if limit is not None and len(rows) >= limit:
                    break
                rows.append(_row(values, file, number))
    except OSError as wrong:
        raise UserError(f"cannot read the trace: {wrong.strerror}", file=file) from None
    except UnicodeDecodeError:
        raise UserError("the trace is not UTF-8", file=file) from None
    if not rows:
        raise UserError("the trace has no rows", file=file)
    return rows


def _json_rows(text: Iterator[str], file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text, 1):
        if not line.strip():
            continue
        if len(line) > _MAX_LINE:
            raise UserError("the line is longer than 64 MiB", file=file, line=number)
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as wrong:
            raise UserError(f"not JSON: {wrong}", file=file, line=number) from None
        if not isinstance(values, dict):
            raise UserError("a row is a JSON object", file=file, line=number)
        body = values.pop("body", None)
        yield number, {**values, **body} if isinstance(body, dict) else values


def _csv_rows(text: Iterator[str], file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.DictReader(text)
    while True:
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as wrong:
            raise UserError(f"not CSV: {wrong}", file=file, line=reader.line_num) from None
        found = {k.strip().lower(): v for k, v in values.items() if k and v not in ("", None)}
        yield reader.line_num, found


def _row(values: dict[str, Any], file: Path, line: int) -> Row:
    try:
        return _request(values, line) if "messages" in values else _lengths(values, line)
    except (ValueError, TypeError) as wrong:
        raise UserError(str(wrong), file=file, line=line) from None


def _request(values: dict[str, Any], line: int) -> Row:
    """A row that is a request body."""
    messages, tools = values["messages"], values.get("tools") or []
    if not isinstance(messages, list) or not messages:
        raise ValueError("messages is not a list of messages")
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise TypeError("a message has no role")
    if not isinstance(tools, list) or not all(map(_is_function, tools)):
        raise ValueError("tools is not a list of functions")
    fields = {k: v for k, v in values.items() if k not in _BODY | _OURS | _OTHER_LABELS}
    return Row(
        line=line,
        arrival_s=_arrival(values),
        output_tokens=_whole(values, "output_tokens"),
        max_tokens=_whole(values, "max_tokens"),
        messages=tuple(messages),
        tools=tuple(tools),
        tool_choice=values.get("tool_choice"),
        fields=fields,
    )


def _is_function(tool: Any) -> bool:
    function = tool.get("function") if isinstance(tool, dict) else None
    return isinstance(function, dict) and isinstance(function.get("name"), str)


def _lengths(values: dict[str, Any], line: int) -> Row:
    """A row that has lengths and no texts."""
    values = {name.lower(): value for name, value in values.items()}
    prompt = _whole(values, "prompt_tokens")
    if prompt is None:
        known = ", ".join(_NAMES["prompt_tokens"])
        raise ValueError(f"the row has neither messages nor a length of the prompt ({known})")
    blocks = values.get("hash_ids", [])
    if not isinstance(blocks, list) or not all(isinstance(one, int) for one in blocks):
        raise ValueError("hash_ids is not a list of numbers")
    return Row(
        line=line,
        arrival_s=_arrival(values),
        prompt_tokens=prompt,
        output_tokens=_whole(values, "output_tokens"),
        max_tokens=_whole(values, "max_tokens"),
        blocks=tuple(blocks),
    )


def _arrival(values: dict[str, Any]) -> float | None:
    seconds, milliseconds = _number(values, "arrival_s"), _number(values, "arrival_ms")
    if milliseconds is not None:
        return milliseconds / 1000
    return seconds / 1000 if seconds is not None and "hash_ids" in values else seconds


def _whole(values: dict[str, Any], name: str) -> int | None:
    number = _number(values, name)
    if number is None:
        return None
    if number < 1 or number != int(number):
        raise ValueError(f"{name} is {number:g}, and must be a whole number from 1")
    return int(number)


def _number(values: dict[str, Any], name: str) -> float | None:
    for known in _NAMES[name]:
        if values.get(known) is not None:
            number = float(values[known])
            if not math.isfinite(number) or number < 0:
                raise ValueError(f"{known} is {values[known]!r}")
            return number
    return None
