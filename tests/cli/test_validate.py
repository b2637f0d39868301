"""``tuner validate`` on the search spaces that ship, on whatever machine this is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tuner.cli import register
from tuner.cli.main import app

pytestmark = pytest.mark.slow

if not app.registered_commands:
    register.commands(app)

SHIPPED = sorted(Path("search_spaces").glob("*.yaml"))


def validate(*words: str) -> str:
    result = CliRunner().invoke(app, ["validate", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("space", SHIPPED, ids=lambda path: path.stem)
def test_every_space_that_ships_is_valid_and_shows_its_commands(space: Path) -> None:
    shown = validate(str(space))
    assert "baseline:" in shown
    assert "-m vllm.entrypoints.openai.api_server" in shown
    data = json.loads(validate(str(space), "--json"))
    assert data["commands"][0]["name"] == "baseline"


def test_the_docker_space_shows_what_its_containers_run() -> None:
    data = json.loads(validate("search_spaces/local_cpu_docker.yaml", "--json"))
    first = next(one for one in data["commands"] if one["name"] == "first 1")
    assert first["env"]["VLLM_CPU_OMP_THREADS_BIND"] == "0|1"
    assert first["command"][-4:] == ["--host", "0.0.0.0", "--port", "8000"]  # noqa: S104 - inside
