"""Carries a plan out: who sends what and when, and what is left when the load ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from tuner.errors import ungrouped
from tuner.load.body import Conversation
from tuner.load.client import Client, Place
from tuner.load.endpoint import Endpoint
from tuner.load.motion import Motion
from tuner.load.plan import Closed, Open, Plan, Session
from tuner.load.record import ErrorClass, Record, Since
from tuner.load.salt import salt_of

_POLL_S = 0.02
_AHEAD_S = 1.0
STOPPED = "stopped"
TIMED_OUT = "the load's own time ran out"


class Flag(Protocol):
    """A wish to stop: a ``threading.Event`` or an ``asyncio.Event``."""

    def is_set(self) -> bool:
        """Whether the load is to stop."""


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What a load came to.

    Attributes:
        workload: Name of the workload.
        fingerprint: The plan's fingerprint.
        salt: The name that its salts were made of.
        records: One record for each request of the plan, in the order of the plan.
        wall_s: Seconds from the start of the load to the end of the last request.
        started_at: Unix time of the start.
        zero: What the clock said at the start; record times count from there.
        ended_early: Why the load ended before its plan did; None where it did not.
        client_cpu_s: CPU seconds that the client's own thread took.
        since: Where the latencies of this load start, by its plan.
    """

    workload: str
    fingerprint: str
    salt: str
    records: tuple[Record, ...]
    wall_s: float
    started_at: float
    zero: float
    ended_early: str | None
    client_cpu_s: float
    since: Since = "sent"

    @property
    def complete(self) -> bool:
        """Whether each request of the plan was sent and ran to its own end."""
        cut = (ErrorClass.NOT_SENT, ErrorClass.CANCELLED)
        return all(record.error not in cut for record in self.records)


def run_load(
    plan: Plan,
    endpoint: Endpoint,
    *,
    salt: str,
    clock: Callable[[], float] = time.monotonic,
    on_record: Callable[[Record], None] | None = None,
    stop: Flag | None = None,
    motion: Motion | None = None,
) -> LoadResult:
    """Send a plan to a server and wait for its end. Runs in any thread, on a loop of its own.

    Args:
        plan: What to send.
        endpoint: Where to.
        salt: Names this load among all that meet the same engine or are to be compared: loads of
            one name and workload are asked the same, loads of another share no prefix with them.
        clock: Monotonic seconds.
        on_record: Is given each record of a request that was sent, when it is over, in this thread.
        stop: Looked at 50 times a second; once set, what runs is cut and what waits is not sent.
        motion: Shows the load's signs of progress while it runs, to ``stop`` for example.

    Returns:
        The whole population: one record for each request, whatever became of it.
    """
    return asyncio.run(
        drive(
            plan,
            endpoint,
            salt=salt,
            clock=clock,
            on_record=on_record,
            stop=stop,
            motion=motion,
        )
    )


async def drive(
    plan: Plan,
    endpoint: Endpoint,
    *,
    salt: str,
    clock: Callable[[], float] = time.monotonic,
    on_record: Callable[[Record], None] | None = None,
    stop: Flag | None = None,
    motion: Motion | None = None,
) -> LoadResult:
    """:func:`run_load` for callers with an event loop."""
    load = _Load(plan, endpoint, salt=salt, clock=clock, on_record=on_record, motion=motion)
    cpu = time.thread_time()
    started_at = time.time()
    ended_early = await load.run(stop)
    records = tuple(load.population())
    return LoadResult(
        workload=plan.workload,
        fingerprint=plan.fingerprint,
        salt=salt,
        records=records,
        wall_s=max((record.end for record in records if record.end is not None), default=0.0),
        started_at=started_at,
        zero=load.zero,
        ended_early=ended_early,
        client_cpu_s=time.thread_time() - cpu,
        since=plan.since,
    )


def session_salt(plan: Plan, salt: str, number: int) -> str:
    """What stands in front of a conversation of a plan that is sent under a name."""
    each = (number,) if plan.salt_each else ()
    return salt_of(salt, plan.workload, *each, words=plan.salt_words)


@dataclass(slots=True)
class _Load:
    """One plan being carried out."""

    plan: Plan
    endpoint: Endpoint
    salt: str
    clock: Callable[[], float]
    on_record: Callable[[Record], None] | None
    motion: Motion | None
    zero: float = 0.0
    latest: float = 0.0
    ended: float = 0.0
    client: Client = field(init=False)
    records: dict[tuple[int, int], Record] = field(default_factory=dict)
    due: dict[tuple[int, int], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.client = Client(self.endpoint, self.now, self.keep, self.motion)

    def now(self) -> float:
        """Seconds since the start of the load; where the clock runs backwards, they stand still."""
        now = self.clock() - self.zero
        self.latest = max(self.latest, now)
        return self.latest

    def keep(self, record: Record) -> None:
        """Take in the record of a request that was sent."""
        self.records[record.session, record.turn] = record
        self.due.pop((record.session, record.turn), None)
        if self.on_record is not None:
            self.on_record(record)

    async def run(self, stop: Flag | None) -> str | None:
        """Carry the plan out; why it ended early, where it did."""
        self.zero = self.clock()
        work = asyncio.ensure_future(self._work())
        reason = None
        try:
            while not work.done():
                await asyncio.wait({work}, timeout=_POLL_S)
                if stop is not None and stop.is_set():
                    reason = STOPPED
                elif self.now() > self.plan.load_timeout_s:
                    reason = TIMED_OUT
                if reason is not None:
                    break
        finally:
            if not work.done():
                work.cancel()
            await asyncio.wait({work})
            self.ended = self.now()
            self.client.close()
        if not work.cancelled():
            work.result()  # a defect of ours, or of on_record, is not kept silent
            return None
        return reason

    async def _work(self) -> None:
        pacing = self.plan.pacing
        queue = iter(enumerate(self.plan.sessions))
        # What hears the records may fail on purpose: a full disk is to end a load as just that.
        with ungrouped():
            async with asyncio.TaskGroup() as group:
                self._begin(group, pacing, queue)

    def _begin(
        self, group: asyncio.TaskGroup, pacing: Closed | Open, queue: Iterator[tuple[int, Session]]
    ) -> None:
        if isinstance(pacing, Closed):
            for _ in range(min(pacing.concurrency, len(self.plan.sessions))):
                group.create_task(self._slot(queue))
        elif pacing.limit is not None:
            for _ in range(min(pacing.limit, len(self.plan.sessions))):
                group.create_task(self._slot(queue))
        else:
            group.create_task(self._arrivals(group, queue))

    async def _arrivals(
        self, group: asyncio.TaskGroup, queue: Iterator[tuple[int, Session]]
    ) -> None:
        """Begin each conversation a little before it is due, when its first body is made."""
        for number, session in sorted(queue, key=lambda each: _arrival(each[1])):
            await self._until(_arrival(session) - _AHEAD_S)
            group.create_task(self._session(number, session, 0.0))

    async def _slot(self, queue: Iterator[tuple[int, Session]]) -> None:
        free = 0.0
        for number, session in queue:
            free = await self._session(number, session, free)

    async def _session(self, number: int, session: Session, free: float) -> float:
        """Hold one conversation; when it ended.

        A turn that fails does not end it: the next turns are sent all the same, with a stand-in
        where the answer would be, so that each candidate is asked the same number of questions.
        """
        salt = session_salt(self.plan, self.salt, number)
        talk = Conversation(session, model=self.endpoint.model, salt=salt)
        for index, turn in enumerate(session.turns):
            due = free + turn.think_s if turn.arrival_s is None else turn.arrival_s
            self.due[number, index] = due
            body = talk.body(turn)
            await self._until(due)
            place = Place(self.plan.workload, number, index, due)
            done = await self.client.request(place, body, self.plan.request_timeout_s)
            if self.plan.thread_answers:
                talk.answered(done.answer)
            free = done.record.end if done.record.end is not None else self.now()
        return free

    async def _until(self, due: float) -> None:
        if (pause := due - self.now()) > 0:
            await asyncio.sleep(pause)

    def population(self) -> Iterator[Record]:
        """The record of each request of the plan; what was not sent says so."""
        for number, session in enumerate(self.plan.sessions):
            for index, turn in enumerate(session.turns):
                record = self.records.get((number, index))
                if record is None:
                    known = self.due.get((number, index), turn.arrival_s)
                    scheduled = self.ended if known is None else known
                    record = _not_sent(self.plan.workload, number, index, scheduled)
                yield record


def _arrival(session: Session) -> float:
    first = session.turns[0].arrival_s if session.turns else None
    return first or 0.0


def _not_sent(workload: str, session: int, turn: int, scheduled: float) -> Record:
    return Record(
        workload=workload,
        session=session,
        turn=turn,
        scheduled=scheduled,
        sent=None,
        first_token=None,
        end=None,
        error=ErrorClass.NOT_SENT,
        detail="the load ended before this request was sent",
    )
