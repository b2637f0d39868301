"""A sum for every row, so that a row that rotted, was torn or was edited is known.

SQLite checks how its pages hang together, not what is in them: a block of zeros inside a row is a
score of 0 to it. Triggers keep the sums, so that no write can forget them.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Sequence

FUNCTION = "row_sum"
COLUMN = "sum"
"""The last column of every table whose rows are summed."""


def register(db: sqlite3.Connection) -> None:
    """Teach a connection the function that the triggers call."""
    db.create_function(FUNCTION, -1, row_sum, deterministic=True)


def row_sum(*values: str | float | bytes | None) -> str:
    """The sum of a row's values, in the order of its columns."""
    plain = [value.hex() if isinstance(value, bytes) else value for value in values]
    raw = json.dumps(plain, ensure_ascii=True).encode()
    return hashlib.blake2b(raw, digest_size=8).hexdigest()


def sound(row: sqlite3.Row) -> bool:
    """Whether a row that was read whole is what tuner wrote; a row without a sum says nothing."""
    names = row.keys()
    return COLUMN not in names or row[COLUMN] == row_sum(*(row[n] for n in names if n != COLUMN))


def triggers(table: str, columns: Sequence[str]) -> tuple[str, ...]:
    """SQL that keeps the sums of a table; the sum's own column is not among ``columns``."""
    call = f"{FUNCTION}({', '.join(columns)})"
    return tuple(
        f"CREATE TRIGGER {table}_sum_{event.lower()} AFTER {event} ON {table} BEGIN "  # noqa: S608 - names of our own tables
        f"UPDATE {table} SET {COLUMN} = {call} WHERE rowid = NEW.rowid; END;"
        for event in ("INSERT", "UPDATE")
    )


def resum(table: str, columns: Sequence[str]) -> str:
    """SQL that sums every row of a table anew."""
    return f"UPDATE {table} SET {COLUMN} = {FUNCTION}({', '.join(columns)});"  # noqa: S608 - names of our own tables


def unsound(table: str, columns: Sequence[str]) -> str:
    """A question for the number of rows whose sum is wrong."""
    return f"SELECT count(*) FROM {table} WHERE {COLUMN} IS NOT {FUNCTION}({', '.join(columns)})"  # noqa: S608 - names of our own tables
