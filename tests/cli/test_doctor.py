from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.fakes.devices import MIB, FakeCards, steady
from tuner.cli import register
from tuner.cli.main import app
from tuner.launch import shm
from tuner.store.ledger import Ledger
from tuner.telemetry import detect as module
from tuner.telemetry.detect import Detection

if not app.registered_commands:
    register.commands(app)


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shm").mkdir()
    monkeypatch.setattr(shm, "SHM", tmp_path / "shm")
    monkeypatch.setattr(module, "detect", lambda: Detection(FakeCards(steady(300 * MIB))))


def run(state: Path, *words: str) -> tuple[int, str]:
    argv = ["--state", str(state), "doctor", *words]
    result = CliRunner().invoke(app, argv, catch_exceptions=False)
    return result.exit_code, result.stdout


def test_a_machine_that_is_well(tmp_path: Path) -> None:
    code, out = run(tmp_path / "no")
    assert code == 0, out
    assert out.endswith("all is well\n")
    assert "ok   devices: Card GPU-0 is at rest" in out
    assert not (tmp_path / "no").exists()


def test_a_machine_that_is_not(ledger: Ledger) -> None:
    ledger.quarantine("GPU-0", "after trial 3: 20 GiB above its baseline")
    code, out = run(ledger.folder)
    assert code == 1
    assert "BAD  quarantine: nothing is started on GPU-0: after trial 3" in out
    assert "     mend: tuner clean" in out
    assert out.endswith("1 to be mended\n")


def test_as_json(ledger: Ledger) -> None:
    ledger.quarantine("GPU-0", "after trial 3")
    code, out = run(ledger.folder, "--json")
    data = json.loads(out)
    assert (code, data["well"]) == (1, False)
    (bad,) = (each for each in data["findings"] if each["level"] == "bad")
    assert bad["check"] == "quarantine"
    assert bad["mend"]


def test_a_file_that_no_daemon_starts_with_is_to_be_mended(ledger: Ledger) -> None:
    (ledger.folder / "daemon.toml").write_text("[nonsense]\n")
    (ledger.folder / "daemon.toml").chmod(0o600)
    code, out = run(ledger.folder)
    assert code == 1
    assert "BAD  daemon.toml: no daemon starts with" in out
    assert "nonsense: Extra inputs are not permitted" in out
