from __future__ import annotations

import time

import pytest

from enginex.moe.steps import StepCounter, bucket


@pytest.mark.parametrize(
    ("tokens", "key"), [(1, 1), (64, 64), (65, 128), (128, 128), (129, 256), (2048, 2048)]
)
def test_bucket(tokens: int, key: int) -> None:
    assert bucket(tokens) == key


def test_line_counts_by_path_and_by_tokens() -> None:
    counter = StepCounter()
    for path, tokens in [("bmm", 1), ("bmm", 1), ("loop", 2), ("native", 100), ("native", 120)]:
        counter.add(path, tokens)
    assert counter.line().startswith(
        "[enginex] moe steps tiny=3 native=2 tokens=224 by_tokens={1:2,2:1,128:2} by_path={bmm:2,loop:1} pid="
    )


def test_prints_after_a_burst_and_only_news() -> None:
    seen: list[str] = []
    counter = StepCounter(seen.append, tick_s=0.01)
    counter.start()
    counter.start()
    counter.add("loop", 1)
    deadline = time.monotonic() + 5
    while not seen and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(seen) == 1
    time.sleep(0.1)
    counter.stop()
    assert len(seen) == 1
    counter.add("native", 3)
    counter.tell()
    counter.tell()
    assert len(seen) == 2
    assert "tiny=1 native=1" in seen[1]


def test_a_burst_without_end_is_reported_while_it_lasts() -> None:
    seen: list[str] = []
    counter = StepCounter(seen.append, tick_s=0.01, longest_s=0.05)
    counter.start()
    until = time.monotonic() + 0.4
    while time.monotonic() < until:
        counter.add("loop", 1)
        time.sleep(0.001)
    reported = len(seen)
    counter.stop()
    assert reported >= 2
