"""How long an engine may make no progress, by what its log says and by what it loads."""

from __future__ import annotations

import math
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.devices import GIB, MIB
from tuner.launch.readiness import Ended, Waited
from tuner.spec.document import Deadlines
from tuner.telemetry.samples import DeviceSample, Sample
from tuner.trial.events import Voice
from tuner.trial.evidence import Ending
from tuner.trial.pulse import DeviceWork, Pulse

CAPTURE = "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):   0%|          | 0/67"
WAITS = "Waiting for 1 local, 0 remote core engine proc(s) to start."


class Mute:
    def say(self, *_: Any, **__: Any) -> None:
        """Nobody listens."""


def pulse(loads: int = 0, **deadlines: float) -> Pulse:
    return Pulse(cast(Voice, Mute()), 1, Deadlines(**deadlines), loads=loads)


def test_a_start_has_more_time_the_more_it_loads() -> None:
    small, large = pulse().patience(), pulse(loads=70 * 10**9).patience()
    assert (small.quiet, small.silent, small.total) == (300, 900, 900)
    assert (large.quiet, large.silent, large.total) == (300, 900 + 700, 900 + 700)
    assert large.most == 4 * large.total


def test_a_capture_of_graphs_may_not_be_silent_for_long() -> None:
    found = pulse(loads=70 * 10**9)
    assert found.lines([f"INFO 11-30 10:00:00 [gpu_model_runner.py:1] {CAPTURE}"])
    assert found.patience().silent == 300


def test_a_silence_that_is_longer_than_the_start_is_the_start() -> None:
    assert pulse(start=60, silence=120).patience().quiet == 60


def at(second: int, text: str) -> str:
    return f"(EngineCore pid=7) INFO 11-30 10:00:{second:02} [core.py:1] {text}"


def test_a_line_said_again_and_again_is_no_progress() -> None:
    found = pulse()
    assert found.lines([at(1, WAITS)])
    assert not found.lines([at(second, WAITS) for second in range(2, 60)])
    assert found.lines([at(59, WAITS), at(59, "Loading weights took 12.1 seconds")])
    assert not found.lines([])


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r")), max_size=5))
def test_whatever_was_said_is_no_news_a_second_time(lines: list[str]) -> None:
    found = pulse()
    found.lines(lines)
    assert not found.lines(lines)


def test_bars_move() -> None:
    bar = "Loading safetensors checkpoint shards: {}% Completed | {}/26 [00:0{}<00:20,  1.1it/s]"
    found = pulse()
    for step in range(1, 9):
        assert found.lines([bar.format(4 * step, step, step)])


def sample(*devices: DeviceSample) -> Sample:
    return Sample(0.0, "start", None, None, devices)


def card(used: int | None, utilization: float | None = 0.0, uuid: str = "GPU-0") -> DeviceSample:
    return DeviceSample(0, uuid=uuid, memory_used=used, utilization=utilization)


def test_a_kernel_or_memory_that_moves_is_work() -> None:
    work = DeviceWork(["GPU-0"])
    work.note(sample(card(GIB)))
    assert work.last == -math.inf, "the first look shows no movement"
    work.note(sample(card(GIB + MIB // 2)))
    assert work.last == -math.inf
    work.note(sample(card(GIB + 3 * MIB)))
    filled = work.last
    assert filled > 0
    work.note(sample(card(GIB + 3 * MIB)))
    assert work.last == filled
    work.note(sample(card(GIB + 3 * MIB, 4.0)))
    assert work.last > filled


def test_weights_that_trickle_in_are_work() -> None:
    work = DeviceWork(["GPU-0"])
    for step in range(10):
        work.note(sample(card(step * MIB // 4)))
    assert work.last > 0


def test_what_others_do_on_their_devices_is_not() -> None:
    work = DeviceWork(["GPU-0"])
    work.note(sample(card(GIB, 100.0, uuid="GPU-1"), card(None, None)))
    work.note(Sample(0.0, "start", None, None, None, gap="the driver did not answer"))
    assert work.last == -math.inf


def test_what_was_allowed_is_what_was_passed() -> None:
    silent = Ending.of_wait(Waited(Ended.HUNG, 500.0, silence=301.0, deadline=300.0), None)
    assert (silent.silence, silent.deadline, silent.hung) == (301.0, 300.0, True)
    endless = Ending.of_wait(Waited(Ended.HUNG, 3601.0, silence=1.0, deadline=3600.0), None)
    assert (endless.silence, endless.deadline) == (3601.0, 3600.0)
    gone = Ending.of_wait(Waited(Ended.EXITED, 3.0, silence=1.0), None)
    assert (gone.silence, gone.deadline, gone.hung) == (None, None, False)
