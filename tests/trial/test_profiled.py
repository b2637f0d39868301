from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.spec.deployment import Deployment
from tuner.trial.profiled import step_profile, with_profile

OFF = "INFO:     Application startup complete.\n"


def line(pid: int = 7, who: str = "", **kinds: dict[str, Any]) -> str:
    """A line of totals as enginex prints it, behind a process's name where vLLM puts one."""
    return f"{who}[enginex] profile pid={pid} stages={json.dumps(kinds, separators=(',', ':'))}\n"


def kind(steps: int, **stages: tuple[float, int]) -> dict[str, Any]:
    named = {name: {"total_s": total, "count": count} for name, (total, count) in stages.items()}
    return {"steps": steps, "stages": named}


EARLY = line(who="(Worker pid=7) ", prefill=kind(1, gdn=(0.5, 3)))
LATE = line(decode=kind(189, gdn=(0.29, 567), other=(0.3, 189)), prefill=kind(11, gdn=(0.7, 33)))
TABLE = "[enginex] profile | decode.gdn   290.00  0.514  567  49.2%\n"


def write(folder: Path, *texts: str) -> Path:
    log = folder / "engine.log"
    log.write_text("".join(texts), encoding="utf-8")
    return log


def test_the_last_line_holds_all_since_the_start(tmp_path: Path) -> None:
    found = step_profile(write(tmp_path, OFF, EARLY, LATE, TABLE))
    assert found["decode"] == kind(189, other=(0.3, 189), gdn=(0.29, 567))
    assert list(found["decode"]["stages"]) == ["other", "gdn"]  # the longest first
    assert found["prefill"] == kind(11, gdn=(0.7, 33))


def test_what_was_counted_before_the_load_is_taken_off(tmp_path: Path) -> None:
    found = step_profile(write(tmp_path, OFF, EARLY, LATE), since=len(OFF + EARLY))
    assert found["prefill"] == kind(10, gdn=(0.2, 30))
    assert found["decode"]["steps"] == 189


def test_a_load_too_short_for_a_line_leaves_all_since_the_start(tmp_path: Path) -> None:
    log = write(tmp_path, OFF, EARLY, LATE)
    assert step_profile(log, since=len(OFF + EARLY + LATE)) == step_profile(log)


def test_workers_are_not_mixed(tmp_path: Path) -> None:
    other = line(pid=8, decode=kind(500, gdn=(9.0, 900)))
    log = write(tmp_path, EARLY, other, LATE, other)
    assert step_profile(log)["decode"]["steps"] == 189
    assert step_profile(log, since=len(EARLY + other))["prefill"]["steps"] == 10


@pytest.mark.parametrize(
    "text",
    [
        OFF,
        LATE.rstrip("\n"),  # cut off where the engine was killed
        "[enginex] profile pid=7 stages={broken\n",
        '[enginex] profile pid=7 stages={"decode":{"stages":{"gdn":{"total_s":-1}}}}\n',
        "[enginex] profile pid=7\n",
        "[enginex] profile decode=on every=20 sync=0 scope=stages pid=7\n",
    ],
)
def test_there_is_no_profile(text: str, tmp_path: Path) -> None:
    assert step_profile(write(tmp_path, text)) == {}


def test_there_is_no_log(tmp_path: Path) -> None:
    assert step_profile(tmp_path / "engine.log") == {}


@given(
    st.lists(st.tuples(st.floats(0, 1e3), st.integers(1, 1000)), min_size=1, max_size=8),
    st.integers(0, 8),
)
def test_parts_of_a_log_add_up_to_the_whole(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[float, int]], cut: int
) -> None:
    lines, seconds, calls = [], 0.0, 0
    for spent, count in steps:
        seconds, calls = seconds + spent, calls + count
        lines.append(line(decode=kind(calls, gdn=(seconds, calls))))
    cut = min(cut, len(steps) - 1)
    log = write(tmp_path_factory.mktemp("log"), *lines)
    stage = step_profile(log, since=len("".join(lines[:cut])))["decode"]["stages"]["gdn"]
    assert stage["count"] == sum(count for _, count in steps[cut:])
    assert stage["total_s"] == pytest.approx(sum(s for s, _ in steps[cut:]), abs=1e-5, rel=1e-9)


def test_a_profiled_deployment_is_the_same_but_for_its_variables() -> None:
    plain = Deployment("cpu", "make:tiny:0", "process", ("--x", "1"), (("A", "1"),), "llm")
    on_cpu = with_profile(plain, on_devices=False)
    on_card = with_profile(plain, on_devices=True)
    assert dict(on_cpu.env) == {
        "A": "1",
        "ENGINEX_PROFILE_DECODE": "1",
        "ENGINEX_PROFILE_EVERY": "20",
    }
    assert dict(on_card.env) == {**dict(on_cpu.env), "ENGINEX_PROFILE_SYNC": "1"}
    assert (on_card.argv, on_card.recipe, on_card.model) == (
        plain.argv,
        plain.recipe,
        plain.model,
    )
    assert Deployment.from_json(on_card.as_json()) == on_card
