"""Which starts are healthy and which hang; what stands in for the engine moves as the tests say."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from tuner.launch import readiness
from tuner.launch.base import Launch
from tuner.launch.ports import free_port
from tuner.launch.readiness import Ended, Patience, Waited, await_ready

FOR_EVER = 1000.0


@dataclass
class Starting:
    """An engine that starts and never answers; it says a line and uses a processor when told to.

    Attributes:
        log: Its log.
        moves: What it does at the n-th look at its deadlines.
    """

    log: Path
    moves: Callable[[int], None] = lambda _: None
    base_url: str = field(default_factory=lambda: f"http://127.0.0.1:{free_port()}")
    cpu: float = 0.0
    worked: float = -1.0
    looks: int = 0

    def __post_init__(self) -> None:
        self.log.touch()

    def exit(self) -> None:
        return None

    def cpu_seconds(self) -> float:
        return self.cpu

    def say(self, text: str) -> None:
        with self.log.open("a") as out:
            out.write(f"{text}\n")

    def wait(self, limits: Patience, on_lines: Callable[[list[str]], bool]) -> Waited:
        def look() -> Patience:
            self.looks += 1
            self.moves(self.looks)
            return limits

        return await_ready(
            cast(Launch, self),
            model="llm",
            patience=look,
            on_lines=on_lines,
            worked=lambda: self.worked,
        )


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_POLL", "_FIRST_POLL", "_CPU_LOOK"):
        monkeypatch.setattr(readiness, name, 0.01)


def limits(**some: float) -> Patience:
    rest = {"quiet": FOR_EVER, "silent": FOR_EVER, "total": FOR_EVER, "most": FOR_EVER}
    return Patience(**{**rest, **some})


def new(_: list[str]) -> bool:
    return True


def nothing_new(_: list[str]) -> bool:
    return False


def test_a_start_whose_devices_work_is_not_quiet(tmp_path: Path) -> None:
    """As when weights are copied by the device itself: no line, no processor time."""
    engine = Starting(tmp_path / "log")
    until = time.monotonic() + 0.9

    def work(_: int) -> None:
        if time.monotonic() < until:
            engine.worked = time.monotonic()

    engine.moves = work
    waited = engine.wait(limits(quiet=0.3), new)
    assert waited.ended is Ended.HUNG
    assert "no device at work" in waited.detail
    assert waited.seconds > 0.9
    assert waited.deadline == 0.3


def test_a_start_that_does_nothing_at_all_hangs(tmp_path: Path) -> None:
    waited = Starting(tmp_path / "log").wait(limits(quiet=0.2), new)
    assert waited.ended is Ended.HUNG
    assert waited.seconds < FOR_EVER / 10


def test_devices_and_processors_that_spin_do_not_hide_a_silent_log(tmp_path: Path) -> None:
    engine = Starting(tmp_path / "log")

    def spin(_: int) -> None:
        engine.worked, engine.cpu = time.monotonic(), engine.cpu + 1.0

    engine.moves = spin
    waited = engine.wait(limits(silent=0.3), new)
    assert (waited.ended, waited.deadline) == (Ended.HUNG, 0.3)
    assert waited.detail.startswith("no new log line for")


def test_a_start_may_take_longer_than_its_time_while_its_log_moves(tmp_path: Path) -> None:
    engine = Starting(tmp_path / "log")

    def say(look: int) -> None:
        if engine.log.stat().st_size < 4000:
            engine.say(f"{look} " + "x" * 30)

    engine.moves = say
    waited = engine.wait(limits(total=0.05, quiet=0.5), new)
    assert waited.ended is Ended.HUNG
    assert engine.log.stat().st_size >= 4000, "it was ended while it went on"
    assert 0.5 < waited.silence < waited.seconds


def test_a_log_that_says_nothing_new_gives_no_more_time(tmp_path: Path) -> None:
    engine = Starting(tmp_path / "log")
    engine.moves = lambda _: engine.say("Waiting for 1 local, 0 remote core engine proc(s)")
    waited = engine.wait(limits(total=0.1, quiet=0.3), nothing_new)
    assert (waited.ended, waited.deadline) == (Ended.HUNG, 0.3)
    assert waited.silence > 0.3


def test_even_a_log_that_moves_for_ever_comes_to_an_end(tmp_path: Path) -> None:
    engine = Starting(tmp_path / "log")
    engine.moves = lambda look: engine.say(f"retrying, {look}")
    waited = engine.wait(limits(total=0.1, quiet=FOR_EVER, most=0.5), new)
    assert (waited.ended, waited.deadline) == (Ended.HUNG, 0.5)
    assert waited.detail.startswith("not ready after")
