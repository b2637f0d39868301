"""Studies that are worked on here: which options count, and which devices they use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.fakes.devices import MIB, FakeCards, steady
from tests.fakes.world import World
from tests.trial.factory import trial
from tuner.cli import register
from tuner.cli.main import app
from tuner.errors import UserError
from tuner.store.ledger import Ledger
from tuner.store.locks import hold_folder
from tuner.store.queue import Queue
from tuner.telemetry import detect as telemetry
from tuner.telemetry.detect import Detection
from tuner.trial import session
from tuner.trial.entry import stored_space
from tuner.trial.wishes import Wishes

if not app.registered_commands:
    register.commands(app)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.chdir(tmp_path)
    cards = FakeCards(steady(300 * MIB), steady(300 * MIB))
    monkeypatch.setattr(telemetry, "detect", lambda: Detection(cards))
    return World(tmp_path).make()


@pytest.fixture
def lent(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str] | None]:
    """The devices that each piece of work was given; none of the work is done."""
    given: list[Sequence[str] | None] = []

    def work(ledger: Ledger, row: Any, *, devices: Sequence[str] | None, **_: Any) -> None:
        given.append(devices)
        ledger.set_status(row.id, "stopped", "told to", exit_code=0)

    monkeypatch.setattr(session, "work", work)
    return given


def tuner(world: World, *words: str) -> Result:
    return CliRunner().invoke(app, ["--state", str(world.state), *words])


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("run", "--priority=3"),
        ("run", "--detach"),
        ("run", "--json"),
        ("resume", "--detach"),
        ("resume", "--json"),
    ],
)
def test_what_is_for_the_daemon_is_refused_in_the_foreground(
    world: World, command: str, option: str
) -> None:
    target = str(world.space) if command == "run" else "fake"
    error = tuner(world, command, target, "--foreground", option).exception
    assert isinstance(error, UserError)
    assert str(error).startswith(
        f"{option.split('=', maxsplit=1)[0]} does nothing with --foreground"
    )
    assert error.exit_code == 2
    assert not world.state.exists()


def test_an_unknown_device_is_refused_in_the_foreground(world: World) -> None:
    error = tuner(world, "run", str(world.space), "--foreground", "--devices", "7").exception
    assert isinstance(error, UserError)
    assert "there is no device '7'" in str(error)
    assert not world.state.exists()


def test_work_in_the_foreground_uses_the_devices_that_were_named(
    world: World, lent: list[Sequence[str] | None]
) -> None:
    done = tuner(world, "run", str(world.space), "--foreground", "--devices", "1")
    assert done.exit_code == 0, done.output
    assert tuner(world, "resume", "fake", "--foreground").exit_code == 0
    assert lent == [("GPU-1",), ("GPU-1",)]
    with Ledger(world.state, write=False) as ledger:
        (entry,) = Queue(ledger).entries()
    assert (entry.wanted, entry.devices) == ("stop", ("GPU-1",))
    tuner(world, "run", str(world.space), "--foreground")
    assert lent[-1] is None


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The budget of each study that was given to a daemon; none is started."""
    given: list[dict[str, Any]] = []

    def hand_over(_state: Path, _path: str, body: dict[str, Any], **_: Any) -> None:
        given.append(body["budget"])

    monkeypatch.setattr("tuner.cli.run._hand_over", hand_over)
    return given


LIMITS = ("--trials", "40", "--wall", "1h30m", "--engine", "90s")


def test_every_limit_can_be_given(
    world: World, lent: list[Sequence[str] | None], handed: list[dict[str, Any]]
) -> None:
    tuner(world, "run", str(world.space), "--foreground")
    for command, target in (("run", str(world.space)), ("resume", "fake")):
        done = tuner(world, command, target, *LIMITS)
        assert done.exit_code == 0, done.output
        assert handed[-1] == {"trials": 40, "wall": 5400.0, "engine": 90.0}
        assert tuner(world, command, target).exit_code == 0
        assert handed[-1] == {}
    assert len(lent) == 1


def test_limits_count_in_the_foreground(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[dict[str, float | None]] = []

    def work(ledger: Ledger, row: Any, *, wishes: Wishes, **_: Any) -> None:
        found.append(dict(wishes.limits(stored_space(ledger, row).budget)))
        ledger.set_status(row.id, "stopped", "told to", exit_code=0)

    monkeypatch.setattr(session, "work", work)
    for command, target in (("run", str(world.space)), ("resume", "fake")):
        done = tuner(world, command, target, "--foreground", *LIMITS)
        assert done.exit_code == 0, done.output
        assert found[-1] == {"trials": 40, "wall": 5400.0, "engine": 90.0}
    tuner(world, "resume", "fake", "--foreground", "--trials", "50")
    tuner(world, "resume", "fake", "--foreground")
    assert found[-1] == {"trials": 50, "wall": 5400.0, "engine": 90.0}  # they stay
    tuner(world, "run", str(world.space), "--foreground")
    assert found[-1] == {"trials": 2}  # what the search space says


@pytest.mark.parametrize("command", ["run", "resume", "queue"])
@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (("--wall", "12x"), "'12x' is not a duration"),
        (("--engine", "30"), "'30' is not a duration"),
        (("--wall", "0s"), "'0s' is no time that a study can take"),
        (("--trials", "0"), "should be greater than or equal to 1"),
    ],
)
def test_a_limit_that_is_none_is_refused(
    world: World, command: str, limit: tuple[str, str], said: str
) -> None:
    target = str(world.space) if command == "run" else "fake"
    done = tuner(world, command, target, *limit)
    assert done.exit_code == 2
    assert said in " ".join(done.output.replace("│", " ").split())
    assert not world.state.exists()


def test_trials_are_compared_on_the_devices_of_their_study_beside_a_daemon(
    world: World, lent: list[Sequence[str] | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    tuner(world, "run", str(world.space), "--foreground", "--devices", "0")

    def ready(*given: Any) -> None:
        lent.append(given[-1])
        raise session._ToldToStop

    monkeypatch.setattr(session, "_ready", ready)
    monkeypatch.setattr(
        "tuner.trial.comparison.point_of", lambda _ledger, _study, number, _doing: trial(number)
    )
    with hold_folder(world.state, {}):
        done = tuner(world, "compare", "fake", "0", "1")
    assert isinstance(done.exception, SystemExit)
    assert lent == [("GPU-0",), ("GPU-0",)]
