"""A ledger that kills its process at a chosen moment, and the study that is worked on with it."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from tuner.spec import load_space
from tuner.store.database import Database
from tuner.store.ledger import Ledger
from tuner.trial.entry import enter_study
from tuner.trial.session import work
from tuner.trial.wishes import Wishes

BEFORE, AFTER = "before", "after"


@dataclass(frozen=True, slots=True)
class Job:
    """What a child is to do.

    Attributes:
        folder: Its working folder; the state folder lies in it.
        space: The search space.
        point: Number of the change at which it dies, from 1; 0 to live.
        when: ``before`` the change reaches the disk, or ``after``, before it is sealed.
        record: Where to write what each change is, a line each; empty to write nothing.
    """

    folder: str
    space: str
    point: int = 0
    when: str = BEFORE
    record: str = ""

    def line(self) -> str:
        """The job as a line of JSON."""
        return json.dumps(asdict(self)) + "\n"


class DyingDatabase(Database):
    """Counts changes, says what each one is, and dies at one of them."""

    job: ClassVar[Job]
    count: ClassVar[int] = 0

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._words: list[str] = []
        self._db.set_trace_callback(self._words.append)

    def _commit(self) -> None:
        cls = type(self)
        cls.count += 1
        if cls.job.record:
            with Path(cls.job.record).open("a") as out:
                out.write(f"{label(self._words)}\n")
        self._words.clear()
        self._die(BEFORE)
        super()._commit()
        self._die(AFTER)

    def _die(self, when: str) -> None:
        if type(self).count == self.job.point and self.job.when == when:
            os.kill(os.getpid(), signal.SIGKILL)


_TRANSITION = re.compile(r"INSERT INTO transitions.*VALUES \(\d+,\d+,(\d+),'(\w+)'", re.DOTALL)
_LAUNCH = re.compile(
    r"(?:INSERT INTO launches.*'(intended)'|UPDATE launches .*status='(\w+)')", re.DOTALL
)
_EVENT = re.compile(r"INSERT INTO events.*VALUES \(\d+,\w+,'(\w+)'", re.DOTALL)


def label(statements: list[str]) -> str:
    """What a change does, from its statements."""
    for pattern, kind in ((_TRANSITION, "trial"), (_LAUNCH, "launch"), (_EVENT, "event")):
        for words in statements:
            if found := pattern.search(words):
                parts = [part for part in found.groups() if part]
                return " ".join([kind, *reversed(parts)])
    writes = [
        w
        for w in statements
        if not w.startswith(("BEGIN", "COMMIT", "SELECT", "UPDATE changes", "--"))
    ]
    return writes[0].partition("(")[0].partition("=")[0]


def begin(job: Job) -> Path:
    """Make this process the one that works on a job: what it says goes to a log in the job's folder."""
    DyingDatabase.job, DyingDatabase.count = job, 0
    folder = Path(job.folder)
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    out = os.open(folder / "run.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    null = os.open(os.devnull, os.O_RDONLY)
    for handle, number in ((null, 0), (out, 1), (out, 2)):
        os.dup2(handle, number)
    return folder


def work_on(job: Job) -> None:
    """Work on the study of a job until it is decided, or until this process dies."""
    folder, space = begin(job), Path(job.space)
    with Ledger(folder / "state", write=True, database=DyingDatabase) as ledger:
        row = enter_study(ledger, load_space(space), space)
        work(ledger, row, watchers=[], wishes=Wishes())


def serve(work_on: Callable[[Job], None] = work_on) -> None:
    """Take jobs from stdin, one a line; work on each in a fork, and say how the fork ended.

    A fork has everything imported, so that a job takes as long as its study and no longer.

    Args:
        work_on: Works on the study of a job.
    """
    for line in sys.stdin:
        job = Job(**json.loads(line))
        child = os.fork()
        if child == 0:
            try:
                work_on(job)
            except BaseException:  # noqa: BLE001 - said in its log, where the test looks
                sys.excepthook(*sys.exc_info())
                sys.stderr.flush()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    assert sqlite3.threadsafety
    serve()
