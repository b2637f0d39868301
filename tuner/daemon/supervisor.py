"""The supervisor: gives devices to studies, in the order of the queue, and minds their workers.

The truth is in the ledger: what is wanted of a study stands in the queue, how far it is in its
status. Here is only which processes work now. So a daemon that starts, after whatever ended the one
before, needs no memory: it ends what was left, and goes on with what is wanted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from dataclasses import dataclass
from typing import Any, Literal

from tuner.daemon.books import Books
from tuner.daemon.hub import Hub, News
from tuner.daemon.machine import Machine
from tuner.daemon.recovery import Leftovers
from tuner.daemon.staff import Task, Worker
from tuner.daemon.worker import BUSY
from tuner.errors import ResidueFound, TunerError
from tuner.store.queue import Entry
from tuner.store.rows import OPEN, StudyRow
from tuner.trial.admission import uses_devices
from tuner.trial.entry import stored_space, study_folder
from tuner.trial.leases import HOST, needed

MAX_DEATHS = 3
_RUNNABLE = frozenset({"queued", "running", "stopped"})
_LOOK_AGAIN = 5.0
_TOLD = {"stop": "stopped", "pause": "paused"}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A study that is wanted to run.

    Attributes:
        row: The study.
        entry: Its place in the queue.
        devices: Keys of the devices that it needs.
    """

    row: StudyRow
    entry: Entry
    devices: tuple[str, ...]


class Supervisor:
    """Starts and ends workers, so that what is wanted comes about.

    Args:
        books: The ledger, held for writing.
        hub: Those who watch.
        machine: The devices.
    """

    def __init__(self, books: Books, hub: Hub, machine: Machine) -> None:
        self._books = books
        self._hub = hub
        self._machine = machine
        self._leftovers = Leftovers(books)
        self._workers: dict[int, Worker] = {}
        self._minding: set[asyncio.Task[None]] = set()
        self._needs: dict[tuple[int, str, tuple[str, ...] | None], tuple[str, ...]] = {}
        self._wake = asyncio.Event()
        self._over = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._guard = threading.Lock()
        self._sound = threading.Event()
        self.recovering = True
        self.stopping = False
        self.problem: str | None = None
        self.waiting: dict[int, str] = {}

    # --- what others see -------------------------------------------------------------------------

    def working(self) -> dict[int, tuple[int | None, tuple[str, ...]]]:
        """The studies that are worked on: the process and the devices of each."""
        with self._guard:
            return {s: (w.pid, w.task.leases) for s, w in self._workers.items()}

    @property
    def busy(self) -> bool:
        """Whether anything runs or waits to run."""
        return bool(self._workers) or bool(self.waiting) or self.recovering

    def await_sound(self, seconds: float) -> bool:
        """Wait until the ledger was looked at, and may be changed; whether it may."""
        return self._sound.wait(seconds)

    # --- what others wish; from any thread ---------------------------------------------------------

    def wake(self) -> None:
        """Say that the queue has changed."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._woken)

    def _woken(self) -> None:
        self._wake.set()
        self._hub.hint()

    def resume(self, row: StudyRow) -> None:
        """Let a study run, or wait for its turn."""
        with self._books.write() as (ledger, queue):
            queue.want(row.id, "run")
            if not self._tell(row.id, do="go"):
                ledger.set_status(row.id, "queued")
        self.wake()

    def stop(self, row: StudyRow) -> None:
        """End a study's trial in good order, and then its work."""
        self._end(row, "stop")

    def pause(self, row: StudyRow) -> None:
        """End a study's work when the trial in hand is over."""
        self._end(row, "pause")

    def allow(self, row: StudyRow, budget: dict[str, float]) -> None:
        """Give a study other limits, now and for later."""
        with self._books.write() as (_, queue):
            queue.allow(row.id, budget)
        self._tell(row.id, do="budget", budget=budget)
        self.wake()

    def _end(self, row: StudyRow, wanted: Literal["stop", "pause"]) -> None:
        with self._books.write() as (ledger, queue):
            queue.want(row.id, wanted)
            status = ledger.study(row.name).status
            if not self._tell(row.id, do=wanted) and status in OPEN | {"stopped"}:
                ledger.set_status(row.id, _TOLD[wanted], "told to", exit_code=0)
        self.wake()

    def _tell(self, study: int, **what: Any) -> bool:
        """Tell a study's worker something; False when it has none."""
        with self._guard:
            worker = self._workers.get(study)
        if worker is None:
            return False
        worker.tell(**what)
        return True

    # --- the work --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Recover, then bring about what is wanted, until :meth:`close`."""
        self._loop = asyncio.get_running_loop()
        try:
            await self._run()
        finally:
            self._over.set()

    async def _run(self) -> None:
        await asyncio.to_thread(self._books.verify)
        self._sound.set()
        await asyncio.to_thread(self._leftovers.recover)
        self.recovering = False
        self._hub.hint()
        while not self.stopping:
            self._wake.clear()
            try:
                await self._start_what_can()
                self.problem = None
            except (TunerError, OSError) as error:
                _log.exception("the queue could not be worked on; it is tried again")
                self.problem = str(error)
            again = self.problem or self.waiting or self._workers
            timeout = _LOOK_AGAIN if again else None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._wake.wait()
            if self._workers:
                self._hub.hint()

    async def close(self, patience: float) -> None:
        """End all workers: in good order, or by force when that takes too long."""
        self.stopping = True
        self._wake.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._over.wait()
        with self._guard:
            workers = list(self._workers.values())
        for worker in workers:
            worker.tell(do="stop")
        if self._minding:
            _, late = await asyncio.wait(self._minding, timeout=patience)
            if late:
                _log.error("%d workers did not end in time and are killed", len(late))
                for worker in workers:
                    worker.kill()
                await asyncio.wait(late, timeout=patience)

    async def _start_what_can(self) -> None:
        candidates, failed = await asyncio.to_thread(self._candidates)
        for row, error in failed:
            await asyncio.to_thread(self._fail, row, error)
        with self._guard:
            taken = {
                name: worker.task.name
                for worker in self._workers.values()
                for name in worker.task.leases
            }
        quarantined = await asyncio.to_thread(self._quarantined)
        waiting: dict[int, str] = {}
        for one in candidates:
            why = _obstacle(one.devices, taken, quarantined)
            if self.stopping:
                return
            if why is not None:
                waiting[one.row.id] = why
            elif not await self._start(one):
                waiting[one.row.id] = "its worker could not be started"
            # Those behind it do not take a device from one that waits for several.
            taken |= {name: one.row.name for name in one.devices if name not in taken}
        if waiting != self.waiting:
            self.waiting = waiting
            self._hub.hint()

    def _candidates(self) -> tuple[list[Candidate], list[tuple[StudyRow, TunerError]]]:
        """Studies that are wanted to run and do not, in the order of the queue."""
        found, failed = [], []
        with self._books.write() as (ledger, queue):
            rows = {row.id: row for row in ledger.studies()}
            entries = [e for e in queue.entries() if e.wanted == "run"]
        with self._guard:
            busy = set(self._workers)
        for entry in entries:
            row = rows[entry.study]
            if row.id in busy or row.status not in _RUNNABLE:
                continue
            try:
                found.append(Candidate(row, entry, self._needed(row, entry)))
            except TunerError as error:
                failed.append((row, error))
        return found, failed

    def _needed(self, row: StudyRow, entry: Entry) -> tuple[str, ...]:
        key = (row.id, row.fingerprint, entry.devices)
        if key not in self._needs:
            with self._books.read() as ledger:
                space = stored_space(ledger, row)
            own = needed(space, self._machine.devices(), on_devices=uses_devices(space))
            self._needs[key] = entry.devices or own
        return self._needs[key]

    def _quarantined(self) -> dict[str, str]:
        with self._books.write() as (ledger, _):
            return ledger.quarantined()

    def _fail(self, row: StudyRow, error: TunerError) -> None:
        with self._books.write() as (ledger, _):
            ledger.set_status(row.id, "failed", str(error), exit_code=error.exit_code)

    # --- one worker ------------------------------------------------------------------------------

    async def _start(self, one: Candidate) -> bool:
        await asyncio.to_thread(self._books.inherit, one.row)
        task = Task(
            study=one.row.id,
            name=one.row.name,
            folder=await asyncio.to_thread(self._folder, one.row.name),
            stood=one.entry.stood,
            budget=one.entry.budget,
            secrets=self._books.secrets(one.row.id),
            devices=one.entry.devices,
            leases=one.devices,
        )
        worker = Worker(task, lambda said: self._hear(task, said))
        with self._guard:
            self._workers[task.study] = worker
        try:
            await worker.start(self._books.state)
        except OSError:
            _log.exception("no worker could be started for study %s", task.name)
            with self._guard:
                del self._workers[task.study]
            return False
        _log.info("study %s: worker %s, devices %s", task.name, worker.pid, ", ".join(task.leases))
        minding = asyncio.create_task(self._mind(worker), name=f"mind {task.name}")
        self._minding.add(minding)
        minding.add_done_callback(self._minding.discard)
        return True

    def _folder(self, name: str) -> Any:
        with self._books.write() as (ledger, _):
            folder = study_folder(ledger, name)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder

    def _hear(self, task: Task, said: dict[str, Any]) -> None:
        if "hint" not in said:
            self._hub.tell(News(said["kind"], task.name, said["number"], said["data"], said["at"]))
            return
        self._hub.hint()
        if said["hint"] == "told":
            forgiving = asyncio.create_task(asyncio.to_thread(self._lives, task.study))
            self._minding.add(forgiving)
            forgiving.add_done_callback(self._minding.discard)

    def _lives(self, study: int) -> None:
        with self._books.write() as (_, queue):
            queue.lives(study)

    async def _mind(self, worker: Worker) -> None:
        """Wait for a worker's end, and clear up after it before its devices go to somebody else."""
        task = worker.task
        status = await worker.wait()
        _log.info("study %s: worker ended with %d", task.name, status)
        try:
            await asyncio.to_thread(self._settle, task, status)
        except (TunerError, OSError):
            _log.exception("study %s could not be cleared up", task.name)
        finally:
            with self._guard:
                self._workers.pop(task.study, None)
            self._hub.forget(task.name)
            if status == BUSY:
                # Somebody else still works on it: a worker of an earlier daemon, on its way out.
                await asyncio.sleep(1.0)
            self._woken()

    def _settle(self, task: Task, status: int) -> None:
        """Bring a study whose worker has ended into a status that is true."""
        with self._guard:
            ours = frozenset(w.pid for w in self._workers.values() if w.pid is not None)
        self._leftovers.reap(ours)
        with self._books.write() as (ledger, queue):
            row = ledger.study(task.name)
            entry = queue.entry(task.study)
            if row.status in {"stopped", "paused"} and entry.wanted == "run" and not self.stopping:
                ledger.set_status(task.study, "queued")  # resumed while it was ending
        if status == BUSY or row.status not in {"running", "queued"}:
            return
        try:
            self._leftovers.end(task.study)
        except ResidueFound as error:
            self._fail(row, error)
            return
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        with self._books.write() as (ledger, queue):
            deaths = queue.died(task.study)
            if entry.wanted != "run":
                ledger.set_status(task.study, _TOLD[entry.wanted], "told to", exit_code=0)
            elif deaths >= MAX_DEATHS:
                why = f"its worker died {deaths} times without a trial told, last by {how}"
                ledger.set_status(task.study, "failed", why, exit_code=1)
            else:
                ledger.set_status(task.study, "queued", f"its worker died by {how}")


def _obstacle(
    devices: tuple[str, ...], taken: dict[str, str], quarantined: dict[str, str]
) -> str | None:
    """Why a study cannot start now; None when it can."""
    for name in (*devices, HOST):
        if name in quarantined:
            return f"{name} is in quarantine: {quarantined[name]}"
    for name in devices:
        if name in taken:
            return f"{name} is with study {taken[name]}"
    return None
