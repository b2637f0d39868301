"""Where tuner keeps things: the state folder, the cache, and the data that ships with it."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from tuner.errors import StateUnusable

APP = "enginex-tuner"
STATE_MARK = ".tuner-state"


def state_dir(asked: Path | None = None) -> Path:
    """The state folder: ledger, artifacts, logs.

    The first of: what was asked for, ``$TUNER_STATE``, ``./state`` where it carries the mark of a
    tuner state folder (a checkout's does), the user's state folder. The folder is not created here.

    Args:
        asked: The folder given on the command line, if one was.
    """
    if asked is not None:
        return asked.expanduser().resolve()
    if env := os.environ.get("TUNER_STATE"):
        return Path(env).expanduser().resolve()
    local = Path.cwd() / "state"
    if (local / STATE_MARK).is_file():
        return local
    return Path(platformdirs.user_state_dir(APP))


def check_state(folder: Path) -> None:
    """Refuse a state folder that is none, or that can never be one: a file, or below a file.

    Args:
        folder: The state folder; it need not be there.

    Raises:
        StateUnusable: When it is no folder, or nobody can see whether it is one.
    """
    mend = "name another one with --state DIR or TUNER_STATE"
    try:
        there = next(each for each in (folder, *folder.parents) if each.exists())
    except OSError as error:
        said = f"the state folder cannot be seen: {error.strerror}"
        raise StateUnusable(said, file=folder, mend=mend) from error
    if not there.is_dir():
        which = "it" if there == folder else str(there)
        raise StateUnusable(
            f"the state folder cannot be used: {which} is not a folder", file=folder, mend=mend
        )


def cache_dir() -> Path:
    """The user's cache folder for built engines, models and wheels (``$TUNER_CACHE`` overrides)."""
    if env := os.environ.get("TUNER_CACHE"):
        return Path(env).expanduser().resolve()
    return Path(platformdirs.user_cache_dir(APP))


def data_dir() -> Path:
    """The folder that holds ``engine/`` and ``search_spaces/``: the wheel's copy or the checkout."""
    packaged = Path(__file__).parent / "_data"
    if packaged.is_dir():
        return packaged
    return Path(__file__).resolve().parent.parent
