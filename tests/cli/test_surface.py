from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tuner.cli import register
from tuner.cli.main import app
from tuner.errors import StudyNotFound, UserError
from tuner.fidelity.surface import Point, read_surface
from tuner.store.ledger import Ledger
from tuner.store.rows import Origin
from tuner.store.stages import Stage

if not app.registered_commands:
    register.commands(app)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("tuner.store.ledger.time.monotonic", lambda: now[0])
    return now


ENGINE = {"fingerprint": {"vllm": "0.32.0", "torch": "2.13.0", "cpu": "A Processor", "image": None}}


@pytest.fixture
def state(tmp_path: Path, clock: list[float]) -> Path:
    """A study of three points with a cheaper level; one died on the load, one could not fit."""
    with Ledger(tmp_path / "state", write=True) as ledger:
        study = ledger.create_study(name="s", fingerprint="f", space="", origin="o").id
        ledger.add_facts(study, {"engines": {"cpu": ENGINE}})

        def run(x: int, origin: Origin, *stages: Stage, **last: Any) -> None:
            trial = ledger.plan(
                study, origin=origin, params={"x": x}, assignment=None, deployment={}
            )
            for stage in stages:
                trial = ledger.advance(trial, stage)
                clock[0] += 10
            ledger.advance(ledger.advance(trial, Stage.VERIFIED, **last), Stage.TOLD)

        up = (Stage.STARTING, Stage.READY, Stage.PROBED, Stage.WARMED)
        levels = {"levels": {"brief": {"score": 50.0, "seconds": 4.0}}}
        run(1, Origin.BASELINE, *up, Stage.MEASURED, Stage.STOPPING,
            score=100.0, feasible=True, verdict="healthy", metrics=levels)  # fmt: skip
        run(2, Origin.SEARCH, *up, Stage.STOPPING, verdict="engine_crash", feasible=False, metrics=levels)  # fmt: skip
        run(3, Origin.SEARCH, verdict="kv_space_does_not_fit", feasible=False)
    return tmp_path / "state"


def invoke(state: Path, *words: str) -> Any:
    return CliRunner().invoke(app, ["--state", str(state), "surface", *words])


def values(point: Point) -> dict[str, list[float]]:
    return {level: [run.value for run in runs] for level, runs in point.levels.items()}


def test_all_that_a_study_measured_is_written_and_read_back(state: Path, tmp_path: Path) -> None:
    out = tmp_path / "s.jsonl"
    said = invoke(state, "s", "--out", str(out))
    assert said.exit_code == 0, said.output
    assert said.stdout == f"{out}: 3 points, 2 of them without a value, 3 measurements\n"
    found = read_surface(out)
    assert found.head.what.endswith(": engine cpu (vllm 0.32.0, torch 2.13.0, A Processor)")
    points = {point.params["x"]: point for point in found.points.values()}
    assert values(points[1]) == {"real": [100], "brief": [50]}
    assert (points[1].start, points[1].seconds("brief"), points[1].seconds("real")) == (10, 4, 46)
    # Dead on the real load: what it came to on the cheaper level is what a search would have seen.
    assert (points[2].verdict, values(points[2])) == ("engine_crash", {"brief": [50]})
    assert (points[3].foreseen, dict(points[3].levels)) == (True, {})


def test_a_study_that_is_not_there_and_a_file_that_cannot_be(state: Path, tmp_path: Path) -> None:
    assert isinstance(invoke(state, "t", "--out", str(tmp_path / "x")).exception, StudyNotFound)
    said = invoke(state, "s", "--out", str(tmp_path / "no" / "x")).exception
    assert isinstance(said, UserError)
    assert str(said).endswith("cannot be written: No such file or directory")


def test_a_study_without_a_baseline_is_none(tmp_path: Path) -> None:
    with Ledger(tmp_path / "state", write=True) as ledger:
        ledger.create_study(name="new", fingerprint="f", space="", origin="o")
    said = invoke(tmp_path / "state", "new", "--out", str(tmp_path / "x")).exception
    assert isinstance(said, UserError)
    assert "has measured nothing yet" in str(said)
