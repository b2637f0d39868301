"""What is exported of a trial, started for real: it is the very deployment that was measured."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.fakes.deployed import answers, asked
from tests.fakes.world import World
from tests.trial.test_study import run
from tuner.errors import UserError
from tuner.export import shell
from tuner.export.served import Served
from tuner.launch import ports
from tuner.store.ledger import Ledger
from tuner.store.rows import Transition
from tuner.trial import deliver
from tuner.trial.deliver import export_files, write_files

pytestmark = [pytest.mark.xdist_group("engines"), pytest.mark.timeout(120)]

CANARY = "canary-7f3a9"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def exported(world: World, form: Any, number: int = 0, **options: Any) -> dict[str, str]:
    with Ledger(world.state, write=False) as ledger:
        return export_files(ledger, ledger.study("fake"), number, form, **options)


def world_with_secret(folder: Path) -> World:
    engine = {
        "model": {"path": "model"},
        "flags": {"--max-model-len": 2048, "--enable-prompt-tokens-details": True},
        "env": {"FAKE_SECRET": {"from_env": "MY_TOKEN"}, "VLLM_ODD": "a 'b' $HOME 100%"},
        "deadlines": {"start": "30s", "silence": "15s", "stop": "5s"},
    }
    return World(folder, {"engine": engine, "budget": {"trials": 1}}).make()


def test_the_script_serves_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", CANARY)
    world = world_with_secret(tmp_path / "world")
    run(world)
    script = write_files(tmp_path / "out", exported(world, "shell"))
    assert script.name == shell.NAME
    assert os.access(script, os.X_OK)
    log, port = tmp_path / "by-hand.log", ports.free_port()
    with log.open("wb") as out:
        server = subprocess.Popen(
            [str(script)],
            env={"PATH": os.environ["PATH"], "MY_TOKEN": CANARY, "PORT": str(port), "VLLM_X": "1"},
            stdout=out,
            stderr=out,
        )
        try:
            assert answers(port)["usage"]["completion_tokens"] == 2
            env = psutil.Process(server.pid).environ()
        finally:
            server.terminate()
            server.wait(20)
    measured = world.state / "studies/fake/trials/0000/attempt-1/engine.log"
    assert asked(log.read_text()) == asked(measured.read_text())
    assert env["FAKE_SECRET"] == CANARY
    assert env["VLLM_ODD"] == "a 'b' $HOME 100%"
    assert "VLLM_X" not in env
    assert "MY_TOKEN" not in env


@pytest.mark.slow
def test_no_form_holds_a_secret_and_all_say_where_they_come_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", CANARY)
    world = world_with_secret(tmp_path)
    run(world)
    for form in ("computility-run", "shell", "systemd"):
        found = exported(world, form)
        assert found == exported(world, form)
        assert CANARY not in str(found)
        _, origin = found.values()
        assert json.loads(origin)["trial"] == 0
        assert json.loads(origin)["secrets"] == {"FAKE_SECRET": "MY_TOKEN"}
    for form in ("compose", "kubernetes"):
        with pytest.raises(UserError, match="measured processes"):
            exported(world, form)
    with pytest.raises(UserError, match="no image to name"):
        exported(world, "shell", image="registry.example/x:1")


@pytest.mark.slow
def test_where_it_is_deployed_it_may_start_as_slowly_as_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start may take longer than its deadline while it goes on; its probe must not end it then."""
    world = World(tmp_path, {"budget": {"trials": 1}}).make()
    run(world)
    found: list[Served] = []

    def files(_: Any, served: Served, __: Any) -> dict[str, str]:
        found.append(served)
        return {}

    monkeypatch.setattr(deliver, "files", files)
    exported(world, "shell")
    steps = Ledger.transitions

    def slower(*given: Any) -> list[Transition]:
        return [replace(step, detail={**step.detail, "seconds": 400.0}) for step in steps(*given)]

    monkeypatch.setattr(Ledger, "transitions", slower)
    exported(world, "shell")
    assert [served.start_s for served in found] == [30, 800]


@pytest.mark.slow
def test_a_file_that_changed_since_is_no_longer_what_was_measured(tmp_path: Path) -> None:
    template = tmp_path / "chat.jinja"
    template.write_text("{{ messages }}\n")
    parameters = {
        "template": {
            "env": "VLLM_TEMPLATE",
            "choices": [{"file": "chat.jinja"}],
            "baseline": {"file": "chat.jinja"},
        },
        "seqs": {"flag": "--max-num-seqs", "choices": [1, 2], "baseline": 1},
    }
    world = World(tmp_path, {"parameters": parameters, "budget": {"trials": 1}}).make()
    run(world)
    assert "chat.jinja" in str(exported(world, "shell"))
    template.write_text("another\n")
    with pytest.raises(UserError, match="has changed since"):
        exported(world, "shell")
    template.unlink()
    with pytest.raises(UserError, match="there is no file"):
        exported(world, "systemd")
