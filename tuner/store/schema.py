"""The ledger's tables, and how an older ledger becomes a newer one."""

from __future__ import annotations

import sqlite3

from tuner.store import sums

VERSION = 3

_FIRST = """
CREATE TABLE IF NOT EXISTS studies (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    fingerprint TEXT NOT NULL,
    space TEXT NOT NULL,          -- the search space's text, as it was given
    origin TEXT NOT NULL,         -- the file it came from
    status TEXT NOT NULL,         -- queued | running | paused | finished | stopped | failed
    reason TEXT,                  -- why it is in this status
    facts TEXT NOT NULL,          -- JSON: machine, engine, versions
    created REAL NOT NULL,        -- seconds since 1970
    ended REAL
) STRICT;

CREATE TABLE IF NOT EXISTS trials (
    study INTEGER NOT NULL REFERENCES studies(id),
    number INTEGER NOT NULL,
    origin TEXT NOT NULL,         -- baseline | first | search | simpler | repeat | profile
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

CREATE TABLE IF NOT EXISTS transitions (
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
CREATE UNIQUE INDEX IF NOT EXISTS told_once ON transitions(study, number) WHERE stage = 'told';

CREATE TABLE IF NOT EXISTS launches (
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

CREATE TABLE IF NOT EXISTS quarantine (
    device TEXT PRIMARY KEY,
    reason TEXT NOT NULL,
    since REAL NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY,
    study INTEGER NOT NULL,
    number INTEGER,
    kind TEXT NOT NULL,
    at REAL NOT NULL,
    data TEXT NOT NULL
) STRICT;
"""

_QUEUE = """
CREATE TABLE IF NOT EXISTS queue (
    study INTEGER PRIMARY KEY REFERENCES studies(id),
    wanted TEXT NOT NULL,         -- run | pause | stop
    priority INTEGER NOT NULL,    -- higher goes first
    place REAL NOT NULL,          -- among equals, lower goes first
    budget TEXT NOT NULL,         -- JSON: limits in place of the search space's own
    devices TEXT,                 -- JSON: names of the devices it may have; NULL for what it asks
    stood TEXT NOT NULL,          -- the folder in which the person stood who submitted it
    deaths INTEGER NOT NULL DEFAULT 0 -- of its worker, since a trial was last told
) STRICT;

CREATE TABLE IF NOT EXISTS marks (
    name TEXT PRIMARY KEY,        -- who reads events
    event INTEGER NOT NULL        -- the last one that was dealt with
) STRICT;

CREATE INDEX IF NOT EXISTS events_of_study ON events(study, id);
CREATE INDEX IF NOT EXISTS transitions_of_trial ON transitions(study, number, id);
"""

_SUMS = """
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

_STEPS = (_FIRST, _QUEUE, _SUMS)
"""What each version adds to the one before it."""

_SUMMED = (
    "studies", "trials", "transitions", "launches", "quarantine", "events",
    "queue", "marks", "baselines",
)  # fmt: skip
"""Tables whose rows have sums, from version 3 on."""


def version(db: sqlite3.Connection) -> int:
    """The version of the ledger's form; 0 for a file without tables."""
    (found,) = db.execute("PRAGMA user_version").fetchone()
    return int(found)


def prepare(db: sqlite3.Connection) -> None:
    """Create the tables in an empty ledger, or add to an older one what it lacks; all or nothing."""
    if version(db) >= VERSION:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        found = version(db)  # another program may have been here first
        if found < VERSION:
            _raise(db, found)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _raise(db: sqlite3.Connection, found: int) -> None:
    for tables in _STEPS[found:]:
        for statement in _statements(tables):
            db.execute(statement)
    for table in _SUMMED:
        db.execute(f"ALTER TABLE {table} ADD COLUMN sum TEXT")
        columns = _columns(db, table)
        for statement in (sums.resum(table, columns), *sums.triggers(table, columns)):
            db.execute(statement)
    db.execute(f"PRAGMA user_version = {VERSION}")


def _statements(script: str) -> list[str]:
    """The statements of a script, one by one: run as a script they would end the transaction."""
    found, statement = [], ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            found.append(statement)
            statement = ""
    return found


def _columns(db: sqlite3.Connection, table: str) -> tuple[str, ...]:
    found = db.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
    return tuple(row[0] for row in found if row[0] != sums.COLUMN)


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
