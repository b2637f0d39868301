"""Reads a log of any size in one pass with bounded memory.

While an engine starts every line is read, since that is where it speaks about itself. Once it
serves, only lines that hold one of the table's triggers are read, together with the tracebacks
that they open; a log of hundreds of megabytes is mostly access lines and throughput reports.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tuner.quantity import parse_bytes
from tuner.verdict.facts import FactsReader
from tuner.verdict.kinds import Level, Place, Stage
from tuner.verdict.lines import Line, clean, parse
from tuner.verdict.reading import EVIDENCE_WIDTH, Boot, Hit, LogReading, Numbers, Proof
from tuner.verdict.rules import NUMBERS, CompiledNoise, CompiledRule, Rule, Table, table
from tuner.verdict.stream import Gate, chunks
from tuner.verdict.tracebacks import Entry, Tracebacks

_START_LINES = 20_000
"""Lines of a start that are all read; an engine that has not started by then is read by triggers."""
_SETTLE_LINES = 500
"""Lines that are all read after it became ready."""
_WATCH_LINES = 60
"""Lines that are all read after a hit."""
_TAIL_LINES = 20
_LAST_LINES = 6
_FIRST_BOOTS, _LAST_BOOTS = 2, 20
_HITS_KEPT = 3
_ACCESS = re.compile(r'"(?P<verb>GET|POST) (?P<path>/\S{0,200}) [^"]{0,20}" (?P<status>\d{3})')


def read_log(source: Path | Iterable[str | bytes], rules: Table | None = None) -> LogReading:
    """Read a log.

    Args:
        source: A file, or the lines of a log.
        rules: The table of rules; the one that ships with tuner where none is given.

    Raises:
        OSError: When the file cannot be read.
    """
    scanner = Scanner(rules or table())
    for chunk in chunks(source):
        scanner.feed(chunk)
    return scanner.finish()


class Scanner:
    """One pass over one log: :meth:`feed` its bytes in order, then :meth:`finish`."""

    def __init__(self, rules: Table) -> None:
        self._table = rules
        self._tracebacks = Tracebacks()
        self._gate = Gate(rules.triggers, lambda: self._tracebacks.open, _START_LINES)
        self._facts = FactsReader()
        self._boots = [Boot(first=1)]
        self._starts = 1
        self._echo: CompiledNoise | None = None

    @property
    def stage(self) -> Stage:
        """The furthest stage that the start in hand has reached by what was fed so far."""
        return self._boots[-1].stage

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the log."""
        for number, raw in self._gate.feed(chunk):
            self._line(raw, number)

    def finish(self) -> LogReading:
        """All that was read."""
        for number, raw in self._gate.close():
            self._line(raw, number)
        self._boots[-1].generation = self._facts.generation
        for boot in self._boots:
            boot.hits = [hit for hit in boot.hits if self._stands(boot, hit)]
        return LogReading(
            boots=tuple(self._boots),
            starts=self._starts,
            lines=self._gate.number,
            size=self._gate.size,
            tail=self._last_lines(),
            facts=self._facts.facts(),
        )

    def _last_lines(self) -> tuple[Proof, ...]:
        kept = [
            _proof(line)
            for number, raw in self._gate.tail()[-_TAIL_LINES:]
            for line in parse(raw.decode(errors="replace"), number)
            if line.text.strip()
        ]
        return tuple(kept[-_TAIL_LINES:])

    @staticmethod
    def _access(boot: Boot, number: int, text: str) -> None:
        """Notice an access line: what the server answered is how the engine stood."""
        found = _ACCESS.search(text)
        if found is None:
            return
        proof = Proof(number, clean(text.strip())[:EVIDENCE_WIDTH])
        good = found["status"].startswith("2")
        if found["verb"] == "GET":
            if good and found["path"].startswith(("/health", "/ping")):
                boot.health = proof
        elif good:
            boot.served = proof
        elif found["status"].startswith("5"):
            boot.refused = proof

    def _stands(self, boot: Boot, hit: Hit) -> bool:
        rule = hit.rule
        if boot.counts.get(rule.id, 0) < rule.times:
            return False
        if rule.generations and boot.generation not in (None, *rule.generations):
            return False
        return not rule.last or hit.line > self._gate.number - _LAST_LINES

    def _line(self, raw: bytes, number: int) -> None:
        for line in parse(raw.decode(errors="replace"), number):
            if not self._noisy(line):
                self._read(line)

    def _noisy(self, line: Line) -> bool:
        if self._echo is not None:
            bare = line.level is Level.NONE
            if not bare or self._echo.closes(line.text):
                self._echo = None
            if bare:
                return True
        for noise in self._table.noise:
            if noise.covers(line.text, line.file):
                if not noise.closes(line.text):
                    self._echo = noise
                if noise.noise.stage is Stage.SERVING:
                    self._advance(self._boots[-1], Stage.SERVING, line)
                elif line.source == "uvicorn":
                    self._served(line)
                return True
        return False

    def _served(self, line: Line) -> None:
        boot = self._boots[-1]
        self._access(boot, line.number, line.text)
        if boot.served is not None and boot.served.line == line.number:
            self._advance(boot, Stage.SERVING, line)
        elif boot.refused is not None and boot.refused.line == line.number:
            boot.stage = max(boot.stage, Stage.SERVING, key=lambda stage: stage.order)

    def _read(self, line: Line) -> None:
        entry = self._tracebacks.place(line)
        if entry.files and any(n.covers_frames(line.text, entry.files) for n in self._table.noise):
            return
        if entry.place in (Place.INFO, Place.WARNING, Place.RAW):
            self._mark(line)
            if self._boots[-1].ready is None:
                self._facts.feed(line)
        elif self._boots[-1].ready is None:
            self._facts.feed(line)
        if entry.place is not Place.FRAME:
            self._match(entry)

    def _mark(self, line: Line) -> None:
        """Notice the stages and the ends that a message shows."""
        boot = self._boots[-1]
        for pattern in self._table.exits:
            if (found := pattern.search(line.text)) is not None:
                named = found.groupdict()
                boot.exit_code = int(named["code"]) if named.get("code") else -int(found["signal"])
                boot.exit_line = _proof(line)
        for stage, pattern in self._table.stage_lines:
            if pattern.search(line.text) is None:
                continue
            if stage is Stage.STARTING:
                self._begin(line)
            elif stage is Stage.STOPPING:
                boot.stop_done = boot.stop is not None
                boot.stop = boot.stop or _proof(line)
            else:
                self._advance(boot, stage, line)

    def _begin(self, line: Line) -> None:
        boot = self._boots[-1]
        if not boot.decided and boot.exit_code is None and boot.stage.order <= Stage.STARTING.order:
            boot.stage = Stage.STARTING
            return
        boot.generation = self._facts.generation
        self._boots.append(Boot(first=line.number, stage=Stage.STARTING))
        self._starts += 1
        if len(self._boots) > _FIRST_BOOTS + _LAST_BOOTS:
            del self._boots[_FIRST_BOOTS]
        self._tracebacks.reset()
        self._facts.reset()
        self._facts.feed(line)
        self._gate.watch(_START_LINES)

    def _advance(self, boot: Boot, stage: Stage, line: Line) -> None:
        if boot.stop is not None:
            return
        if not stage.before_ready and boot.ready is None:
            boot.ready = _proof(line)
            self._gate.watch(_SETTLE_LINES)
            if stage is Stage.READY:
                # Whatever went wrong before was survived: the engine says that it is up.
                boot.hits = [hit for hit in boot.hits if not hit.rule.rank.fatal]
        if stage.order > boot.stage.order:
            boot.stage = stage

    def _match(self, entry: Entry) -> None:
        for compiled in self._table.by_place[entry.place]:
            if (hit := self._hit(compiled, entry)) is not None:
                self._keep(hit)
                self._gate.telling(entry.line.source)

    def _hit(self, compiled: CompiledRule, entry: Entry) -> Hit | None:
        rule, line = compiled.rule, entry.line
        if entry.ignored and not rule.ignored_too:
            return None
        if rule.roles and line.role not in rule.roles:
            return None
        found = compiled.search(line.text)
        if found is None or not compiled.fits_file(line.file):
            return None
        if not compiled.fits_functions(entry.functions):
            return None
        stage = rule.stage or self._stage_of(entry)
        if rule.stages and stage not in rule.stages:
            return None
        numbers = _numbers(rule, found)
        if rule.used_share is not None and not _share_within(numbers, rule.used_share):
            return None
        return Hit(rule, line.number, line.text[:EVIDENCE_WIDTH], stage, line.role, numbers)

    def _stage_of(self, entry: Entry) -> Stage:
        """Where the engine was: its traceback knows best, then the log up to here."""
        for stage, functions in self._table.stage_functions:
            if not functions.isdisjoint(entry.functions):
                return stage
        boot = self._boots[-1]
        if boot.stop is not None:
            return Stage.STOPPING
        return Stage.SERVING if boot.stage is Stage.READY else boot.stage

    def _keep(self, hit: Hit) -> None:
        boot = self._boots[-1]
        name = hit.rule.id
        boot.counts[name] = boot.counts.get(name, 0) + 1
        if boot.counts[name] > _HITS_KEPT:
            last = max(i for i, kept in enumerate(boot.hits) if kept.rule.id == name)
            del boot.hits[last]
        boot.hits.append(hit)
        self._gate.watch(_WATCH_LINES, only_more=True)


def _proof(line: Line) -> Proof:
    return Proof(line.number, line.text[:EVIDENCE_WIDTH])


def _numbers(rule: Rule, found: re.Match[str]) -> Numbers | None:
    groups = found.groupdict()
    values = {name: _amount(groups, name, rule.unit) for name in NUMBERS}
    if all(value is None for value in values.values()):
        return None
    return Numbers("bytes" if rule.unit == "GiB" else rule.unit, **values)


def _amount(groups: dict[str, str | None], name: str, unit: str) -> float | None:
    text = groups.get(name)
    if text is None:
        return None
    plain = text.replace(",", "")
    size = groups.get(f"{name}_unit") or (unit if unit == "GiB" else None)
    if size is None:
        return float(plain)
    sign = -1 if plain.startswith("-") else 1
    return float(sign * parse_bytes(f"{plain.lstrip('-')} {'B' if size == 'bytes' else size}"))


def _share_within(numbers: Numbers | None, bounds: tuple[float, float]) -> bool:
    if numbers is None or not numbers.total or numbers.available is None:
        return False
    return bounds[0] <= (numbers.total - numbers.available) / numbers.total < bounds[1]
