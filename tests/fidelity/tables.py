"""Small result tables for the tests of comparisons."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

from tuner.fidelity.rule import Provenance, Rule
from tuner.fidelity.table import RawTable

NOW = dt.datetime(2026, 7, 16, 12, tzinfo=dt.UTC)

# TP x max-num-seqs, twelve cells, made to have what the founding study reports of its own: the
# best cell at TP 2 and 32 sequences, five tied pairs among 66, and a worst cell 60.91 % below.
CELLS = [(tp, mns) for tp in (1, 2, 4) for mns in (8, 16, 32, 64)]
REAL = [1.4, 1.5, 1.7, 1.7, 1.9, 2.4, 2.56, 2.5405, 1.0007, 1.4, 1.9, 1.9]


def source(name: str, hours: int = 0) -> Provenance:
    return Provenance(name, "0" * 64, NOW + dt.timedelta(hours=hours))


def table(name: str, rows: Sequence[Mapping[str, object]], hours: int = 1) -> RawTable:
    return RawTable(source(name, hours), tuple(rows))


def surface(name: str, values: Sequence[float | None]) -> RawTable:
    rows = [
        {"tp": tp, "mns": mns, "value": value}
        for (tp, mns), value in zip(CELLS, values, strict=True)
    ]
    return table(name, rows)


def rule(**changes: object) -> Rule:
    return Rule.model_validate({"noise": 0.005, **changes})
