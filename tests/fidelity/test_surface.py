from __future__ import annotations

from pathlib import Path

import pytest

from tuner.errors import UserError
from tuner.fidelity.surface import (
    Head,
    Point,
    Run,
    Surface,
    key_of,
    read_surface,
    stage_seconds,
    surface_of_trials,
    write_surface,
)
from tuner.store.ledger import Ledger
from tuner.store.rows import Origin
from tuner.store.stages import Stage

HEAD = Head(surface="s", what="made up", baseline={"x": 1, "how": "a"})


def point(x: int, how: str, *values: float, **more: object) -> Point:
    runs = tuple(Run(value=v, seconds=10.0) for v in values)
    fields = {"params": {"x": x, "how": how}, "start_s": (20.0,), "levels": {"full": runs}}
    return Point.model_validate(fields | ({"levels": {}} if not runs else {}) | more)


POINTS = [
    point(1, "a", 100.0, 102.0),
    point(2, "a", 150.0),
    point(8, "b", verdict="memory", foreseen=True),
    point(10, "b", 90.0),
]


def test_a_surface_is_read_as_it_was_written(tmp_path: Path) -> None:
    surface = Surface(HEAD, POINTS)
    path = tmp_path / "s.jsonl"
    path.write_text(write_surface(surface))
    again = read_surface(path)
    assert again.head == HEAD
    assert list(again.points.values()) == POINTS
    assert write_surface(again) == path.read_text()


def test_what_a_surface_says() -> None:
    surface = Surface(HEAD, POINTS)
    assert surface.best == pytest.approx(150)
    assert surface.truth[key_of({"how": "a", "x": 1.0})] == pytest.approx((100 * 102) ** 0.5)
    assert len(surface.truth) == 3
    assert surface.sigma("full") == pytest.approx(0.014, abs=1e-4)
    assert surface.sigma("short") is None
    assert surface.choices() == {"x": (1, 2, 8, 10), "how": ("a", "b")}


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([*POINTS, POINTS[0]], "there twice"),
        (POINTS[1:], "baseline is none"),
        ([point(1, "a", verdict="crash")], "no point has a value"),
    ],
)
def test_what_is_no_surface(points: list[Point], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Surface(HEAD, points)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("{}\n", "s.jsonl:1: surface"),
        (HEAD.model_dump_json() + '\n\n{"params": {}}\n', "s.jsonl:3: start_s"),
        (HEAD.model_dump_json() + "\n", "baseline is none"),
    ],
)
def test_a_file_that_is_no_surface_is_told(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        read_surface(path)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("tuner.store.ledger.time.monotonic", lambda: now[0])
    return now


def test_a_study_that_measured_a_grid_is_a_surface(tmp_path: Path, clock: list[float]) -> None:
    def passes(seconds: float) -> None:
        clock[0] += seconds

    with Ledger(tmp_path / "state", write=True) as ledger:
        study = ledger.create_study(name="s", fingerprint="f", space="", origin="o").id

        def run(
            x: int,
            origin: Origin,
            score: float | None,
            *,
            feasible: bool = True,
            repeats: int | None = None,
        ) -> None:
            trial = ledger.plan(
                study,
                origin=origin,
                params={"x": x},
                assignment=None,
                deployment={},
                repeats=repeats,
                block=None if repeats is None else 0,
            )
            trial = ledger.advance(trial, Stage.STARTING)
            passes(20)
            if score is not None:
                for stage in (Stage.READY, Stage.PROBED, Stage.WARMED):
                    trial = ledger.advance(trial, stage)
                    passes(1)
                trial = ledger.advance(trial, Stage.MEASURED, score=score)
            trial = ledger.advance(trial, Stage.STOPPING)
            passes(2)
            trial = ledger.advance(
                trial,
                Stage.VERIFIED,
                verdict=None if score is not None else "memory",
                feasible=feasible,
            )
            ledger.advance(trial, Stage.TOLD)

        run(1, Origin.BASELINE, 100.0)
        run(2, Origin.SEARCH, None, feasible=False)
        run(3, Origin.SEARCH, 90.0, feasible=False)
        run(1, Origin.REPEAT, 104.0, repeats=0)
        never = ledger.plan(
            study, origin=Origin.SEARCH, params={"x": 4}, assignment=None, deployment={}
        )
        ledger.advance(never, Stage.VERIFIED, verdict="memory", feasible=False)
        head = Head(surface="s", what="w", baseline={"x": 1})
        seconds = stage_seconds(ledger.transitions(study))
        surface = surface_of_trials(head, ledger.trials(study), seconds)
    points = {p.params["x"]: p for p in surface.points.values()}
    assert list(points[1].levels["full"]) == [Run(value=v, seconds=5) for v in (100, 104)]
    assert list(points[1].start_s) == [20.0, 20.0]
    assert (points[2].verdict, points[2].lost_s, points[2].foreseen) == ("memory", 2, False)
    assert (points[3].verdict, points[3].lost_s) == ("gates", 5)
    assert (points[4].verdict, points[4].foreseen) == ("memory", True)
    assert list(surface.truth) == ["x=1"]
