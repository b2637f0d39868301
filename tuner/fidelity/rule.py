"""The rule by which a proxy is judged, written down before anyone has seen the figures.

A rule file says what is asked, which columns hold the answer, how noisy one measurement is, and
what must hold. The file's hash and time go into the report, so that a reader can tell whether the
rule came first.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tuner.errors import SpaceError, UserError
from tuner.spec.strict_yaml import Document, parse_document

_STRICT = ConfigDict(extra="forbid", frozen=True, strict=True)
Part = Annotated[float, Field(ge=0, le=1)]


class TopK(BaseModel):
    """How much of the real best k the proxy must have among its own best k."""

    model_config = _STRICT

    k: Annotated[int, Field(ge=1)]
    overlap: Part


class Require(BaseModel):
    """What must hold for the answer "supported".

    Attributes:
        tau_b: Lowest tau-b over informative pairs.
        regret: Highest worst-tie selection regret, as a part of the best.
        p: Highest one-sided p-value.
        pairs: Fewest informative pairs; with fewer nothing is decided about the order.
        levels: Fewest different values that the proxy gives.
        pair_signs: Lowest part of informative pairs with the right sign, where it is asked for.
        top_k: Least overlap of the best, where it is asked for.
    """

    model_config = _STRICT

    tau_b: Annotated[float, Field(ge=-1, le=1)] = 0.8
    regret: Annotated[float, Field(ge=0)] = 0.05
    p: Part = 0.05
    pairs: Annotated[int, Field(ge=1)] = 8
    levels: Annotated[int, Field(ge=1)] = 1
    pair_signs: Part | None = None
    top_k: TopK | None = None


class Rule(BaseModel):
    """A rule file.

    Attributes:
        question: What is asked, for the report.
        better: Which way the value is better.
        value: Column of the value in both tables.
        proxy_value: Column of the proxy's value, where it has another name there.
        key: Columns that name a configuration; empty takes all that both tables have.
        noise: Deviation of one real measurement as a part of its value, or ``repeats``: taken from
            configurations that the real table has more than once.
        require: What must hold.
    """

    model_config = _STRICT

    question: str = ""
    better: Literal["higher", "lower"] = "higher"
    value: str = "value"
    proxy_value: str | None = None
    key: tuple[str, ...] = ()
    noise: Annotated[float, Field(ge=0, lt=1)] | Literal["repeats"] = "repeats"
    require: Require = Require()


@dataclass(frozen=True, slots=True)
class Provenance:
    """Which file something was read from, so that it can be recognised.

    Attributes:
        name: The file, or the study and its level.
        sha256: Hash of its bytes, or of the rows that were read.
        modified: When it was last changed, UTC.
    """

    name: str
    sha256: str
    modified: dt.datetime


def provenance(path: Path, raw: bytes) -> Provenance:
    """Where a file's content came from."""
    changed = dt.datetime.fromtimestamp(path.stat().st_mtime, tz=dt.UTC)
    return Provenance(str(path), hashlib.sha256(raw).hexdigest(), changed)


def read_bytes(path: Path, what: str) -> bytes:
    """The content of a file that the user named.

    Raises:
        UserError: When it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UserError(
            f"cannot be read: {reason}", file=path, mend=f"give the path of {what}"
        ) from error


def read_rule(path: Path) -> tuple[Rule, Provenance]:
    """Read a rule file.

    Raises:
        UserError: When it cannot be read, is not strict YAML or says something a rule cannot say.
    """
    raw = read_bytes(path, "a rule file")
    try:
        document = parse_document(raw, path)
    except SpaceError as error:
        raise UserError(error.message, file=path, line=error.line, mend=error.mend) from error
    return _validated(document), provenance(path, raw)


def _validated(document: Document) -> Rule:
    if not isinstance(document.data, dict):
        raise UserError("a rule file is a mapping", file=document.file, line=1)
    try:
        return Rule.model_validate(document.data)
    except ValidationError as error:
        first = error.errors()[0]
        where = tuple(first["loc"])
        name = ".".join(str(step) for step in document.place(where) or where)
        raise UserError(
            f"{name}: {first['msg'][:1].lower()}{first['msg'][1:]}",
            file=document.file,
            line=document.line(where),
            mend=f"a rule has {', '.join(Rule.model_fields)}; it requires {', '.join(Require.model_fields)}",
        ) from error
