"""The table of rules: read from ``rules.toml``, checked strictly, compiled once."""

from __future__ import annotations

import functools
import re
import tomllib
from importlib import resources
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from tuner.verdict.kinds import Place, Rank, Retry, Role, Stage, Verdict

Unit = Literal["bytes", "GiB", "tokens", "count", "fraction"]
NUMBERS = ("asked", "available", "total")


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
    return pattern


Pattern = Annotated[str, AfterValidator(_compiles)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


class Kind(_Strict):
    """What holds for a verdict unless a rule says otherwise.

    Attributes:
        id: The verdict.
        title: What it means, in a few words.
        teaches: Whether the configuration caused it, so that the sampler may learn from it.
        retry: What may be done with the same point again.
        advice: What to do about it.
    """

    id: Verdict
    title: str
    teaches: bool
    retry: Retry
    advice: str


class Noise(_Strict):
    """Lines that are not the engine's own words, such as the echo of a user's prompt.

    Attributes:
        id: Name.
        match: Patterns on the message; one is enough; empty means any.
        files: Patterns on the record's source file; empty means any.
        frames: Patterns on the paths in a traceback; empty means that none is asked for.
        unless: Patterns of which none may match.
        close: Where given, a match that lacks this pattern goes on over the bare lines after it.
        stage: The stage that such a line proves.
    """

    id: str
    match: tuple[Pattern, ...] = ()
    files: tuple[Pattern, ...] = ()
    frames: tuple[Pattern, ...] = ()
    unless: tuple[Pattern, ...] = ()
    close: Pattern | None = None
    stage: Stage | None = None

    @model_validator(mode="after")
    def _narrow(self) -> Noise:
        if not (self.match or self.files or self.frames):
            raise ValueError(f"the noise {self.id!r} would swallow every line")
        return self


class StageMark(_Strict):
    """How a stage shows in a log.

    Attributes:
        id: The stage.
        lines: Patterns on messages that say that the stage began.
        functions: Functions whose frames in a traceback say that it failed in this stage.
    """

    id: Stage
    lines: tuple[Pattern, ...] = ()
    functions: tuple[str, ...] = ()


class Rule(_Strict):
    """One rule on the lines of a log.

    Attributes:
        id: Name, unique in the table.
        rank: How much a hit says.
        weight: Among hits of one rank the heavier decides; then the earlier line.
        verdict: The verdict of a hit.
        by_stage: Verdicts of other stages, where the stage makes the difference.
        by_role: Verdicts by the process that wrote the line.
        at: What the line must be within the log.
        match: Patterns; one is enough. Named groups ``asked``, ``available``, ``total`` (each with
            an optional ``…_unit``) are read as numbers.
        unless: Patterns of which none may match.
        roles: Processes that may have written it; empty means any.
        stages: Stages in which it counts; empty means any.
        none: Signals of which none may be there.
        generations: ``v0``, ``v1``; empty means any. An unknown generation counts as any.
        files: Patterns on the record's source file; empty means any.
        functions: At least one of these must be in the traceback; empty means any.
        last: Whether it must be among the last lines of the log.
        times: How often it must hit.
        unit: Unit of the numbers where the line says none.
        used_share: Bounds on ``(total - available) / total``.
        ends: Whether a hit proves that a process is gone, so that answers of the server after it prove
            nothing; every ``echo`` does.
        ignored_too: Whether exceptions that Python ignored count.
        stage: Stage of the verdict where the line itself says it.
        teaches: Overrides the verdict's.
        retry: Overrides the verdict's.
        advice: Overrides the verdict's.
    """

    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    rank: Rank
    weight: int = 50
    verdict: Verdict
    by_stage: dict[Stage, Verdict] = {}
    by_role: dict[Role, Verdict] = {}
    at: tuple[Place, ...] = (Place.EXCEPTION, Place.ERROR, Place.RAW)
    match: tuple[Pattern, ...] = Field(min_length=1)
    unless: tuple[Pattern, ...] = ()
    roles: tuple[Role, ...] = ()
    stages: tuple[Stage, ...] = ()
    none: tuple[str, ...] = ()
    generations: tuple[Literal["v0", "v1"], ...] = ()
    files: tuple[Pattern, ...] = ()
    functions: tuple[str, ...] = ()
    last: bool = False
    times: int = Field(default=1, ge=1)
    unit: Unit = "bytes"
    used_share: tuple[float, float] | None = None
    ends: bool = False
    ignored_too: bool = False
    stage: Stage | None = None
    teaches: bool | None = None
    retry: Retry | None = None
    advice: str | None = None


class SignalRule(_Strict):
    """One rule on what is known besides the log: exit, counters, device, HTTP, read-back.

    Attributes:
        id: Name, unique in the table.
        rank: Where it stands among the hits.
        weight: As for :class:`Rule`.
        verdict: The verdict.
        all: Signals that must all be there.
        none: Signals of which none may be there.
        over: Verdicts that it replaces; empty means that it stands by its rank alone.
        stages: Stages in which it counts; empty means any.
        teaches: Overrides the verdict's.
        retry: Overrides the verdict's.
        advice: Overrides the verdict's.
    """

    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    rank: Rank
    weight: int = 50
    verdict: Verdict
    all: tuple[str, ...] = Field(min_length=1)
    none: tuple[str, ...] = ()
    over: tuple[Verdict, ...] = ()
    stages: tuple[Stage, ...] = ()
    teaches: bool | None = None
    retry: Retry | None = None
    advice: str | None = None


class _Document(_Strict):
    format: Literal[1]
    triggers: tuple[str, ...] = Field(min_length=1)
    exits: tuple[Pattern, ...]
    verdict: tuple[Kind, ...]
    noise: tuple[Noise, ...]
    stage: tuple[StageMark, ...]
    rule: tuple[Rule, ...]
    signal: tuple[SignalRule, ...]

    @model_validator(mode="after")
    def _whole(self) -> _Document:
        if missing := set(Verdict) - {kind.id for kind in self.verdict}:
            raise ValueError(f"verdicts without an entry: {sorted(missing)}")
        names = [rule.id for rule in self.rule] + [rule.id for rule in self.signal]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"rules that share a name: {sorted(twice)}")
        return self


class Table:
    """The rules, ready to be matched.

    Attributes:
        kinds: What holds for each verdict.
        rules: The rules on lines, in the order of the file.
        signals: The rules on everything else.
        noise: What is no word of the engine's.
        stage_lines: Stages and the messages that begin them.
        stage_functions: Stages and the functions that run in them, in the order of precedence.
        triggers: One pattern over the bytes of a log; a line without it needs no reading once an
            engine has started.
        exits: What supervisors write when an engine ends, with the group ``code`` or ``signal``.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        document = _Document.model_validate(data)
        self.kinds = {kind.id: kind for kind in document.verdict}
        self.rules = document.rule
        self.signals = document.signal
        self.noise = tuple(CompiledNoise(noise) for noise in document.noise)
        self.stage_lines = tuple(
            (mark.id, re.compile("|".join(mark.lines))) for mark in document.stage if mark.lines
        )
        self.stage_functions = tuple(
            (mark.id, frozenset(mark.functions)) for mark in document.stage if mark.functions
        )
        self.exits = tuple(re.compile(pattern) for pattern in document.exits)
        self.triggers = _one_of(document.triggers)
        self.by_id = {rule.id: rule for rule in document.rule}
        self.compiled = tuple(CompiledRule(rule) for rule in document.rule)
        self.by_place = {
            place: tuple(rule for rule in self.compiled if place in rule.rule.at) for place in Place
        }


def _one_of(words: tuple[str, ...]) -> re.Pattern[bytes]:
    """One pattern for all words, grouped by first byte: half again as fast as a plain alternation."""
    groups: dict[bytes, list[bytes]] = {}
    for word in words:
        raw = word.encode()
        groups.setdefault(raw[:1], []).append(re.escape(raw[1:]))
    return re.compile(
        b"|".join(
            re.escape(head) + b"(?:" + b"|".join(rest) + b")" for head, rest in groups.items()
        )
    )


def _any(patterns: tuple[str, ...]) -> re.Pattern[str] | None:
    return re.compile("|".join(patterns)) if patterns else None


class CompiledNoise:
    """A kind of noise with its patterns compiled."""

    __slots__ = ("_close", "_files", "_frames", "_match", "_unless", "noise")

    def __init__(self, noise: Noise) -> None:
        self.noise = noise
        self._close = re.compile(noise.close) if noise.close else None
        self._match, self._files = _any(noise.match), _any(noise.files)
        self._frames, self._unless = _any(noise.frames), _any(noise.unless)

    def covers(self, text: str, file: str) -> bool:
        """Whether a record is this noise; tracebacks are judged by :meth:`covers_frames`."""
        if self._frames is not None or (self._files and not self._files.search(file)):
            return False
        if self._match is not None and not self._match.search(text):
            return False
        return self._unless is None or not self._unless.search(text)

    def closes(self, text: str) -> bool:
        """Whether the noise ends with this line rather than going on over the next."""
        return self._close is None or self._close.search(text) is not None

    def covers_frames(self, text: str, files: tuple[str, ...]) -> bool:
        """Whether an exception raised through these files is this noise."""
        if self._frames is None or not any(self._frames.search(file) for file in files):
            return False
        return self._unless is None or not self._unless.search(text)


class CompiledRule:
    """A rule with its patterns compiled."""

    __slots__ = ("_files", "_functions", "_match", "_unless", "rule")

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._match = tuple(re.compile(pattern) for pattern in rule.match)
        self._unless, self._files = _any(rule.unless), _any(rule.files)
        self._functions = frozenset(rule.functions)

    def search(self, text: str) -> re.Match[str] | None:
        """The first match of the rule's patterns in a message, unless an exception to it matches."""
        for pattern in self._match:
            if (found := pattern.search(text)) is not None:
                return None if self._unless and self._unless.search(text) else found
        return None

    def fits_file(self, file: str) -> bool:
        """Whether a record from this source file can hit."""
        return self._files is None or self._files.search(file) is not None

    def fits_functions(self, functions: tuple[str, ...]) -> bool:
        """Whether a traceback with these functions can hit."""
        return not self._functions or not self._functions.isdisjoint(functions)


@functools.cache
def table() -> Table:
    """The table that ships with tuner."""
    text = resources.files("tuner.verdict").joinpath("rules.toml").read_text(encoding="utf-8")
    return Table(tomllib.loads(text))
