from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
import typer
from typer.testing import CliRunner

from tests.build.test_kernels import engine
from tuner import build
from tuner.cli.init import init
from tuner.errors import TelemetryLost
from tuner.telemetry import detect as detecting
from tuner.telemetry import hardware
from tuner.telemetry.samples import NoDevices
from tuner.trial import starting


class Asker:
    """An engine that knows one flag; how it was asked is kept."""

    asked: Sequence[str] = ()
    model = ""

    def __init__(self, argv: Sequence[str], _env: Any, model: str, _log: Path, **_: Any) -> None:
        Asker.asked, Asker.model = argv, model

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def flags(self) -> frozenset[str]:
        return frozenset({"--max-num-seqs"})


@pytest.mark.parametrize(
    ("recipe", "image", "launch"), [("cuda", "sha256:1", "docker"), ("cpu", None, "process")]
)
def test_an_engine_is_asked_where_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: str, image: str | None, launch: str
) -> None:
    built: list[str] = []

    def build_engine(_: Any, *, launch: str) -> build.Engine:
        built.append(launch)
        return engine(tmp_path, image=image)

    needs = SimpleNamespace(env=(("ONLY_INSIDE", "1"),))
    monkeypatch.setattr(build, "build_engine", build_engine)
    monkeypatch.setattr(build, "host_needs", lambda _: needs)
    monkeypatch.setattr(starting, "Preflight", Asker)
    app = typer.Typer()
    app.command()(init)
    file = tmp_path / "space.yaml"
    done = CliRunner().invoke(app, [str(file), "--recipe", recipe, "--ask"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "--max-num-seqs" in file.read_text()
    assert built == [launch]
    inside = image is not None
    assert (Asker.asked[0] == "docker", "ONLY_INSIDE=1" in Asker.asked) == (inside, inside)
    assert (Asker.model == starting.MODEL_INSIDE) is inside


@pytest.mark.parametrize("built", [True, False])
def test_without_a_word_an_engine_is_asked_where_it_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, built: bool
) -> None:
    foreseen = build.Foreseen(server=(), env={}, digest="0" * 64, built=built)
    monkeypatch.setattr(build, "foresee", lambda *_, **__: foreseen)
    monkeypatch.setattr(build, "build_engine", lambda *_, **__: engine(tmp_path))
    monkeypatch.setattr(starting, "Preflight", Asker)
    app = typer.Typer()
    app.command()(init)
    file = tmp_path / "space.yaml"
    done = CliRunner().invoke(app, [str(file), "--recipe", "cpu"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    # The engine that is asked here knows one flag; the recipe's own list has this one too.
    assert ("--enable-prefix-caching" in file.read_text()) is not built
    assert ("the engine is not asked" in done.stderr) is not built


def test_what_looks_at_the_devices_is_closed_when_they_are_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[NoDevices] = []

    class Source(NoDevices):
        def close(self) -> None:
            closed.append(self)

    def lost(_: object) -> None:
        raise TelemetryLost("the driver does not answer")

    monkeypatch.setattr(detecting, "detect", lambda: detecting.Detection(Source()))
    monkeypatch.setattr(hardware, "detect_hardware", lost)
    with pytest.raises(TelemetryLost):
        init(tmp_path / "space.yaml")
    assert len(closed) == 1
    assert not (tmp_path / "space.yaml").exists()
