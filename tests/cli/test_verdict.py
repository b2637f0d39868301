from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tuner.cli.verdict import verdict_command
from tuner.errors import UserError

LOGS = Path(__file__).parent.parent / "data" / "verdict" / "logs"


@pytest.fixture
def app() -> typer.Typer:
    found = typer.Typer()
    found.command("verdict")(verdict_command)
    return found


def test_text(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, [str(LOGS / "kv_space.log"), "--exit", "1"])
    assert result.exit_code == 0
    assert "kv_space_does_not_fit" in result.output
    assert "exit status 1" in result.output


def test_json(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, [str(LOGS / "clean_stop.log"), "--json"])
    data = json.loads(result.output)
    assert result.exit_code == 0
    assert (data["verdict"], data["stage"]) == ("stopped_cleanly", "stopping")
    assert data["evidence"]
    assert data["advice"]


def test_a_negative_exit_code(app: typer.Typer, tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("INFO:     Application startup complete.\n")
    for code in ("-9", "137"):
        result = CliRunner().invoke(app, [str(log), "--exit", code, "--json"])
        assert json.loads(result.output)["exit"] == {"status": None, "signal": 9}


def test_standard_input(app: typer.Typer) -> None:
    result = CliRunner().invoke(
        app, ["-", "--json"], input="OSError: [Errno 98] Address already in use\n"
    )
    assert json.loads(result.output)["verdict"] == "port_taken"


@pytest.mark.parametrize("name", ["missing.log", "."])
def test_a_log_that_cannot_be_read(app: typer.Typer, name: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [str(tmp_path / name)])
    assert isinstance(result.exception, UserError)
    assert result.exception.exit_code == 2
    assert "\n" not in str(result.exception)


def test_an_empty_log(app: typer.Typer, tmp_path: Path) -> None:
    log = tmp_path / "empty.log"
    log.write_text("")
    result = CliRunner().invoke(app, [str(log), "--json"])
    assert result.exit_code == 0
    assert json.loads(result.output)["verdict"] == "unknown"


def test_help_has_an_example(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert "tuner verdict server.log" in result.output
