from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from tuner.launch.base import Launch
from tuner.load.answer import Answer
from tuner.load.endpoint import Endpoint
from tuner.load.motion import Motion
from tuner.load.plan import Closed, Message, Plan, Session, Turn
from tuner.load.record import ErrorClass
from tuner.load.run import run_load
from tuner.trial.counters import Work
from tuner.trial.guarded import LoadGuard

pytestmark = pytest.mark.timeout(60)


class Alive:
    """An engine that does not end."""

    def exit(self) -> None:
        return None


ALIVE = cast(Launch, Alive())


def moved(blocks: float, *, running: int = 1, waiting: int = 0) -> Work:
    return Work(frozenset({("vllm:kv_cache_usage_perc", "", blocks)}), running, waiting)


# --- a whole load --------------------------------------------------------------------------------


@pytest.fixture
def silent() -> Iterator[Endpoint]:
    """A server that takes every connection and never answers."""
    held: list[socket.socket] = []
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)

        def accept() -> None:
            try:
                while True:
                    held.append(listening.accept()[0])
            except OSError:
                return

        thread = threading.Thread(target=accept)
        thread.start()
        yield Endpoint(model="llm", port=listening.getsockname()[1])
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()
    for connection in held:
        connection.close()


def plan_of(requests: int, concurrency: int, timeout: float) -> Plan:
    sessions = tuple(Session((Turn((Message("user", "x"),), 4),)) for _ in range(requests))
    return Plan("w", 0, sessions, Closed(concurrency), request_timeout_s=timeout)


@pytest.mark.parametrize("concurrency", [1, 2, 4])
def test_an_engine_that_never_answers_is_seen_before_its_requests_run_out_of_time(
    silent: Endpoint, concurrency: int
) -> None:
    motion = Motion()
    guard = LoadGuard(ALIVE, threading.Event(), stall=0.5, motion=motion)
    plan = plan_of(5, concurrency, 20.0)
    result = run_load(plan, silent, salt="s", stop=guard, motion=motion)
    assert guard.stalled
    assert result.wall_s < 10
    errors = [record.error for record in result.records]
    assert errors == [ErrorClass.CANCELLED] * concurrency + [ErrorClass.NOT_SENT] * (
        5 - concurrency
    )


def test_requests_whose_time_runs_out_are_no_progress(silent: Endpoint) -> None:
    motion = Motion()
    guard = LoadGuard(ALIVE, threading.Event(), stall=0.9, motion=motion)
    result = run_load(plan_of(100, 1, 0.2), silent, salt="s", stop=guard, motion=motion)
    assert guard.stalled
    assert ErrorClass.TIMEOUT in {record.error for record in result.records}
    assert motion.signs == 0


# --- the guard alone, on a clock of its own ------------------------------------------------------


class Clock:
    """What the guard takes for the time."""

    def __init__(self) -> None:
        self.now = time.monotonic()

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr("tuner.trial.guarded.time", found)
    return found


def stalls(clock: Clock, guard: LoadGuard, *, within: float) -> float | None:
    """After how many seconds the guard stops the load; None where it does not."""
    began = clock.now
    while clock.now - began < within:
        clock.now += 0.25
        if guard.is_set():
            return clock.now - began
    return None


def guarded(work: Callable[[], Work] = Work, *, requests: int = 1) -> LoadGuard:
    motion = Motion()
    for _ in range(requests):
        motion.begin(Answer())
    return LoadGuard(ALIVE, threading.Event(), stall=10, motion=motion, work=work)


def test_a_prefill_that_takes_blocks_is_no_hang(clock: Clock) -> None:
    steps = itertools.count()
    assert stalls(clock, guarded(lambda: moved(next(steps) / 1e6)), within=200) is None


def test_counters_that_stand_still_are_a_hang(clock: Clock) -> None:
    found = stalls(clock, guarded(lambda: moved(0.5)), within=200)
    assert found is not None
    assert 10 < found < 11


def test_an_engine_that_tells_no_counters_is_judged_by_its_tokens(clock: Clock) -> None:
    assert stalls(clock, guarded(), within=200) is not None


def test_a_request_that_waits_in_the_queue_is_no_hang(clock: Clock) -> None:
    queued = guarded(lambda: moved(0.5, running=0, waiting=3))
    assert stalls(clock, queued, within=200) is None


def test_a_queue_behind_requests_that_stand_still_is_a_hang(clock: Clock) -> None:
    behind = guarded(lambda: moved(0.5, running=2, waiting=3))
    assert stalls(clock, behind, within=200) is not None


def test_work_that_was_done_before_the_silence_does_not_excuse_it(clock: Clock) -> None:
    done = iter([moved(0.1), *[moved(0.2)] * 50])
    found = stalls(clock, guarded(lambda: next(done)), within=200)
    assert found is not None
    assert 20 < found < 21


def test_nothing_is_expected_while_no_request_is_under_way(clock: Clock) -> None:
    guard = guarded(requests=0)
    assert stalls(clock, guard, within=200) is None
    assert guard.motion is not None
    guard.motion.begin(Answer())
    assert stalls(clock, guard, within=200) is not None


def test_a_token_starts_the_silence_anew(clock: Clock) -> None:
    guard = guarded(requests=0)
    assert guard.motion is not None
    answer = Answer()
    guard.motion.begin(answer)
    assert stalls(clock, guard, within=9) is None
    answer.times.append(9.0)
    found = stalls(clock, guard, within=200)
    assert found is not None
    assert found > 10


def test_the_engine_is_asked_only_in_a_long_silence(clock: Clock) -> None:
    asked: list[float] = []

    def ask() -> Work:
        asked.append(clock.now)
        return Work()

    guard = guarded(ask, requests=0)
    assert guard.motion is not None
    answer = Answer()
    guard.motion.begin(answer)
    for _ in range(50):
        assert stalls(clock, guard, within=4) is None
        answer.times.append(clock.now)
    assert asked == []


# --- what counts as motion -----------------------------------------------------------------------


def test_motion_counts_tokens_and_whole_responses_and_not_what_was_cut() -> None:
    motion = Motion()
    one, two, three = Answer(), Answer(), Answer()
    for answer in (one, two, three):
        motion.begin(answer)
    assert (motion.under_way, motion.signs) == (3, 0)
    one.times += [0.1, 0.2]
    assert motion.signs == 2
    motion.end(one, whole=True)
    motion.end(two, whole=False)
    motion.end(three, whole=True)  # refused: an answer all the same
    assert (motion.under_way, motion.signs) == (0, 4)
