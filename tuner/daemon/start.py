"""Starting a daemon that goes on when whoever started it has gone, and ending one."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import BinaryIO

from tuner.daemon import home
from tuner.daemon.client import Client
from tuner.daemon.staff import clean_environment
from tuner.errors import StateUnusable, TunerError

_START = 20.0
_POLL = 0.1
_ENDING = 120.0
"""Seconds that a daemon may take to end, its trials in good order."""


def start(
    state: Path, *, tcp: int | None = None, idle_exit: float | None = None
) -> tuple[home.Address, bool]:
    """The daemon of a state folder; started when none runs.

    Args:
        state: The state folder.
        tcp: Port on 127.0.0.1 to listen on, 0 for any; None for the socket alone.
        idle_exit: Seconds without work after which a daemon that is started now ends. None for never:
            then one that runs already, and would end so, stays up too.

    Returns:
        Where it is, and whether it was started now.

    Raises:
        StateUnusable: When the folder cannot be used, or another tuner holds it.
        StudyConflict: When the daemon that runs cannot listen on that port.
        TunerError: When it cannot be started, or does not come up.
    """
    found, fresh = _answering(state), False
    if found is None:
        found, fresh = _started(state, tcp, idle_exit)
    if fresh or idle_exit is not None:
        return found, fresh
    with Client(state, need=True) as client:
        client.post("/v1/stay", {"tcp": tcp})
    return home.read_address(state) or found, False


def _started(state: Path, tcp: int | None, idle_exit: float | None) -> tuple[home.Address, bool]:
    """A new daemon, or one that somebody else was faster to start."""
    with _log_of(state) as log:
        try:
            child, ours = _spawn(state, tcp, idle_exit, log)
        except OSError as error:
            raise TunerError(
                f"the daemon's process cannot be started: {error}; too many processes or open files, or too"
                " little memory: see `ulimit -a`"
            ) from error
    return _await_ready(state, child, ours)


def _log_of(state: Path) -> BinaryIO:
    """The daemon's log, to be written at its end; the state folder is made when it is not there."""
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        return (state / home.LOG).open("ab")
    except OSError as error:
        raise StateUnusable(
            f"the state folder cannot be written: {error.strerror}",
            file=Path(error.filename) if error.filename else state,
            mend="name another one with --state DIR or TUNER_STATE",
        ) from error


def _spawn(
    state: Path, tcp: int | None, idle_exit: float | None, log: BinaryIO
) -> tuple[subprocess.Popen[bytes], int]:
    """Start the process; what it writes to when it listens is read at the other end of a pipe."""
    ours, theirs = os.pipe()
    argv = [sys.executable, "-m", "tuner.daemon", f"--state={state}", f"--ready={theirs}"]
    argv += [f"--tcp={tcp}"] if tcp is not None else []
    argv += [f"--idle-exit={idle_exit}"] if idle_exit is not None else []
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=[theirs],
            env=clean_environment(),
            cwd="/",
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return child, ours


def _answering(state: Path) -> home.Address | None:
    """The daemon that runs; one that is just starting or ending is waited for. None when none runs."""
    deadline = time.monotonic() + _ENDING
    while (found := home.read_address(state)) is not None:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(found.socket)
            except OSError:
                if time.monotonic() > deadline:
                    raise TunerError(
                        f"the daemon (process {found.pid}) does not answer; see {state / home.LOG}"
                    ) from None
                time.sleep(_POLL)
                continue
        return found
    return None


def _await_ready(
    state: Path, child: subprocess.Popen[bytes], ours: int
) -> tuple[home.Address, bool]:
    try:
        ready, _, _ = select.select([ours], [], [], _START)
        word = os.read(ours, 16) if ready else b""
    finally:
        os.close(ours)
    found = home.read_address(state)
    if word and found is not None:
        child.returncode = 0  # it lives on without us, and nobody is to wait for it
        if child.stderr is not None:
            child.stderr.close()
        return found, True
    return _not_up(state, child), False


def _not_up(state: Path, child: subprocess.Popen[bytes]) -> home.Address:
    """What to do about a daemon that did not say that it listens: another one may have been faster."""
    try:
        _, said = child.communicate(timeout=5)
    except subprocess.TimeoutExpired:
        child.kill()
        _, said = child.communicate()
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        if (found := home.read_address(state)) is not None:
            return found
        time.sleep(_POLL)
    lines = said.decode(errors="replace").strip().splitlines()
    word = lines[-1].removeprefix("tuner: ") if lines else f"see {state / home.LOG}"
    if child.returncode == StateUnusable.exit_code:
        raise StateUnusable(word)
    raise TunerError(f"the daemon did not start: {word}")


def await_end(address: home.Address, *, patience: float) -> bool:
    """Wait until a daemon's process is gone; whether it is."""
    deadline = time.monotonic() + patience
    while address.alive:
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL)
    return True
