"""The ledger's tables, and how an older ledger becomes a newer one."""

from __future__ import annotations

import sqlite3

from tuner.store import sums

VERSION = 2

_TABLES = """
CREATE TABLE studies (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    fingerprint TEXT NOT NULL,
    space TEXT NOT NULL,          -- the search space's text, as it was given
    origin TEXT NOT NULL,         -- the file it came from
    status TEXT NOT NULL,         -- running | finished | stopped | failed
    reason TEXT,                  -- why it is in this status
    facts TEXT NOT NULL,          -- JSON: machine, engine, versions
    created REAL NOT NULL,        -- seconds since 1970
    ended REAL
) STRICT;

CREATE TABLE trials (
    study INTEGER NOT NULL REFERENCES studies(id),
    number INTEGER NOT NULL,
    origin TEXT NOT NULL,         -- baseline | first | search | repeat
    repeats INTEGER,              -- number of the trial that this one measures again
    block INTEGER,                -- which interleaved block of repeats it belongs to
    params TEXT NOT NULL,         -- JSON: the point that runs, exactly
    assignment TEXT,              -- JSON: the point as the sampler named it
    deployment TEXT NOT NULL,     -- JSON
    stage TEXT NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    verdict TEXT,
    judgement TEXT,               -- JSON: proof, advice, numbers
    metrics TEXT,                 -- JSON
    score REAL,
    feasible INTEGER,
    constraints TEXT,             -- JSON: name -> violation, <= 0 is feasible
    value REAL,                   -- what the sampler was told
    created REAL NOT NULL,
    ended REAL,
    PRIMARY KEY (study, number)
) STRICT;

CREATE TABLE transitions (
    id INTEGER PRIMARY KEY,
    study INTEGER NOT NULL,
    number INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    stage TEXT NOT NULL,
    at REAL NOT NULL,             -- seconds since 1970; may jump
    clock REAL NOT NULL,          -- seconds on the boot's clock; never jumps
    boot TEXT NOT NULL,
    detail TEXT NOT NULL,         -- JSON
    FOREIGN KEY (study, number) REFERENCES trials(study, number)
) STRICT;
CREATE UNIQUE INDEX told_once ON transitions(study, number) WHERE stage = 'told';

CREATE TABLE launches (
    id INTEGER PRIMARY KEY,
    study INTEGER NOT NULL,
    number INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    kind TEXT NOT NULL,           -- process | docker
    identity TEXT NOT NULL,       -- JSON: how to know the engine again
    status TEXT NOT NULL,         -- intended | started | gone | quarantined
    proof TEXT,                   -- JSON
    at REAL NOT NULL,
    FOREIGN KEY (study, number) REFERENCES trials(study, number)
) STRICT;

CREATE TABLE quarantine (
    device TEXT PRIMARY KEY,
    reason TEXT NOT NULL,
    since REAL NOT NULL
) STRICT;

CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    study INTEGER NOT NULL,
    number INTEGER,
    kind TEXT NOT NULL,
    at REAL NOT NULL,
    data TEXT NOT NULL
) STRICT;
"""

_SECOND = """
ALTER TABLE trials ADD COLUMN history TEXT; -- why it does not count any more; NULL where it does

CREATE TABLE baselines (
    device TEXT PRIMARY KEY,
    boot TEXT NOT NULL,
    name TEXT NOT NULL,
    used INTEGER NOT NULL,        -- bytes that the device holds when nothing of ours runs
    total INTEGER NOT NULL,
    at REAL NOT NULL
) STRICT;

CREATE TABLE changes (number INTEGER NOT NULL) STRICT;
INSERT INTO changes VALUES (0);
"""

_SUMMED = ("studies", "trials", "transitions", "launches", "quarantine", "events", "baselines")


def version(db: sqlite3.Connection) -> int:
    """The version of the ledger's form; 0 for a file without tables."""
    (found,) = db.execute("PRAGMA user_version").fetchone()
    return int(found)


def prepare(db: sqlite3.Connection) -> None:
    """Bring the tables to the newest form, in one transaction."""
    found = version(db)
    if found == VERSION:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        _make(db, found)
        db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _make(db: sqlite3.Connection, found: int) -> None:
    if found == 0:
        _run(db, _TABLES)
    _run(db, _SECOND)
    for table in _SUMMED:
        db.execute(f"ALTER TABLE {table} ADD COLUMN sum TEXT")
        columns = _columns(db, table)
        db.execute(sums.resum(table, columns))
        _run(db, sums.triggers(table, columns))


def _run(db: sqlite3.Connection, script: str) -> None:
    """Run statements inside of the transaction that is open; ``executescript`` would end it."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            db.execute(statement)
            statement = ""


def _columns(db: sqlite3.Connection, table: str) -> tuple[str, ...]:
    found = db.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
    return tuple(row[0] for row in found if row[0] != "sum")


def changes(db: sqlite3.Connection) -> int:
    """How many changes the ledger has seen."""
    (found,) = db.execute("SELECT number FROM changes").fetchone()
    return int(found)


def count_change(db: sqlite3.Connection) -> int:
    """Count one more change, as a part of it; its number."""
    db.execute("UPDATE changes SET number = number + 1")
    return changes(db)


def altered(db: sqlite3.Connection) -> str | None:
    """A table that holds a row which is not what tuner wrote; None when all are."""
    for table in _SUMMED:
        (wrong,) = db.execute(sums.unsound(table, _columns(db, table))).fetchone()
        if wrong:
            return table
    return None
