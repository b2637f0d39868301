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


@pytest.mark.parametrize(
    "words",
    [
        shlex.split(unit()["Service"]["ExecStart"]),
        compose()["command"],
    ],
    ids=["systemd", "compose"],
)
def test_the_command_is_a_daemon_that_ends_when_it_is_told(
    keeper: Keeper, words: list[str]
) -> None:
    assert words[0].endswith("tuner")
    process = subprocess.Popen(
        [sys.executable, "-m", "tuner", *words[1:]],
        env={**clean_environment(), "TUNER_STATE": str(keeper.state)},
        start_new_session=True,
    )
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
