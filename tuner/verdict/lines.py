"""One line of a log, freed from what its carriers wrote before it.

A line reaches us through vLLM's own formatter, and then perhaps through ray, docker, compose,
Kubernetes, journald or a wrapper script, each of which puts something in front. :func:`parse`
takes all of it off and keeps what it says: the process, the level, the source file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tuner.verdict.kinds import Level, Role

LONGEST = 32_768
"""Characters of a line that are looked at; the engine's config line has about 6,000."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a log without its prefixes.

    Attributes:
        number: Its number in the file, from 1.
        text: The message, its indentation kept.
        process: Who wrote it, such as ``Worker_TP0 pid=12``; empty when not said.
        role: The kind of that process.
        level: Its level, ``NONE`` when not said.
        source: Source file and line of the record, such as ``core.py:1195``; empty when not said.
    """

    number: int
    text: str
    process: str = ""
    role: Role = Role.NONE
    level: Level = Level.NONE
    source: str = ""

    @property
    def file(self) -> str:
        """The source file alone."""
        return self.source.partition(":")[0]


_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = dict.fromkeys([*range(9), *range(10, 32), *range(127, 160)])
_CONTROL |= dict.fromkeys([0x200B, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF])

_STAMP = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z| ?[+-]\d\d:?\d\d)?"
_SYSLOG = r"[A-Z][a-z]{2} [ \d]\d (?:\d{4} )?\d\d:\d\d:\d\d(?:\.\d+)?"
_CARRIERS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"{_STAMP} std(?:out|err) [FP] ",  # Kubernetes CRI
        rf"(?:{_SYSLOG}|{_STAMP}) [\w.-]+ (?P<unit>[\w.@\\-]+?)(?:\[\d+\])?: ",  # journald, syslog
        r"\[pod/[^\]\s]+\] ",  # kubectl logs --prefix
        r"\[?[\w./-]+\]? *\| ?",  # compose
        rf"\[?{_STAMP}\]?(?: \| |[ \t]|$)",  # docker --timestamps, Loki
        r"(?P<kernel>\[ *\d+\.\d{6}\] )",  # dmesg
        r"(?:[\w.-]+ ){1,2}(?=\(\w+ (?:rank=\d+ )?pid=\d+\)|(?:INFO|WARNING|ERROR) \d\d-\d\d )",  # stern
    )
)
_PROCESS = re.compile(
    r"\((?P<name>[A-Za-z][\w.:-]*(?: [\w.:-]+)??)(?: rank=(?P<rank>\d+))?,? pid=(?P<pid>\d+)(?:, ip=[^)]*)?\) ?"
)
_RAY = re.compile(r"\(pid=(\d+)(?:, ip=[^)]*)?\) ")
_RANK = re.compile(r"\[rank(\d+)\]:? ?")
_RECORD = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) +(?:\d{4}-)?\d\d-\d\d \d\d:\d\d(?::\d\d)?(?:[.,]\d+)? +"
    r"\[?(?P<source>[^\s\]]+:\d+)\] ?"
)
_UVICORN = re.compile(r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL): {2,}")
_LOGGING = re.compile(r"- (?P<source>[\w.]+) - (?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) - ")
_TORCH = re.compile(
    r"\[?(?P<level>[IWEF])(?:\d{3,4} [\d:.]+ +(?:\d+ )?| )(?P<source>[\w./-]+:\d+)\] ?"
)
_TORCH_LEVEL = {"I": Level.INFO, "W": Level.WARNING, "E": Level.ERROR, "F": Level.CRITICAL}
_BAR_END = re.compile(r"(?<=(?:it/s|s/it)\])(?=\S)")
_JSON_TEXT = ("log", "MESSAGE", "message", "msg", "textPayload", "text", "event")
_JSON_EXTRA = ("exc_info", "stack_info", "exception")
_JSON_LEVEL = ("levelname", "level", "severity")


def clean(text: str) -> str:
    """A line without colours and control characters, cut to :data:`LONGEST`."""
    if len(text) > LONGEST:
        text = text[:LONGEST]
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return text if text.isascii() and text.isprintable() else text.translate(_CONTROL)


def role_of(name: str) -> Role:
    """The kind of process that a name such as ``EngineCore_DP0`` stands for."""
    low = name.lower()
    if "worker" in low:
        return Role.WORKER
    if "enginecore" in low or low.startswith(("engine", "spawnprocess", "mqllmengine")):
        return Role.ENGINE
    if low.startswith(("apiserver", "api_server", "dpcoordinator")):
        return Role.API
    return Role.NONE


def parse(raw: str, number: int) -> Iterator[Line]:
    """The lines that one line of a file carries: one, or several where JSON holds a traceback."""
    text = raw.rstrip("\r\n")
    if "\r" in text:
        text = text.rsplit("\r", 1)[1]
    if text.startswith("{") and text.endswith("}"):
        level, inner = _from_json(text)
        for part in inner:
            yield from _parse_text(clean(part), number, level)
        return
    for part in _BAR_END.split(clean(text)) if "it]" in text or "it/s]" in text else (clean(text),):
        yield from _parse_text(part, number, Level.NONE)


def _from_json(text: str) -> tuple[Level, list[str]]:
    try:
        data = json.loads(text)
    except ValueError:
        return Level.NONE, [text]
    if not isinstance(data, dict):
        return Level.NONE, [text]
    parts = [data[key] for key in (*_JSON_TEXT, *_JSON_EXTRA) if isinstance(data.get(key), str)]
    if not parts:
        return Level.NONE, [text]
    named = next((str(data[key]).upper() for key in _JSON_LEVEL if key in data), "")
    level = Level[named] if named in Level.__members__ else Level.NONE
    return level, [line for part in parts for line in part.splitlines() or [""]]


def _parse_text(text: str, number: int, level: Level) -> Iterator[Line]:
    kernel, at = _carriers(text)
    if text.startswith("{", at) and text.endswith("}"):
        inner_level, parts = _from_json(text[at:])
        if parts != [text[at:]]:
            for part in parts:
                yield from _parse_text(part, number, inner_level)
            return
    process, role, at = _processes(text, at)
    if kernel:
        role = Role.KERNEL
    found = _RECORD.match(text, at) or _UVICORN.match(text, at) or _LOGGING.match(text, at)
    source = ""
    if found is not None:
        level = Level[found["level"]]
        source = found.groupdict().get("source") or "uvicorn"
        at = found.end()
    elif (found := _TORCH.match(text, at)) is not None:
        level, source, at = _TORCH_LEVEL[found["level"]], found["source"], found.end()
    yield Line(number, text[at:].rstrip(), process, role, level, source)


def _carriers(text: str) -> tuple[bool, int]:
    """Whether the kernel wrote it, and where the message begins."""
    at = 0
    kernel = False
    for _ in range(5):
        for pattern in _CARRIERS:
            found = pattern.match(text, at)
            if found is not None:
                named = found.groupdict()
                kernel = kernel or named.get("unit") == "kernel" or bool(named.get("kernel"))
                at = found.end()
                break
        else:
            break
    return kernel, at


def _processes(text: str, at: int) -> tuple[str, Role, int]:
    process, role = "", Role.NONE
    while True:
        if (found := _PROCESS.match(text, at)) is not None:
            name = found["name"] if found["rank"] is None else f"{found['name']}_{found['rank']}"
            process = f"{name} pid={found['pid']}"
            role = role_of(name)
        elif (found := _RANK.match(text, at)) is not None:
            process = process or f"rank{found[1]}"
        elif (found := _RAY.match(text, at)) is not None:
            process = process or f"pid={found[1]}"
        else:
            return process, role, at
        at = found.end()
