"""The ledger's tables, and how an older ledger becomes a newer one."""

from __future__ import annotations

import sqlite3

VERSION = 2

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

_STEPS = (_FIRST, _QUEUE)
"""What each version adds to the one before it. Every statement can be run twice: two programs that meet
an older ledger at once both add the same."""


def version(db: sqlite3.Connection) -> int:
    """The version of the ledger's form; 0 for a file without tables."""
    (found,) = db.execute("PRAGMA user_version").fetchone()
    return int(found)


def prepare(db: sqlite3.Connection) -> None:
    """Create the tables in an empty ledger, or add to an older one what it lacks.

    Raises:
        sqlite3.DatabaseError: When the file is a ledger of a version that this tuner does not know.
    """
    found = version(db)
    if found > VERSION:
        raise sqlite3.DatabaseError(f"ledger version {found}, this tuner knows {VERSION}")
    for number, tables in enumerate(_STEPS[found:], found + 1):
        db.executescript(f"BEGIN IMMEDIATE; {tables} PRAGMA user_version = {number}; COMMIT;")
