from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tuner.load.endpoint import Endpoint
from tuner.quality.asking import Asker, ProbeFailed
from tuner.quality.catalogue import Probe
from tuner.quality.suite import (
    Interrupted,
    Outcome,
    ProbeResult,
    failures,
    run_probes,
    unless,
)
from tuner.spec.quality import Need

NOBODY = Endpoint(model="llm", port=1)


class Diary:
    """Notes who was asked when, and with whom."""

    def __init__(self) -> None:
        self.running: set[str] = set()
        self.beside: dict[str, set[str]] = {}

    def probe(self, name: str, *, seconds: float = 0.05, wrong: str = "", **fields: Any) -> Probe:
        async def ask(_: Asker) -> None:
            self.running.add(name)
            for one in self.running:
                self.beside.setdefault(one, set()).update(self.running - {one})
            await asyncio.sleep(seconds)
            self.running.remove(name)
            if wrong:
                raise ProbeFailed(wrong)

        return Probe(name, ask, **fields)  # type: ignore[arg-type]  # names of no real probe


def run(
    *probes: Probe, stop: threading.Event | None = None, need: Need = "required", **more: Any
) -> tuple[ProbeResult, ...]:
    async def go() -> tuple[ProbeResult, ...]:
        ask = Asker(NOBODY)
        try:
            flag = stop or threading.Event()
            return await run_probes(ask, dict.fromkeys(probes, need), flag, **more)
        finally:
            await ask.close()

    return asyncio.run(go())


def test_the_quiet_ones_are_asked_alone_and_the_others_at_once() -> None:
    diary = Diary()
    names: dict[str, dict[str, Any]] = {
        "a": {},
        "q": {"quiet": True},
        "b": {},
        "heavy": {"quiet": True, "suite": "full"},
    }
    heard: list[ProbeResult] = []
    found = run(*(diary.probe(n, **f) for n, f in names.items()), hear=heard.append)
    assert [r.name for r in found] == list(names)
    assert diary.beside == {"q": set(), "a": {"b"}, "b": {"a"}, "heavy": set()}
    assert heard[0].name == "q"
    assert heard[-1].name == "heavy"


def test_one_by_one_nothing_is_asked_at_once() -> None:
    diary = Diary()
    run(*(diary.probe(n) for n in "abc"), one_by_one=True)
    assert diary.beside == {"a": set(), "b": set(), "c": set()}


def test_a_failure_says_why_and_harms_nobody_else() -> None:
    diary = Diary()
    bad, good = run(diary.probe("bad", wrong="status 500"), diary.probe("good"))
    assert (bad.outcome, bad.reason) == (Outcome.FAILED, "status 500")
    assert good.outcome is Outcome.PASSED
    assert bad.as_json()["outcome"] == "failed"


def test_a_defect_of_ours_is_not_taken_for_the_engines() -> None:
    async def broken(_: Asker) -> None:
        raise KeyError("ours")

    with pytest.raises(KeyError):
        run(Probe("broken", broken))  # type: ignore[arg-type]  # a name of no real probe


def test_when_the_engine_is_gone_what_ran_says_so_and_the_rest_is_not_asked() -> None:
    diary, stop = Diary(), threading.Event()
    timer = threading.Timer(0.2, stop.set)
    timer.start()
    began = time.monotonic()
    one, two = run(
        diary.probe("one", seconds=30.0),
        diary.probe("two", quiet=True, suite="full"),
        stop=stop,
    )
    timer.join()
    assert time.monotonic() - began < 5
    assert (one.outcome, two.outcome) == (Outcome.NOT_ASKED, Outcome.NOT_ASKED)
    assert one.reason is not None
    assert two.reason is None


def test_a_lost_connection_waits_for_the_word_that_the_engine_is_gone() -> None:
    diary, stop = Diary(), threading.Event()
    timer = threading.Timer(0.3, stop.set)
    timer.start()
    (lost,) = run(diary.probe("lost", wrong="no answer: connection reset"), stop=stop)
    timer.join()
    assert lost.outcome is Outcome.NOT_ASKED


def test_work_is_dropped_when_the_flag_is_set() -> None:
    ended: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append(True)

    async def forty_two() -> int:
        return 42

    flag = threading.Event()
    make: Callable[[], Awaitable[int]] = forty_two
    assert asyncio.run(_of(flag, make)) == 42
    flag.set()
    with pytest.raises(Interrupted):
        asyncio.run(_of(flag, work))
    assert ended == [True]


async def _of(flag: threading.Event, make: Callable[[], Awaitable[Any]]) -> Any:
    return await unless(flag, make())


def result(name: str, need: Need, outcome: Outcome = Outcome.FAILED) -> ProbeResult:
    return ProbeResult(name, need, outcome, "status 500", 0.1)


def test_what_a_failure_means() -> None:
    passed = [result("json", "as_baseline", Outcome.PASSED)]
    now = [
        result("chat", "required"),
        result("json", "as_baseline"),
        result("n_2", "allowed"),
    ]
    assert failures(now, passed) == ("probe chat: status 500", "probe json: status 500")
    assert failures(now, [result("json", "as_baseline")]) == ("probe chat: status 500",)
    assert failures(now, None) == ("probe chat: status 500",)
    assert failures([result("chat", "required", Outcome.NOT_ASKED)], passed) == ()
