from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.quality.conftest import served
from tuner.trial.exercise import Exercise, read_exercise

LOG = """\
(Worker pid=7) INFO 11-30 07:32:11 [x.py:1] [enginex] moe variant=loop max_tokens=4 effective=loop pid=7
[enginex] moe steps tiny=5 native=1 by_tokens={1:5,64:1} pid=7
(APIServer pid=1) INFO 11-30 07:32:11 [loggers.py:335] Engine 000: nothing
[enginex] moe steps tiny=12 native=4 by_tokens={1:10,2:2,64:1,128:2,2048:1} by_path={loop:12} pid=7
"""


def test_the_last_counts_are_those_of_the_whole_life(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text(LOG)
    found = read_exercise(log, "http://127.0.0.1:1")
    assert found.steps == {1: 10, 2: 2, 64: 1, 128: 2, 2048: 1}
    assert found.variant_steps == 12
    assert found.largest == 2048
    assert (found.tokens, found.preemptions) == (None, None)
    assert Exercise.from_json(found.as_json()) == found


@pytest.mark.parametrize(
    "text", ["", "[enginex] moe steps tiny=x native= by_tokens={a:b}\n", "\x00\xff\n"]
)
def test_a_log_that_tells_nothing(tmp_path: Path, text: str) -> None:
    log = tmp_path / "engine.log"
    log.write_text(text, encoding="latin-1")
    assert read_exercise(log, "http://127.0.0.1:1") == Exercise()
    assert read_exercise(tmp_path / "gone.log", "http://127.0.0.1:1") == Exercise()


def test_the_engines_metrics_count_tokens_and_bound_the_largest_step(tmp_path: Path) -> None:
    with served(()) as endpoint:
        body = {"model": "llm", "prompt": "x" * 300, "max_tokens": 5, "temperature": 0}
        httpx.post(f"{endpoint.url}/v1/completions", json=body, trust_env=False)
        found = read_exercise(tmp_path / "gone.log", endpoint.url)
    assert found.tokens == 305
    assert found.largest == 512
    assert found.preemptions == 0


@pytest.mark.parametrize(
    ("above", "up_to", "expected"),
    [
        (0, 1, True),
        (2, 16, False),
        (2, 64, True),
        (64, 65, True),
        (128, 1024, False),
        (128, 1025, True),
        (2048, 9999, False),
    ],
)
def test_whether_a_step_may_lie_between_two_limits(
    above: int, up_to: int, expected: object
) -> None:
    found = Exercise(steps={1: 10, 2: 2, 64: 1, 128: 2, 2048: 1})
    assert found.any_step(above, up_to) is expected


METRICS = """\
vllm:prompt_tokens_total{engine="0"} 3000.0
vllm:prefix_cache_hits_total{engine="0"} 1000.0
vllm:generation_tokens_total{engine="0"} 120.0
vllm:request_success_total{engine="0",finished_reason="length"} 20.0
"""
EARLY = "[enginex] moe steps tiny=4 native=2 tokens=1157 by_tokens={1:3,2:1,128:1,1024:1} pid=7\n"
WHOLE = "[enginex] moe steps tiny=44 native=3 tokens=2140 by_tokens={1:3,2:41,128:1,1024:2} pid=7\n"


@pytest.fixture
def metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = httpx.Response(200, text=METRICS)
    monkeypatch.setattr(httpx, "get", lambda *_, **__: answer)


@pytest.mark.usefixtures("metrics")
def test_counts_that_lack_a_part_of_the_load_are_no_counts(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text(EARLY)
    found = read_exercise(log, "http://127.0.0.1:1", patience=0.1)
    assert (found.steps, found.variant_steps) == ({}, None)
    assert found.tokens == 3120


@pytest.mark.usefixtures("metrics")
def test_counts_that_come_a_moment_later_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "engine.log"
    log.write_text(EARLY)
    monkeypatch.setattr("tuner.trial.exercise.time.sleep", lambda _: log.write_text(EARLY + WHOLE))
    found = read_exercise(log, "http://127.0.0.1:1", patience=60)
    assert found.steps == {1: 3, 2: 41, 128: 1, 1024: 2}
    assert found.variant_steps == 44
