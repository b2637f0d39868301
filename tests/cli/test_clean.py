from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.fakes.devices import GIB, MIB, FakeCards, steady
from tests.trial.care.conftest import Abandon
from tuner.cli import register
from tuner.cli.main import app
from tuner.errors import StateUnusable, UserError
from tuner.launch.identity import boot_id
from tuner.store.ledger import Ledger
from tuner.telemetry import detect as module
from tuner.telemetry.detect import Detection

pytestmark = pytest.mark.xdist_group("engines")

if not app.registered_commands:
    register.commands(app)


def run(state: Path, *words: str, said: str | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(
        app, ["--state", str(state), "clean", *words], input=said, catch_exceptions=False
    )
    return result.exit_code, result.stdout


def found(state: Path, *words: str) -> tuple[int, dict[str, Any]]:
    code, out = run(state, *words, "--json")
    data: dict[str, Any] = json.loads(out)
    return code, data


@pytest.fixture(autouse=True)
def cards(monkeypatch: pytest.MonkeyPatch) -> FakeCards:
    cards = FakeCards(steady(300 * MIB))
    monkeypatch.setattr(module, "detect", lambda: Detection(cards))
    return cards


def test_nothing_was_run_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TUNER_STATE", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    result = CliRunner().invoke(app, ["clean"], catch_exceptions=False)
    said = "nothing was run here yet, so nothing can be left\n"
    assert (result.exit_code, result.stdout) == (0, said)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [(), ("--dry-run",), ("--json",), ("--yes",)])
@pytest.mark.parametrize("by_variable", [False, True])
def test_a_named_folder_that_no_tuner_knows_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], *, by_variable: bool
) -> None:
    (tmp_path / "other").mkdir()
    for name, said in (("no", "it is not there"), ("other", "no tuner has worked with this state")):
        monkeypatch.setenv("TUNER_STATE", str(tmp_path / name))
        named = [] if by_variable else ["--state", str(tmp_path / name)]
        with pytest.raises(StateUnusable, match=f"{name}: {said}.* — name the folder") as caught:
            CliRunner().invoke(app, [*named, "clean", *words], catch_exceptions=False)
        assert caught.value.exit_code == 2
    assert not (tmp_path / "no").exists()


@pytest.mark.slow
def test_shown_and_not_ended_where_nobody_can_be_asked(ledger: Ledger, abandon: Abandon) -> None:
    launch = abandon(FAKE_FORK="1")
    code, out = run(ledger.folder, "--dry-run")
    assert code == 0
    assert out.startswith("engine of trial 1 of study nightly (process)\n  pid ")
    with pytest.raises(UserError, match="tuner clean --yes"):
        run(ledger.folder)
    with pytest.raises(UserError, match="tuner clean --yes"):
        run(ledger.folder, "--json")
    assert launch.pids()
    assert len(ledger.open_launches()) == 1


class Terminal:
    """Standard input that says it is a terminal."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def isatty(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    from tuner.cli import clean

    class System:
        @property
        def stdin(self) -> Terminal:
            return Terminal(sys.stdin)

    monkeypatch.setattr(clean, "sys", System())


@pytest.mark.slow
@pytest.mark.usefixtures("terminal")
def test_a_person_is_asked_and_may_say_no(ledger: Ledger, abandon: Abandon) -> None:
    launch = abandon(FAKE_FORK="1")
    code, out = run(ledger.folder, said="n\n")
    assert code == 1
    assert "End them?" in out
    assert launch.pids()
    code, out = run(ledger.folder, said="y\n")
    assert code == 0
    assert "ended: engine of trial 1 (" in out
    assert launch.pids() == ()


@pytest.mark.slow
def test_beside_a_tuner_that_holds_the_folder(ledger: Ledger, abandon: Abandon) -> None:
    launch = abandon(FAKE_FORK="1")
    code, data = found(ledger.folder, "--yes")  # the fixture holds the folder all the while
    assert code == 0
    assert [each["trial"] for each in data["found"]] == [1]
    assert len(data["ended"]) == 1
    assert data["kept"] == []
    assert launch.pids() == ()
    assert found(ledger.folder)[1]["found"] == []


@pytest.mark.slow
def test_quarantine_that_cannot_be_lifted_is_exit_1(ledger: Ledger, cards: FakeCards) -> None:
    ledger.quarantine("GPU-0", "after trial 3: 20 GiB above its baseline")
    assert run(ledger.folder)[1].splitlines()[-1] == "out of quarantine: GPU-0"
    ledger.quarantine("GPU-9", "after trial 3: 20 GiB above its baseline")
    code, out = run(ledger.folder)
    assert code == 1
    assert "still in quarantine: GPU-9: after trial 3: 20 GiB above its baseline; now: no" in out


@pytest.mark.slow
def test_a_baseline_is_accepted(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    desktop = FakeCards(steady(6 * GIB))
    monkeypatch.setattr(module, "detect", lambda: Detection(desktop))
    code, data = found(ledger.folder, "--accept-baseline")
    assert (code, data["accepted"]) == (0, ["Card GPU-0: 6144 MiB"])
    assert ledger.baselines(boot_id())["GPU-0"].used == 6 * GIB
