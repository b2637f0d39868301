"""One engine for each key: found finished, or built once under its lock, or not there at all."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.build import cache as store
from tuner.build.engine import Engine, read_manifest, write_manifest
from tuner.build.failure import failed
from tuner.build.lock import build_lock
from tuner.build.process import run_logged
from tuner.build.progress import Progress, Report
from tuner.errors import NoSpaceLeft


@dataclass(frozen=True, slots=True)
class Site:
    """Where a build goes on.

    Attributes:
        root: The engine's folder; it is not there when the build begins.
        log: The build's log.
        lock: Handle of the lock, given to every step.
        report: Hears of each step.
        steps: Names of the steps.
    """

    root: Path
    log: Path
    lock: int
    report: Report
    steps: tuple[str, ...]

    def run(
        self,
        number: int,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        timeout_s: float,
        inner: Callable[[], str | None] = lambda: None,
    ) -> str:
        """Run one step and return what it printed.

        Args:
            number: Which step, from 0.
            argv: Its program and arguments.
            env: Its whole environment.
            timeout_s: How long it may take.
            inner: Says which part of the step is in hand, where the step has parts.

        Raises:
            BuildFailed: When its exit status is not 0.
        """
        start = self.log.stat().st_size if self.log.exists() else 0

        def hear(line: str) -> None:
            name = inner() or self.steps[number]
            self.report(Progress(name, number + 1, len(self.steps), line))

        self.report(Progress(self.steps[number], number + 1, len(self.steps), ""))
        status = run_logged(
            argv,
            log=self.log,
            env=env,
            cwd=self.root,
            timeout_s=timeout_s,
            report=hear,
            keep=(self.lock,),
        )
        if status != 0:
            raise failed(inner() or self.steps[number], self.log, start=start)
        with self.log.open("rb") as log:
            log.seek(start)
            return log.read().decode("utf-8", "replace")


def once(
    root: Path,
    *,
    cache: Path,
    steps: tuple[str, ...],
    space: store.Space,
    report: Report,
    make: Callable[[Site], Engine],
    good: Callable[[Engine], bool] = lambda _engine: True,
) -> Engine:
    """The engine of a folder: the finished one, or a new one.

    Args:
        root: The engine's folder, named after its key.
        cache: The user's cache.
        steps: Names of the steps that building takes.
        space: The disk that it needs.
        report: Hears of each step, and of waiting for another build of the same engine.
        make: Builds it. When it raises, or dies at any moment, the folder does not count.
        good: Whether a finished engine still holds, as when its image may have been removed.

    Raises:
        NoSpaceLeft: When the disk is, or becomes, too full.
        BuildFailed: When a step fails; nothing but the log is left.
    """
    if (engine := _finished(root, good)) is not None:
        return engine
    store.prepare(cache)

    def waiting(holder: str) -> None:
        report(Progress("waiting", 0, len(steps), f"{holder} is building {root.name}"))

    with build_lock(store.lock_path(root), waiting=waiting) as handle:
        if (engine := _finished(root, good)) is not None:
            return engine
        if root.exists():
            store.remove(root)
        store.sweep(cache)
        store.require_space(space)
        log = store.new_log(cache, root.name)
        try:
            engine = make(Site(root, log, handle, report, steps))
            write_manifest(engine)
        except OSError as error:
            if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
                raise
            raise NoSpaceLeft(
                f"the disk was full while {root.name} was built (log: {log})"
            ) from error
        finally:
            if read_manifest(root) is None and root.exists():
                store.remove(root)
        return engine


def _finished(root: Path, good: Callable[[Engine], bool]) -> Engine | None:
    engine = read_manifest(root)
    return engine if engine is not None and good(engine) else None
