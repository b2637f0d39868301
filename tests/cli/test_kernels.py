from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tests.build.test_kernels import engine
from tuner import build
from tuner.cli.kernels import kernels
from tuner.errors import UserError


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    """The command, with an engine whose measuring program is a fake."""
    fake = engine(tmp_path)
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(build, "build_engine", lambda _: fake)
    return CliRunner()


def test_table_losers_and_the_variable_to_set(run: CliRunner, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(kernels)
    done = run.invoke(app, [str(tmp_path / "model"), "--tp", "2"], catch_exceptions=False)
    assert done.exit_code == 0
    policy = tmp_path / "cache" / "kernels" / "policy.json"
    assert done.stdout.splitlines() == [
        "the table",
        "",
        "Never the fastest: bmm",
        f"Policy for ENGINEX_MOE_TINY_IMPL=auto: ENGINEX_MOE_POLICY={policy}",
    ]
    assert policy.exists()


def test_what_the_measuring_says_is_shown_as_it_is(
    run: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = build.measure_kernels

    def measure_kernels(*given: Any, report: Any, **more: Any) -> build.KernelTimes:
        report("skipped [/dev/kfd]")
        return real(*given, report=report, **more)

    monkeypatch.setattr(build, "measure_kernels", measure_kernels)
    app = typer.Typer()
    app.command()(kernels)
    done = run.invoke(app, [str(tmp_path / "model")], catch_exceptions=False)
    assert done.exit_code == 0


def test_json(run: CliRunner, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(kernels)
    words = [
        "model",
        "--json",
        "--tokens",
        "1,4",
        "--threads",
        "2",
        "--policy",
        str(tmp_path / "p"),
    ]
    done = run.invoke(app, words, catch_exceptions=False)
    found = json.loads(done.stdout)
    assert found["never_fastest"] == ["bmm"]
    assert found["policy"] == str(tmp_path / "p")
    assert found["asked"]["--tokens"] == "1,4"
    assert found["asked"]["--threads"] == "2"
    assert found["asked"]["--model"] == str(Path.cwd() / "model")


def test_a_recipe_of_an_image_is_refused_before_it_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "build_engine", lambda _: pytest.fail("it was built"))
    app = typer.Typer()
    app.command()(kernels)
    error = CliRunner().invoke(app, [str(tmp_path), "--recipe", "cuda"]).exception
    assert isinstance(error, UserError)
    assert "the engine cuda is an image" in str(error)
