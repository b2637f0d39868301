"""Result tables: configurations and what each of them came to, from a file or from a study.

A row whose value is empty is a configuration that did not run: it is kept, because a proxy that
chooses it has lost everything. A configuration that a table does not have was never tried there,
and says nothing.
"""

from __future__ import annotations

import csv
import datetime as dt
import hashlib
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tuner.errors import UserError
from tuner.fidelity.rule import Provenance, provenance, read_bytes
from tuner.score.rank import Tier
from tuner.spec.levels import REAL
from tuner.verdict.families import Family, family

Key = tuple[tuple[str, str], ...]
"""A configuration: names of its columns with their values in one form, sorted by name."""

_EMPTY = frozenset({"", "nan", "none", "null", "fail", "failed", "infeasible"})
_INCOMPLETE = Tier.INCOMPLETE.name.lower()
_DEAD = frozenset({Family.MEMORY, Family.REFUSED, Family.CRASHED, Family.WRONG})


@dataclass(frozen=True, slots=True)
class Table:
    """Configurations with their measurements.

    Attributes:
        source: Where it came from.
        rows: Each configuration's values, one a measurement; none where it did not run.
    """

    source: Provenance
    rows: Mapping[Key, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class RawTable:
    """Rows as they were read, before anyone has said which columns name a configuration."""

    source: Provenance
    rows: tuple[Mapping[str, Any], ...]

    @property
    def columns(self) -> list[str]:
        """All columns, in order of first appearance."""
        return list(dict.fromkeys(name for row in self.rows for name in row))


class MeasuredRow(Protocol):
    """What is asked of a trial of the ledger."""

    @property
    def params(self) -> dict[str, Any]:
        """The configuration."""

    @property
    def metrics(self) -> dict[str, Any] | None:
        """What was measured, by workload."""

    @property
    def levels(self) -> dict[str, Any]:
        """What it came to on cheaper levels, by level."""

    @property
    def verdict(self) -> str | None:
        """How it ended; None while it is not over."""

    @property
    def judgement(self) -> dict[str, Any] | None:
        """Proof and numbers behind the verdict."""

    @property
    def created(self) -> float:
        """When the trial was planned, seconds since 1970."""


def read_table(path: Path) -> RawTable:
    """Read a table: JSON lines where the name ends in ``.jsonl``, else CSV with a head line.

    Nested mappings become columns with dotted names: ``{"cfg": {"tp": 1}}`` is ``cfg.tp``.

    Raises:
        UserError: When the file cannot be read or is not such a table.
    """
    raw = read_bytes(path, "a result table (.csv or .jsonl)")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(
            "the table is not UTF-8", file=path, mend="save it with that encoding"
        ) from error
    lines = _json_rows(text, path) if path.suffix == ".jsonl" else _csv_rows(text, path)
    rows = tuple(lines)
    if not rows:
        raise UserError("the table has no rows", file=path)
    return RawTable(provenance(path, raw), rows)


def _json_rows(text: str, path: Path) -> Iterator[Mapping[str, Any]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"this is not JSON: {error}", file=path, line=number) from error
        if not isinstance(row, dict):
            raise UserError("each line holds one object", file=path, line=number)
        yield dict(_flat(row, ""))


def _flat(row: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _csv_rows(text: str, path: Path) -> Iterator[Mapping[str, Any]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    names = reader.fieldnames or []
    if len(set(names)) != len(names):
        raise UserError("two columns have one name", file=path, line=1)
    try:
        for row in reader:
            if None in row or None in row.values():
                raise UserError(
                    f"this row does not have {len(names)} cells", file=path, line=reader.line_num
                )
            yield row
    except csv.Error as error:
        raise UserError(f"this is not CSV: {error}", file=path, line=reader.line_num) from error


def keyed(raw: RawTable, key: Sequence[str], value: str) -> Table:
    """The table by configuration.

    Args:
        raw: The rows.
        key: Columns that name a configuration.
        value: Column of the value.

    Raises:
        UserError: When a column is missing, or a value is no number.
    """
    missing = [name for name in (*key, value) if name not in raw.columns]
    if missing:
        raise UserError(
            f"{raw.source.name} has no column {missing[0]!r}",
            mend=f"its columns are {', '.join(raw.columns)}",
        )
    rows: dict[Key, tuple[float, ...]] = {}
    for row in raw.rows:
        name = tuple((column, canonical(row.get(column))) for column in sorted(key))
        number = _number(row.get(value), raw.source.name, value)
        rows[name] = (*rows.get(name, ()), *(() if number is None else (number,)))
    return Table(raw.source, rows)


def _number(value: Any, table: str, column: str) -> float | None:
    """The value as a number; None where it says that the configuration did not run."""
    if value is None or str(value).strip().lower() in _EMPTY:
        return None
    try:
        number = math.inf if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.inf
    if not math.isfinite(number):
        raise UserError(
            f"{table}: {str(value)[:40]!r} in column {column!r} is no number",
            mend="leave it empty where a configuration did not run",
        )
    return number


def canonical(value: Any) -> str:
    """One form for one value, whether it came from CSV or from JSON: 8, 8.0 and "8" are the same."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | dict):
        return json.dumps(value, sort_keys=True)
    text = "" if value is None else str(value).strip()
    try:
        number = float(text)
    except ValueError:
        return text.lower() if text.lower() in {"true", "false"} else text
    if not math.isfinite(number):
        return text
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)


def level_table(trials: Iterable[MeasuredRow], study: str, level: str) -> RawTable:
    """What a study's trials came to on one level.

    A level is one that the study declared, ``real`` for the score, or one of its workloads. A trial
    that failed by its own doing has no value on the levels that it did not get through: its row is
    empty. So is one on whose level too little of the load succeeded for a score that compares.

    Args:
        trials: The study's trials; repeats on purpose are further measurements of their point.
        study: Its name, for the report.
        level: The level.

    Raises:
        UserError: When no trial was measured on that level.
    """
    rows: list[Mapping[str, Any]] = []
    known: set[str] = set()
    first = math.inf
    for trial in trials:
        figures, dead = _levels(trial), _died(trial)
        known |= figures.keys()
        if level in figures or dead:
            rows.append(dict(_flat(trial.params, "")) | {"value": figures.get(level)})
            first = min(first, trial.created)
    if level not in known:
        raise UserError(
            f"no trial of study {study!r} was measured on a level {level!r}",
            mend=f"levels there: {', '.join(sorted(known)) or 'none'}",
        )
    raw = json.dumps(rows, sort_keys=True).encode()
    # The figures are as old as the first of these trials: a rule that came first is older than that.
    since = dt.datetime.fromtimestamp(first, tz=dt.UTC)
    source = Provenance(f"{study}:{level}", hashlib.sha256(raw).hexdigest(), since)
    return RawTable(source, tuple(rows))


def _died(trial: MeasuredRow) -> bool:
    """Whether a trial failed by what it was, and not by what others did or because it was held."""
    teaches = (trial.judgement or {}).get("teaches", True)
    return bool(teaches) and family(trial.verdict, feasible=None) in _DEAD


def _levels(trial: MeasuredRow) -> dict[str, float | None]:
    """What a trial came to, by level; None where it has no value that compares with others."""
    metrics, dead = trial.metrics or {}, _died(trial)
    tier = metrics.get("tier")
    found: dict[str, float | None] = {}
    for name, workload in (metrics.get("workloads") or {}).items():
        whole = workload.get("tier", tier) != _INCOMPLETE and not dead
        found[name] = workload["figures"].get("weighted") if whole else None
    for name, level in trial.levels.items():
        found[name] = level.get("score")
    if "score" in metrics:
        found[REAL] = metrics["score"] if tier != _INCOMPLETE and not dead else None
    return found
