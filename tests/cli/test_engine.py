from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.build.test_kernels import engine as made
from tuner import build, paths
from tuner.build import Progress, Report
from tuner.cli.engine import app

RECIPE = """\
format: 1
name: fake
about: a recipe for tests
base: {venv: {pythons: ["3.11", "3.12", "3.13"], disk: 10MiB}}
server: ["{python}", "-m", "http.server"]
checks:
  - {name: json, do: import, module: json}
  - {name: later, do: file, file: "{root}/later", mend: touch it, when: verify}
"""

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "fake"
    folder.mkdir()
    (folder / "recipe.yaml").write_text(RECIPE)
    return folder


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(paths, "data_dir", lambda: tmp_path / "nothing-came-with-it")

    def call(*argv: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, argv, catch_exceptions=False)
        return result.exit_code, result.stdout

    return call


def test_build_list_prune(run: Run, folder: Path) -> None:
    status, out = run("build", str(folder))
    assert status == 0
    assert "engine fake" in out
    status, out = run("build", str(folder), "--json")
    engine = json.loads(out)
    assert (status, engine["recipe"]) == (0, "fake")
    status, out = run("list")
    assert status == 0
    assert f"fake-{engine['digest'][:12]}  ready" in out
    status, out = run("list", "--json")
    assert [row["digest"] for row in json.loads(out)] == [engine["digest"]]
    status, out = run("list", "--prune")
    assert out.startswith(f"removed fake-{engine['digest'][:12]}")
    assert run("list") == (0, f"no engine in {Path(engine['root']).parent.parent}\n")


def test_verify_says_what_is_missing(run: Run, folder: Path) -> None:
    run("build", str(folder))
    status, out = run("verify", str(folder))
    assert status == 1
    assert "ok   json: imports" in out
    assert "BAD  later: " in out
    assert "touch it" in out
    _, out = run("build", str(folder), "--json")
    (Path(json.loads(out)["root"]) / "later").write_text("")
    status, out = run("verify", str(folder), "--json")
    assert status == 0
    assert [row["ok"] for row in json.loads(out)] == [True, True]


def test_what_a_build_says_is_shown_as_it_is(
    run: Run, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / "odd[" / "b]" / "fake"
    odd.parent.mkdir(parents=True)
    folder.rename(odd)
    found = made(tmp_path)

    def build_engine(*_: Any, progress: Report, **__: Any) -> build.Engine:
        progress(Progress("a [/step]", 1, 2, "copying [/usr/lib] [bold"))
        return found

    monkeypatch.setattr(build, "build_engine", build_engine)
    monkeypatch.setattr(build, "fill_wheelhouse", lambda *_, **__: [])
    assert run("build", str(odd))[0] == 0
    assert run("wheels", str(odd), str(tmp_path))[0] == 0
