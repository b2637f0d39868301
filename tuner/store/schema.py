"""The ledger's tables, and how an older ledger becomes a newer one."""

from __future__ import annotations

import sqlite3

VERSION = 1

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


def version(db: sqlite3.Connection) -> int:
    """The version of the ledger's form; 0 for a file without tables."""
    (found,) = db.execute("PRAGMA user_version").fetchone()
    return int(found)


def prepare(db: sqlite3.Connection) -> None:
    """Create the tables in an empty ledger.

    Raises:
        sqlite3.DatabaseError: When the file is a ledger of a version that this tuner does not know.
    """
    found = version(db)
    if found == VERSION:
        return
    if found != 0:
        raise sqlite3.DatabaseError(f"ledger version {found}, this tuner knows {VERSION}")
    db.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {VERSION}; COMMIT;")
