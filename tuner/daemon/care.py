"""What can be wrong with a daemon and its files, for ``tuner doctor``. Nothing is changed by it."""

from __future__ import annotations

import os
import shlex
import socket
import stat
import time
from pathlib import Path
from typing import Any

from tuner import __version__
from tuner.daemon import home
from tuner.daemon.client import Client
from tuner.daemon.config import read_config
from tuner.errors import TunerError, UserError
from tuner.quantity import format_seconds
from tuner.trial.care.finding import Finding, bad, note, ok

_CHECK = "daemon"
_PATIENCE = 10.0
"""Seconds for the daemon to say how it is doing; it answers at once, also while studies run."""


def look_at_daemon(state: Path, *, patience: float = _PATIENCE) -> list[Finding]:
    """Whether a daemon could start here, and how the one is doing that runs.

    Args:
        state: The state folder; it may not be there yet.
        patience: Seconds that it is given to answer.
    """
    return [*_look_at_config(state), *_look_at_rights(state), *_ask(state, patience)]


def _look_at_config(state: Path) -> list[Finding]:
    file = state / home.CONFIG
    try:
        if not file.exists():
            return []
        read_config(state)
    except UserError as error:
        said = f"no daemon starts with {file}: {error.message}"
        return [bad(home.CONFIG, said, error.mend or "see docs/how-to/be-told.md")]
    except OSError:
        return []  # the state folder itself may not be entered, which is said elsewhere
    return [ok(home.CONFIG, f"{file} is one that a daemon takes")]


def _look_at_rights(state: Path) -> list[Finding]:
    """Whether the files that a daemon makes anew at each start can be made."""
    found = []
    run, log = home.socket_path(state).parent, state / home.LOG
    try:
        seen = run.lstat()
        if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.getuid():
            said = f"{run}, where its socket lies, must be a folder of yours, and it is not"
            found.append(bad(_CHECK, said, f"sudo rm -r {shlex.quote(str(run))}"))
    except OSError:
        pass  # not there yet
    if log.exists() and not (log.is_file() and os.access(log, os.W_OK)):
        said = f"{log} cannot be written by you, and no daemon starts without it"
        found.append(bad(_CHECK, said, f"sudo rm -r {shlex.quote(str(log))}"))
    return found


def _ask(state: Path, patience: float) -> list[Finding]:
    address = home.read_address(state)
    if address is None:
        return [ok(_CHECK, "none runs here; `tuner run` starts one")]
    who = f"process {address.pid}"
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(patience)
            probe.connect(address.socket)
        with Client(state, need=True, patience=patience) as client:
            health = client.get("/v1/health")
    except (OSError, TunerError) as error:
        if not address.alive:
            return [ok(_CHECK, f"{who} has just ended")]
        said = f"{who} lives, and does not answer at {address.socket}: {error}"
        return [bad(_CHECK, said, _end(state, address.pid))]
    found = []
    if health["version"] != __version__:
        said = f"{who} is of tuner {health['version']}, and this is {__version__}"
        found.append(bad(_CHECK, said, "tuner daemon stop; the next `tuner run` starts a new one"))
    if health["recovering"]:
        found.append(note(_CHECK, f"{who} still ends what an earlier daemon left"))
    found += [note(_CHECK, f"{who} says: {problem}") for problem in health["problems"]]
    up = format_seconds(time.time() - address.started)
    return found or [ok(_CHECK, f"{who} answers, up {up}, and works on {_work(health)}")]


def _work(health: dict[str, Any]) -> str:
    return ", ".join(health["running"]) or "nothing"


def _end(state: Path, pid: int) -> str:
    return f"see {state / home.LOG}; kill {pid} ends it, and the next `tuner run` goes on with its studies"
