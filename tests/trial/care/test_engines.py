from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.fakes.ledgers import fill
from tests.trial.care.conftest import planned
from tuner.build import cache as cache_module
from tuner.build.engine import Engine, Fingerprint
from tuner.errors import DockerLost, PortTaken
from tuner.launch import ports
from tuner.launch.dockerapi import Docker
from tuner.store.ledger import Ledger
from tuner.store.locks import hold_study
from tuner.trial.care import engines
from tuner.trial.care.finding import Finding, Level
from tuner.trial.entry import SPACE_COPY, study_folder


def only(found: list[Finding], level: Level) -> Finding:
    (one,) = (each for each in found if each.level is level)
    return one


def entry(folder: Path, python: Path, *, built: bool = True) -> cache_module.CachedEngine:
    print_ = Fingerprint("3.11", None, None, (), "cpu", ())
    engine = Engine("cpu", "d" * 64, "venv", folder, python, (), (), print_)
    return cache_module.CachedEngine("cpu-1", folder, engine if built else None, not built, 1, 1.0)


def test_nothing_built_is_worth_knowing_and_no_illness(tmp_path: Path) -> None:
    found = only(engines.look_at_engines(tmp_path), Level.NOTE)
    assert "no engine is built" in found.said
    assert "tuner engine build cpu" in str(found.mend)


def test_an_engine_whose_interpreter_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [entry(tmp_path, tmp_path / "python"), entry(tmp_path, tmp_path, built=False)]
    monkeypatch.setattr(engines, "list_engines", lambda _: tuple(entries))
    assert "is gone" in only(engines.look_at_engines(tmp_path), Level.BAD).said
    (tmp_path / "python").touch()
    assert only(engines.look_at_engines(tmp_path), Level.OK).said == "cpu-1 is built"
    assert only(engines.look_at_engines(tmp_path), Level.NOTE).said == "cpu-1 is being built"


@pytest.fixture
def no_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> None:
        raise DockerLost("no Docker daemon answers at /nowhere")

    monkeypatch.setattr(Docker, "find", lost)


@pytest.mark.usefixtures("no_docker")
def test_a_docker_that_nobody_needs_may_be_away(ledger: Ledger) -> None:
    only(engines.look_at_docker(None), Level.NOTE)
    found = only(engines.look_at_docker(ledger), Level.NOTE)
    assert "/nowhere" in found.said
    assert "only `launch: docker`" in found.said


@pytest.mark.usefixtures("no_docker")
def test_a_docker_that_is_needed_must_answer(ledger: Ledger) -> None:
    ledger.launch_intended(planned(ledger), "docker", {})
    found = only(engines.look_at_docker(ledger), Level.BAD)
    assert "needed by an engine of study nightly" in found.said
    assert "DOCKER_HOST" in str(found.mend)


@pytest.mark.usefixtures("no_docker")
def test_a_waiting_study_may_need_docker(ledger: Ledger) -> None:
    wants(ledger, "launch: docker")
    assert "needed by study nightly" in only(engines.look_at_docker(ledger), Level.BAD).said


def test_a_docker_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Docker, "find", lambda *_: ())
    only(engines.look_at_docker(None), Level.OK)


def wants(ledger: Ledger, what: str) -> None:
    """Have the study wait, and its space ask for something of its engine."""
    path = study_folder(ledger, "nightly") / SPACE_COPY
    text = path.read_text().replace("{recipe: cpu,", f"{{recipe: cpu, {what},")
    path.write_text(text)
    row = ledger.study("nightly")
    ledger.set_status(row.id, "paused")
    with ledger.change() as db:
        db.execute("UPDATE studies SET space=? WHERE id=?", (text, row.id))


def test_a_port_that_somebody_else_holds(ledger: Ledger) -> None:
    only(engines.look_at_ports(ledger), Level.OK)
    with socket.socket() as holder:
        holder.bind((ports.HOST, 0))
        holder.listen()
        port = holder.getsockname()[1]
        wants(ledger, f"port: {port}")
        found = only(engines.look_at_ports(ledger), Level.BAD)
        with hold_study(study_folder(ledger, "nightly")):
            only(engines.look_at_ports(ledger), Level.OK)  # it is its own engine's
    assert f"study nightly asks for port {port}, which pid" in found.said
    assert "leave the port out" in str(found.mend)
    only(engines.look_at_ports(ledger), Level.OK)


def test_a_space_that_cannot_be_read_is_passed_over(ledger: Ledger) -> None:
    fill(ledger, "broken", trials=1)
    (study_folder(ledger, "broken") / SPACE_COPY).unlink()
    ledger.set_status(ledger.study("broken").id, "paused")
    with ledger.change() as db:
        db.execute("UPDATE studies SET space='a: [' WHERE name='broken'")
    only(engines.look_at_ports(ledger), Level.OK)


def test_no_port_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> int:
        raise PortTaken("no free TCP port was found on 127.0.0.1")

    monkeypatch.setattr(ports, "free_port", none)
    assert "loopback" in str(only(engines.look_at_ports(None), Level.BAD).mend)
