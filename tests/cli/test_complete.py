"""What the shell completes: studies, their trials, recipes."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.fakes.ledgers import fill
from tuner.cli import register
from tuner.cli.main import app
from tuner.store.ledger import Ledger

if not app.registered_commands:
    register.commands(app)


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("state")
    with Ledger(folder, write=True) as ledger:
        fill(ledger, "one", trials=12)
        fill(ledger, "other", trials=2)
    return folder


def completed(state: Path, *words: str) -> list[str]:
    """What bash would offer for the last of these words."""
    line = ["tuner", "--state", str(state), *words]
    env = {
        "_TUNER_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(line),
        "COMP_CWORD": str(len(line) - 1),
    }
    result = CliRunner().invoke(app, [], prog_name="tuner", env=env)
    return result.stdout.split()


@pytest.mark.slow
def test_names_of_studies(state: Path) -> None:
    assert completed(state, "show", "o") == ["other", "one"]
    assert completed(state, "trials", "on") == ["one"]
    assert completed(state, "queue", "one", "--before", "ot") == ["other"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("show", "one"),
        ("logs", "one"),
        ("compare", "one"),
        ("compare", "one", "0"),
        ("export", "one", "--trial"),
    ],
)
def test_numbers_of_the_named_study(state: Path, words: tuple[str, ...]) -> None:
    assert completed(state, *words, "1") == ["11", "10", "1"]
    assert completed(state, *words[:1], "other", *words[2:], "") == ["1", "0"]


@pytest.mark.slow
def test_nothing_is_offered_where_nothing_is_known(state: Path, tmp_path: Path) -> None:
    assert completed(state, "show", "gone", "1") == []
    assert completed(state / "no", "show", "o") == []
    (tmp_path / "ledger.sqlite").write_bytes(b"no database")
    assert completed(tmp_path, "show", "o") == []


@pytest.mark.slow
def test_recipes(state: Path) -> None:
    assert completed(state, "engine", "build", "cu") == ["cuda"]
    assert "cpu" in completed(state, "init", "--recipe", "c")
