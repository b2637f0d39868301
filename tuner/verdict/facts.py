"""What an engine says about itself while it starts, for vLLM v0 and v1 and their forks."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tuner.verdict.kinds import Level
from tuner.verdict.lines import Line

_KEPT = 64
"""Backend lines, markers and remarks that are kept of each sort."""


@dataclass(frozen=True, slots=True)
class Remark:
    """A line in which the engine says something about what it does.

    Attributes:
        line: Number of the line.
        text: Its message.
        process: Who wrote it.
    """

    line: int
    text: str
    process: str = ""


@dataclass(frozen=True, slots=True)
class LogFacts:
    """The engine's own words on what it runs with. What it did not say is None or empty.

    Attributes:
        version: vLLM's version.
        generation: ``v0`` or ``v1``.
        platform: The device platform that it found, such as ``cuda`` or ``cpu``.
        args: The arguments line: all of them (v0) or those that are not defaults (v1).
        args_line: Number of that line.
        config: The config line, as text by key.
        config_line: Number of that line.
        max_model_len: Longest sequence, in tokens.
        gpu_blocks: KV blocks on the device.
        cpu_blocks: KV blocks in host memory (swap).
        kv_tokens: KV cache size in tokens.
        kv_bytes: KV cache size in bytes, the least over the workers.
        concurrency: How many sequences of the longest length fit.
        weights_bytes: Memory that the weights took, the most over the workers.
        graph_bytes: Memory that the captured graphs took, the most over the workers.
        load_seconds: Time that loading took.
        init_seconds: Time that profiling, the KV cache and the warm-up took.
        batched_tokens: Token budget of a step as the engine set it.
        backends: Lines that name a backend, a kernel or a path.
        markers: Marker lines of plugins, such as ``[enginex] …``.
        remarks: Warnings that something asked for is ignored, changed, or replaced.
    """

    version: str | None = None
    generation: str | None = None
    platform: str | None = None
    args: dict[str, Any] = field(default_factory=dict)
    args_line: int | None = None
    config: dict[str, str] = field(default_factory=dict)
    config_line: int | None = None
    max_model_len: int | None = None
    gpu_blocks: int | None = None
    cpu_blocks: int | None = None
    kv_tokens: int | None = None
    kv_bytes: int | None = None
    concurrency: float | None = None
    weights_bytes: int | None = None
    graph_bytes: int | None = None
    load_seconds: float | None = None
    init_seconds: float | None = None
    batched_tokens: int | None = None
    backends: tuple[Remark, ...] = ()
    markers: tuple[Remark, ...] = ()
    remarks: tuple[Remark, ...] = ()


def _int(text: str) -> int:
    return int(text.replace(",", ""))


def _gib(text: str) -> int:
    return round(float(text) * 2**30)


_SINGLE: tuple[tuple[str, re.Pattern[str], Callable[[str], Any]], ...] = tuple(
    (name, re.compile(pattern), convert)
    for name, pattern, convert in (
        ("version", r"(?:API server|vLLM) version v?(\d+\.\d+[\w.+]*)", str),
        ("version", r"█\s+version (\d+\.\d+[\w.+]*)", str),
        ("version", r"LLM engine \(v(\d+\.\d+[\w.+]*)\)", str),
        ("platform", r"Automatically detected platform (\w+)", str),
        ("max_model_len", r"Using max model len (\d+)", int),
        ("gpu_blocks", r"# [A-Za-z]+ blocks: (\d+)", int),
        ("cpu_blocks", r"# CPU blocks: (\d+)", int),
        ("kv_tokens", r"[A-Z]+ KV cache size: ([\d,]+) tokens", _int),
        ("concurrency", r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x", float),
        ("load_seconds", r"Loading weights took ([\d.]+) s", float),
        ("init_seconds", r"init engine \(.*\) took ([\d.]+) s", float),
        ("batched_tokens", r"Chunked prefill is enabled with max_num_batched_tokens=(\d+)", int),
    )
)
_LEAST = tuple(
    (name, re.compile(pattern), convert)
    for name, pattern, convert in (
        ("kv_bytes", r"Available KV cache memory: (-?[\d.]+) GiB", _gib),
        ("kv_bytes", r"(?:Explicitly|Auto) set \(([\d.]+)/[\d.]+\) GiB for KV cache", _gib),
    )
)
_MOST = tuple(
    (name, re.compile(pattern), convert)
    for name, pattern, convert in (
        (
            "weights_bytes",
            r"Loading model weights took ([\d.]+) GB",
            _gib,
        ),  # v0 divides by 2**30 and writes GB
        ("weights_bytes", r"[Mm]odel (?:loading|weights) took ([\d.]+) ?G[iB]+", _gib),
        ("graph_bytes", r"Graph capturing finished in [\d.]+ secs?, took ([\d.]+) GiB", _gib),
    )
)
_ARGS = re.compile(r"(?:^|non-default )args: (?P<all>Namespace\(|\{)")
_CONFIG = re.compile(r"Initializing an? (?P<v1>V1 )?LLM engine(?: \(v[^)]*\))? with config: ")
_BACKEND = re.compile(
    r"\b[Uu]sing (?!max model len|cache directory|nccl|default chat|supplied).{0,80}?"
    r"(?:backend|kernel|operator|[Aa]ttention|prefill|decode|[Ee]xperts|sampl|all.?reduce)"
)
_MARKER = re.compile(r"^\[(?!W|E|I|shutdown|FT|Gloo)[a-z][\w.-]*\] ")
_REMARK = re.compile(
    r"(?:has|have|was|is|are|been|be|and|automatically) (?:been )?(?:disabled|ignored|overrid\w+|overwritten|reset)"
    r"|[Ff]all(?:ing|s)? ?back|[Ff]ell back|not (?:yet )?supported|does not support|no effect|[Ii]gnoring"
    r"|[Rr]eset |[Oo]verriding|[Dd]isabling|[Dd]isable |[Tt]urning off|will not be used|Unknown vLLM env"
    r"|instead of|not available|[Cc]asting torch|has been set to|is being set to"
)
_REFUSED = re.compile(r"^Cannot use \S+ backend|will be ignored|has no effect|is ignored\b")
"""What the engine refuses in passing, at whatever level."""
_V1 = re.compile(r"EngineCore|V1 LLM engine|core\.py|on V1 engine")


class FactsReader:
    """Collects :class:`LogFacts` from the lines of one start."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._lists: dict[str, list[Remark]] = {"backends": [], "markers": [], "remarks": []}

    def reset(self) -> None:
        """Forget everything: a new engine starts."""
        self.__init__()  # type: ignore[misc]  # the one place where it is meant: an empty reader

    def feed(self, line: Line) -> None:
        """Take one line, in the order of the file."""
        text = line.text
        if line.level >= Level.ERROR:
            self._generation(line)
            return
        self._numbers(text)
        self._long_lines(text, line.number)
        self._generation(line)
        remark = Remark(line.number, text[:500], line.process)
        if _MARKER.match(text):
            self._keep("markers", remark)
        elif _REFUSED.search(text) or (line.level is Level.WARNING and _REMARK.search(text)):
            self._keep("remarks", remark)
        elif _BACKEND.search(text):
            self._keep("backends", remark)

    def facts(self) -> LogFacts:
        """What was collected so far."""
        values: dict[str, Any] = {**self._values}
        values |= {name: tuple(kept) for name, kept in self._lists.items()}
        return LogFacts(**values)

    @property
    def generation(self) -> str | None:
        """``v0`` or ``v1``, as far as the lines up to here say."""
        found: str | None = self._values.get("generation")
        return found

    def _keep(self, name: str, remark: Remark) -> None:
        if len(self._lists[name]) < _KEPT:
            self._lists[name].append(remark)

    def _numbers(self, text: str) -> None:
        for name, pattern, convert in _SINGLE:
            if (found := pattern.search(text)) is not None:
                self._values[name] = convert(found[1])
        for table, choose in ((_LEAST, min), (_MOST, max)):
            for name, pattern, convert in table:
                if (found := pattern.search(text)) is not None:
                    new = convert(found[1])
                    self._values[name] = choose(new, self._values.get(name, new))

    def _generation(self, line: Line) -> None:
        if self._values.get("generation") == "v1":
            return
        if "EngineCore" in line.process or _V1.search(line.text) or _V1.search(line.source):
            self._values["generation"] = "v1"

    def _long_lines(self, text: str, number: int) -> None:
        if (found := _ARGS.search(text)) is not None:
            inner = text[found.end() :].rstrip().removesuffix(")").removesuffix("}")
            self._values["args_line"] = number
            self._values["args"] = dict(_pairs(inner, ":" if found["all"] == "{" else "="))
        elif (found := _CONFIG.search(text)) is not None:
            self._values["config_line"] = number
            self._values["config"] = {
                key: value if isinstance(value, str) else repr(value)
                for key, value in _pairs(text[found.end() :], "=")
            }
            if (longest := self._values["config"].get("max_seq_len", "")).isdigit():
                self._values["max_model_len"] = int(longest)
            self._values["generation"] = "v1" if found["v1"] else "v0"


def _pairs(text: str, between: str) -> Iterator[tuple[str, Any]]:
    """Keys and values of ``a=1, b='x'`` or ``'a': 1, 'b': [2]``; what is no literal stays text."""
    for part in split_top(text):
        key, found, value = part.partition(between)
        if found:
            yield str(_literal(key.strip())), _literal(value.strip())


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def split_top(text: str) -> list[str]:
    """Split at commas that are inside no brackets and no quotes."""
    parts: list[str] = []
    depth, quote, start, at = 0, "", 0, 0
    while at < len(text):
        char = text[at]
        if quote:
            if char == "\\":
                at += 1
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth <= 0:
            parts.append(text[start:at])
            start = at + 1
        at += 1
    parts.append(text[start:])
    return parts
