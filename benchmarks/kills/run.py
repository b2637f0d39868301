"""Kills the tuner, or the engine's first process, or one of its workers, and looks at what is left.

Each run is a study of its own on the real engine, killed with SIGKILL at a random moment of its start,
its load or its stop. Who dies decides who has to clean up: a tuner that lives ends the engine itself;
after one that was killed, ``tuner clean`` does. What is left is looked for without the launcher's help:
every process that was ever seen below the tuner, every port that was ever recorded, /dev/shm.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil

from tuner.errors import LedgerCorrupt, StudyNotFound
from tuner.launch import ports, shm
from tuner.launch.identity import Identity, Member
from tuner.launch.residue import find_members
from tuner.store.ledger import Ledger
from tuner.store.stages import Stage

SPACE = Path(__file__).with_name("space.yaml")
ROOT = Path(__file__).parents[2]
VICTIMS = ("tuner", "leader", "worker")
MOMENTS = {"start": 18.0, "load": 5.0, "stop": 0.4}
"""Part of a trial to the most seconds after its beginning at which the kill comes."""
_ENV = {**os.environ, "PYTHONPATH": str(ROOT)}
_PATIENCE = 180.0
_POLL = 0.05


@dataclass(frozen=True)
class Kill:
    """One run and what came of it.

    Attributes:
        victim: Who was killed.
        moment: The part of the trial for which it was planned.
        stage: The stage that the ledger had at the kill.
        after: Seconds between the beginning of that part and the kill.
        alive: Processes of the engine that lived at the kill.
        seconds: From the kill until the engine was proven gone.
        cleaned: Who proved it.
        left: What was left after that.
    """

    victim: str
    moment: str
    stage: str
    after: float
    alive: int
    seconds: float
    cleaned: str
    left: tuple[str, ...]


@dataclass
class Seen:
    """Every process that was ever seen below the tuner, by a thread that looks all the time."""

    root: psutil.Process
    processes: dict[tuple[int, float], psutil.Process] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(_POLL):
            # Below each one that is known, too: the children of a dead tuner have another parent.
            for process in [self.root, *self.processes.values()]:
                with contextlib.suppress(psutil.Error):
                    for child in process.children(recursive=True):
                        self.processes[child.pid, child.create_time()] = child

    def alive(self) -> list[str]:
        """Those that live, in words."""
        found = []
        for (pid, _), process in list(self.processes.items()):
            with contextlib.suppress(psutil.Error):
                if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(f"pid {pid} {process.name()}")
        return found


class Watcher:
    """Reads a study's ledger from outside while its tuner works.

    Args:
        state: The state folder.
        tuner: The tuner's process.
    """

    def __init__(self, state: Path, tuner: subprocess.Popen[bytes]) -> None:
        self._state = state
        self._tuner = tuner

    @contextlib.contextmanager
    def ledger(self) -> Iterator[Ledger | None]:
        """The ledger to read from; None while there is none."""
        try:
            opened = Ledger(self._state, write=False)
        except (StudyNotFound, LedgerCorrupt):  # it is being made at this moment
            yield None
            return
        with opened:
            yield opened

    def steps(self) -> set[Stage]:
        """The stages that the trial has entered."""
        with self.ledger() as ledger:
            if ledger is None or not ledger.studies():
                return set()
            return {step.stage for step in ledger.transitions(ledger.studies()[0].id)}

    def stage(self) -> str:
        """The stage that the trial is in."""
        with self.ledger() as ledger:
            found = [] if ledger is None else ledger.transitions(ledger.studies()[0].id)
            return str(found[-1].stage) if found else "none"

    def identities(self) -> list[Identity]:
        """Every engine that was ever recorded and started."""
        with self.ledger() as ledger:
            if ledger is None:
                return []
            rows = ledger.db.rows("SELECT identity FROM launches ORDER BY id")
            found = [Identity.from_json(json.loads(row["identity"])) for row in rows]
            return [identity for identity in found if identity.pid]

    def first_is_over(self) -> bool:
        """Whether the first engine was proven gone."""
        with self.ledger() as ledger:
            if ledger is None:
                return False
            row = ledger.db.row("SELECT status FROM launches ORDER BY id LIMIT 1")
            return row is not None and row["status"] == "gone"

    def wait(self, wanted: Callable[[], bool], what: str) -> bool:
        """Wait for something; False when the tuner ended before.

        Raises:
            TimeoutError: When it does not come.
        """
        deadline = time.monotonic() + _PATIENCE
        while not wanted():
            if self._tuner.poll() is not None:
                return wanted()
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited in vain for {what}")
            time.sleep(_POLL)
        return True


class Arena:
    """Where runs take place, one after the other.

    Args:
        folder: An empty folder.
        recipe: A recipe, or the folder of one, in place of the space's own.
        seed: Seed of the moments and victims.
    """

    def __init__(self, folder: Path, *, recipe: str | None = None, seed: int = 1) -> None:
        self._folder = folder
        self._random = random.Random(seed)
        self._space = folder / "space.yaml"
        self._space.write_text(
            SPACE.read_text().replace("recipe: cpu", f"recipe: {recipe or 'cpu'}")
        )

    def plan(self, runs: int) -> list[tuple[str, str]]:
        """Victims and moments in random order, each pair as often as any other, as far as that goes."""
        pairs = list(itertools.product(VICTIMS, MOMENTS))
        whole = [pair for _ in range(-(-runs // len(pairs))) for pair in self._shuffled(pairs)]
        return whole[:runs]

    def _shuffled(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        return self._random.sample(pairs, len(pairs))

    def run(self, number: int, victim: str, moment: str) -> Kill:
        """One run: start, kill, wait for whoever cleans up, look."""
        state = self._folder / f"run-{number}"
        before = shm.snapshot()
        with (self._folder / f"run-{number}.log").open("wb") as log:
            words = self._words(state, "run", "--foreground", str(self._space))
            tuner = subprocess.Popen(words, cwd=self._folder, env=_ENV, stdout=log, stderr=log)
            with Seen(psutil.Process(tuner.pid)) as seen:
                try:
                    return self._killed(state, tuner, seen, (victim, moment), before)
                finally:
                    if tuner.poll() is None:
                        tuner.terminate()
                        tuner.wait(_PATIENCE)

    def _killed(
        self,
        state: Path,
        tuner: subprocess.Popen[bytes],
        seen: Seen,
        plan: tuple[str, str],
        before: tuple[str, ...],
    ) -> Kill:
        victim, moment = plan
        watcher = Watcher(state, tuner)
        begun = {
            "start": lambda: bool(watcher.identities()),
            "load": lambda: Stage.READY in watcher.steps(),
            "stop": lambda: Stage.STOPPING in watcher.steps(),
        }[moment]
        if not watcher.wait(begun, f"the {moment}"):
            said = state.with_suffix(".log").read_text(errors="replace")
            raise RuntimeError(f"the tuner ended before the {moment}: {said[-2000:]}")
        after = self._random.uniform(0, MOMENTS[moment])
        time.sleep(after)
        members = find_members(watcher.identities()[0])
        stage = watcher.stage()
        killed = self._kill(tuner, members, watcher.identities()[0].pid, victim)
        began = time.monotonic()
        cleaned = self._clean_up(state, tuner, watcher, killed)
        seconds = time.monotonic() - began
        if tuner.poll() is None:
            tuner.terminate()
            tuner.wait(_PATIENCE)
        left = (*seen.alive(), *_left(state, watcher.identities(), before))
        return Kill(killed, moment, stage, after, len(members), seconds, cleaned, left)

    def _kill(
        self, tuner: subprocess.Popen[bytes], members: Sequence[Member], leader: int, victim: str
    ) -> str:
        """Kill the victim; who was killed, for when it comes too late for a worker, or for anybody."""
        if victim == "tuner":
            tuner.kill()
            return "tuner"
        workers = [m for m in members if m.pid != leader]
        chosen = (
            workers if victim == "worker" and workers else [m for m in members if m not in workers]
        )
        if not chosen:
            return "nobody"
        target = self._random.choice(chosen)
        psutil.Process(target.pid).kill()
        return "leader" if target.pid == leader else "worker"

    def _clean_up(
        self, state: Path, tuner: subprocess.Popen[bytes], watcher: Watcher, killed: str
    ) -> str:
        if killed != "tuner":
            watcher.wait(watcher.first_is_over, "the tuner to prove the engine gone")
            return "tuner"
        tuner.wait()
        done = subprocess.run(
            self._words(state, "clean", "--yes", "--json"),
            cwd=self._folder,
            env=_ENV,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"tuner clean: {done.stdout}{done.stderr}")
        return "tuner clean"

    @staticmethod
    def _words(state: Path, *words: str) -> list[str]:
        return [sys.executable, "-m", "tuner", "--state", str(state), *words]


def _left(state: Path, engines: Sequence[Identity], before: tuple[str, ...]) -> Iterator[str]:
    """What is left beside the processes that were seen."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and Path(process.cwd()).is_relative_to(state):
                yield f"pid {process.pid} in the trial's folder"
    for engine in engines:
        if engine.port and ports.listeners(engine.port):
            yield f"port {engine.port}"
        yield from (p for p in (engine.scratch, engine.cgroup) if p and Path(p).exists())
    yield from (f"/dev/shm/{name}" for name in shm.leftovers(before))  # noqa: S108 - the subject


def demonstrate(
    folder: Path, runs: int, *, recipe: str | None = None, seed: int = 1
) -> Iterator[Kill]:
    """Runs, one after the other.

    Args:
        folder: An empty folder.
        runs: How many.
        recipe: A recipe, or the folder of one, in place of ``cpu``.
        seed: Seed of the moments and victims.
    """
    arena = Arena(folder, recipe=recipe, seed=seed)
    for number, (victim, moment) in enumerate(arena.plan(runs), 1):
        yield arena.run(number, victim, moment)


HEAD = f"{'run':>3}  {'killed':7} {'planned for':11} {'stage':9} {'s into it':>9} {'alive':>5}  gone after  by"


def line(number: int, kill: Kill) -> str:
    """A run as a row of the table."""
    left = f"  LEFT: {'; '.join(kill.left)}" if kill.left else ""
    return (
        f"{number:3}  {kill.victim:7} {kill.moment:11} {kill.stage:9} {kill.after:9.1f} {kill.alive:5}"
        f"  {kill.seconds:8.1f} s  {kill.cleaned}{left}"
    )


def summary(kills: Sequence[Kill]) -> str:
    """What all runs come to, in a line."""
    clean = sum(not kill.left for kill in kills)
    return f"{clean} of {len(kills)} leave no process, no port, no shared memory"
