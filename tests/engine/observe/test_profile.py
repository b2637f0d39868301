from __future__ import annotations

import json
from typing import Any

import pytest

from enginex.observe.profile import DecodeProfile, table
from enginex.observe.step import Step


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def profiled(every: int = 2, **kwargs: Any) -> tuple[DecodeProfile, Clock, list[str]]:
    clock, lines = Clock(), []
    return DecodeProfile(every, write=lines.append, clock=clock, **kwargs), clock, lines


def run_step(profile: DecodeProfile, clock: Clock, step: Step) -> None:
    """10 s: 1 outside, attention 2, experts 6 of which the router has 1 and an all-reduce 2, 1 outside."""
    profile.begin(step.number)
    began = clock.now
    clock.now += 1
    with profile.stage("attention"):
        clock.now += 2
    with profile.stage("mlp"):
        clock.now += 1
        with profile.stage("router"):
            clock.now += 1
        clock.now += 1
        with profile.stage("routed_experts"):
            clock.now += 1
            with profile.stage("all_reduce"):
                clock.now += 2
    clock.now += 1
    profile.done(step, clock.now - began)


def test_each_stage_has_its_own_time_and_all_add_up() -> None:
    profile, clock, _ = profiled()
    for number in (1, 2, 3):
        run_step(profile, clock, Step(number))
    run_step(profile, clock, Step(4, prefill_tokens=5))
    figures = profile.figures()
    assert figures["decode"]["steps"] == 3
    assert figures["prefill"]["steps"] == 1
    stages = {name: s["total_s"] for name, s in figures["decode"]["stages"].items()}
    assert stages == {
        "attention": 6,
        "mlp": 6,
        "all_reduce": 6,
        "other": 6,
        "router": 3,
        "routed_experts": 3,
    }
    assert sum(stages.values()) == 30
    assert all(s["count"] == 3 for s in figures["decode"]["stages"].values())


def test_it_prints_json_and_a_table_every_so_many_steps() -> None:
    profile, clock, lines = profiled(every=2)
    run_step(profile, clock, Step(1))
    assert lines == []
    run_step(profile, clock, Step(2))
    line = lines[0]
    assert line.startswith("[enginex] profile pid=")
    found = json.loads(line.split("stages=", 1)[1])
    assert found == profile.figures()
    assert lines[1:] == [f"[enginex] profile | {row}" for row in table(found)]
    assert "decode.attention" in lines[2]
    assert lines[2].split()[4:] == ["4000.00", "2000.000", "2", "20.0%"]


def test_outside_of_a_step_nothing_is_timed() -> None:
    profile, clock, _ = profiled()
    with profile.stage("attention"):
        clock.now += 5
    run_step(profile, clock, Step(1))
    assert profile.figures()["decode"]["stages"]["attention"] == {"total_s": 2, "count": 1}


def test_with_sync_each_border_waits_for_the_device() -> None:
    waits: list[int] = []
    profile, clock, _ = profiled(sync=lambda: waits.append(1))
    run_step(profile, clock, Step(1))
    assert len(waits) == 10


def test_a_stage_that_raises_is_closed() -> None:
    profile, clock, _ = profiled()
    profile.begin(1)
    with pytest.raises(ZeroDivisionError), profile.stage("mlp"), profile.stage("router"):
        _ = 1 / 0
    run_step(profile, clock, Step(2))
    assert profile.figures()["decode"]["stages"]["mlp"]["total_s"] == 2
