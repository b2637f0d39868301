"""A worker: the process that works on one study, started by a daemon and talking to it.

It ends in good order when it is told to, and when its daemon dies: nothing runs that nobody can
talk to. What it was doing then is in the ledger, and the next daemon goes on there.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from tuner.daemon import wire
from tuner.errors import StateUnusable, TunerError, last_words, ungrouped
from tuner.store.ledger import Ledger
from tuner.trial.events import Happening
from tuner.trial.wishes import Wishes

BUSY = 75
"""Exit status of a worker that found another process at work on its study."""

_VOLATILE = frozenset({"build", "engine", "load", "budget", "sample"})
_FEWEST = 0.2
"""Seconds between two packets of one volatile kind: nobody reads faster."""


class Mouth:
    """Tells the daemon what happens: volatile things in full, the others by a hint to read the ledger.

    Args:
        end: The worker's end of the channel.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._last: dict[str, float] = {}

    def hear(self, what: Happening) -> None:
        """Take in one happening."""
        if what.kind not in _VOLATILE:
            self._last.clear()
            wire.send(self._end, {"hint": what.kind})
            return
        # The last word of a load is worth more than its pace.
        final = what.kind == "load" and what.data["done"] == what.data["of"]
        if what.at - self._last.get(what.kind, 0.0) < _FEWEST and not final:
            return
        self._last[what.kind] = what.at
        wire.send(
            self._end,
            {"kind": what.kind, "number": what.number, "data": what.data, "at": what.at},
        )


class Ear(threading.Thread):
    """Hears what the daemon wishes; the daemon's end is the wish to stop.

    Args:
        end: The worker's end of the channel.
        wishes: Where wishes go.
    """

    def __init__(self, end: socket.socket, wishes: Wishes) -> None:
        super().__init__(name="ear", daemon=True)
        self._end = end
        self._wishes = wishes

    def run(self) -> None:
        """Listen until the channel ends."""
        while (said := wire.receive(self._end)) is not None:
            self._take(said)
        self._wishes.cancelled.set()

    def _take(self, said: dict[str, Any]) -> None:
        match said.get("do"):
            case "stop":
                self._wishes.cancelled.set()
            case "pause":
                self._wishes.pausing.set()
            case "go":
                self._wishes.pausing.clear()
            case "budget":
                self._wishes.allow(said["budget"])


def main() -> int:
    """Work on the study that the command line names, as the first packet says."""
    parser = argparse.ArgumentParser(prog="tuner.daemon.worker")
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--study", required=True)
    parser.add_argument("--channel", type=int, required=True)
    asked = parser.parse_args()
    with socket.socket(fileno=asked.channel) as end:
        os.set_inheritable(asked.channel, False)  # noqa: FBT003 - its only argument
        begin = wire.receive(end)
        if begin is None:
            return 0  # the daemon died right after it started us
        return _work(asked.state, asked.study, end, begin)


def _work(state: Path, name: str, end: socket.socket, begin: dict[str, Any]) -> int:
    from tuner.trial.session import work  # noqa: PLC0415 - heavy; the channel is watched before

    wishes = Wishes(budget=begin["budget"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: wishes.cancelled.set())
    # Set here and not at our birth: /proc shows the environment that a process was born with.
    os.environ.update(begin["secrets"])
    with contextlib.suppress(OSError):
        os.chdir(begin["stood"])
    Ear(end, wishes).start()
    try:
        with ungrouped(), Ledger(state, write=True, hold=False) as ledger:
            row = ledger.study(name)
            work(
                ledger,
                row,
                watchers=[Mouth(end).hear],
                wishes=wishes,
                devices=begin["devices"],
            )
    except StateUnusable as error:
        print(last_words(error), file=sys.stderr)  # noqa: T201 - goes to the worker's log
        return BUSY
    except TunerError as error:
        print(last_words(error), file=sys.stderr)  # noqa: T201 - goes to the worker's log
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
