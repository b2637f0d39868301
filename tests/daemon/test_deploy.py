"""The service files that come with the project: read by their own formats, started as they say."""

from __future__ import annotations

import configparser
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.daemon.conftest import Keeper, bury
from tuner.daemon import home
from tuner.daemon.client import Client
from tuner.daemon.staff import clean_environment

pytestmark = pytest.mark.slow

DEPLOY = Path(__file__).parents[2] / "deploy"


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # as systemd, which minds case
    parser.read_string((DEPLOY / "systemd" / "tuner.service").read_text())
    return parser


def compose() -> dict[str, object]:
    found = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
    service: dict[str, object] = found["services"]["daemon"]
    return service


def test_the_unit_gives_the_daemon_the_time_that_it_needs() -> None:
    service = unit()["Service"]
    from tuner.daemon.server import PATIENCE

    assert service["KillMode"] == "mixed"
    assert int(service["TimeoutStopSec"]) > PATIENCE
    assert int(str(compose()["stop_grace_period"]).removesuffix("s")) > PATIENCE


def steps(start: str) -> list[str]:
    """Commands of the unit's head that begin so."""
    lines = (DEPLOY / "systemd" / "tuner.service").read_text().splitlines()
    found = [line.removeprefix("#   ") for line in lines if line.startswith("#   ")]
    return [line for line in found if line.startswith(start)]


@pytest.fixture
def home_folder(tmp_path: Path) -> Path:
    """A user's home in which the steps were done that the unit names, in a checkout."""
    folder, checkout = tmp_path / "home", tmp_path / "checkout"
    program = checkout / ".venv" / "bin" / "tuner"
    for place in (folder, program.parent):
        place.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m tuner "$@"\n')
    program.chmod(0o755)
    (checkout / "deploy").symlink_to(DEPLOY)
    commands = "\n".join([*steps("mkdir"), *steps("ln"), *steps("cp")])
    subprocess.run(
        ["sh", "-ec", commands], cwd=checkout, env={**os.environ, "HOME": str(folder)}, check=True
    )
    return folder


def in_home(word: str, folder: Path) -> str:
    assert "%" not in word.replace("%h", "")
    return word.replace("%h", str(folder))


def service_env(folder: Path) -> dict[str, str]:
    """What the unit adds to the environment."""
    name, _, value = unit()["Service"]["Environment"].partition("=")
    return {name: in_home(value, folder)}


def test_the_unit_and_a_command_that_was_told_so_mean_one_state_folder(home_folder: Path) -> None:
    (export,) = steps("export TUNER_STATE=")
    env = {"HOME": str(home_folder), "PATH": os.environ["PATH"]}
    said = subprocess.run(
        ["sh", "-ec", f'{export}; printf %s "$TUNER_STATE"'],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert {"TUNER_STATE": said} == service_env(home_folder)
    # And it is the one that tuner takes by itself outside of a checkout.
    ask = "from tuner.paths import state_dir; print(state_dir())"
    own = subprocess.run(
        [sys.executable, "-c", ask],
        env={**env, "PYTHONPATH": str(DEPLOY.parent)},
        cwd=home_folder,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert own.strip() == said
    assert (home_folder / ".config/systemd/user/tuner.service").is_file()


def test_the_unit_starts_a_daemon_that_ends_when_it_is_told(home_folder: Path) -> None:
    words = [in_home(word, home_folder) for word in shlex.split(unit()["Service"]["ExecStart"])]
    env = service_env(home_folder)
    keeper = Keeper(Path(env["TUNER_STATE"]))
    try:
        check_daemon(keeper, words, {**env, "HOME": str(home_folder)})
    finally:
        keeper.stop()


def test_the_container_starts_a_daemon_that_ends_when_it_is_told(keeper: Keeper) -> None:
    words = compose()["command"]
    assert isinstance(words, list)
    assert words[0] == "tuner"
    command = [sys.executable, "-m", *words]
    check_daemon(keeper, command, {"TUNER_STATE": str(keeper.state)})


def check_daemon(keeper: Keeper, command: list[str], env: dict[str, str]) -> None:
    """Start a command as a service manager does, ask it, and end it."""
    process = subprocess.Popen(command, env={**clean_environment(), **env}, start_new_session=True)
    deadline = time.monotonic() + 20
    while home.read_address(keeper.state) is None:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    with Client(keeper.state, need=True) as client:
        assert client.get("/v1/health")["pid"] == process.pid
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(20) == 0
    assert home.read_address(keeper.state) is None
    assert bury(process.pid)
