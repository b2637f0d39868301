"""What commands say of a study that is over, with no daemon to ask."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.fakes.ledgers import fill
from tuner.cli import register
from tuner.cli.main import app
from tuner.errors import StudyNotFound, UserError
from tuner.store.ledger import Ledger
from tuner.store.queue import Queue
from tuner.store.rows import Origin
from tuner.store.stages import Stage

if not app.registered_commands:
    register.commands(app)

PAIR = {
    "number": 2,
    "answer": "better",
    "ratio": 1.2,
    "low": 1.1,
    "high": 1.3,
    "confidence": 0.95,
    "runs": [[1.0, 1.2], [1.0, 1.2]],
    "broken": None,
}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    with Ledger(tmp_path, write=True) as ledger:
        row = fill(ledger, "one", trials=5)
        Queue(ledger).put(row.id, stood=str(tmp_path))
        trial = ledger.plan(
            row.id, origin=Origin.SEARCH, params={}, assignment={}, deployment={"argv": []}
        )
        trial = ledger.advance(trial, Stage.VERIFIED, verdict="rejected_by_rule", feasible=False)
        ledger.advance(trial, Stage.TOLD)
    return tmp_path


def decide(state: Path, **decision: Any) -> None:
    with Ledger(state, write=True) as ledger:
        ledger.note(ledger.study("one").id, "decision", {"comparisons": [PAIR], **decision})


def tuner(state: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["--state", str(state), *words])


@pytest.mark.parametrize("words", [("status",), ("status", "one")])
def test_status_names_the_winner(state: Path, words: tuple[str, ...]) -> None:
    decide(state, winner=2, clear=True)
    assert "  Trial 2 wins: +20.0% against the baseline" in tuner(state, *words).stdout


def test_status_says_that_nobody_won(state: Path) -> None:
    decide(state, winner=0, clear=False)
    assert "  No clear winner: finalist 2 measured" in tuner(state, "status").stdout


@pytest.mark.parametrize("columns", ["80", "160"])
def test_trials_mark_the_winner(state: Path, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    decide(state, winner=2, clear=True)
    (line,) = (each for each in tuner(state, "trials", "one").stdout.splitlines() if "◀" in each)
    assert line.strip("│ ").split()[:2] == ["2", "◀"]


@pytest.mark.parametrize("command", ["stop", "pause"])
def test_a_finished_study_has_nothing_to_stop(state: Path, command: str) -> None:
    ended = tuner(state, command, "one")
    assert (ended.exit_code, ended.stdout) == (0, "study one is finished already\n")
    with Ledger(state, write=False) as ledger:
        assert Queue(ledger).entry(ledger.study("one").id).wanted == "run"


@pytest.mark.parametrize("command", ["stop", "pause", "queue"])
def test_a_study_that_is_not_there_is_said_without_a_daemon(state: Path, command: str) -> None:
    error = tuner(state, command, "nope").exception
    assert isinstance(error, StudyNotFound)
    assert "nope" in str(error)


def test_a_trial_that_never_started_an_engine_has_no_log(state: Path) -> None:
    error = tuner(state, "logs", "one", "5").exception
    assert isinstance(error, StudyNotFound)
    said = "it never started an engine (rejected_by_rule); see tuner show one 5"
    assert str(error).endswith(said)


def test_the_command_refuses_what_never_was_healthy(state: Path, tmp_path: Path) -> None:
    error = tuner(state, "export", "one", "--trial", "3", "--out", str(tmp_path / "out")).exception
    assert isinstance(error, UserError)
    assert "trial 3 never was healthy: engine_crash" in str(error)
    assert not (tmp_path / "out").exists()


def test_show_without_a_trial_shows_the_study_and_its_trials(state: Path) -> None:
    decide(state, winner=2, clear=True)
    said = tuner(state, "show", "one")
    assert said.exit_code == 0
    assert said.stdout.startswith("one: finished, 6 trials, best")
    assert "  Trial 2 wins: +20.0%" in said.stdout
    assert "TTFT P90 s" in said.stdout
    data = json.loads(tuner(state, "show", "one", "--json").stdout)
    assert (data["study"]["study"], len(data["trials"])) == ("one", 6)
    with pytest.raises(StudyNotFound):
        CliRunner().invoke(app, ["--state", str(state), "show", "no"], catch_exceptions=False)


@pytest.mark.parametrize("width", ["80", "100", "160"])
def test_trials_take_the_width_that_columns_says(
    state: Path, monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    lines = tuner(state, "trials", "one").stdout.splitlines()
    assert max(map(len, lines)) <= int(width)
    assert ("point" in lines[1]) is (width == "160")


def test_show_gives_figures_with_their_units(state: Path) -> None:
    figures = {"output_tps": 60.5, "ttft_p90_s": 2.924, "cache_hit_rate": 0.5, "ttft_p50_s": None}
    load = {"weight": 1.0, "figures": figures, "gates": []}
    with Ledger(state, write=True) as ledger:
        row = ledger.study("one")
        with ledger.change() as db:
            db.execute(
                "UPDATE trials SET metrics=? WHERE study=? AND number=2",
                (json.dumps({"workloads": {"main": load, "more": load}}), row.id),
            )
    lines = [
        " ".join(line.split()) for line in tuner(state, "show", "one", "2").stdout.splitlines()
    ]
    for said in ("output TPS, aggregate 60.50 tok/s", "TTFT P90 2.924 s", "cache hit rate 0.500"):
        assert lines.count(said) == 2  # of each workload
    assert not any(line.startswith("TTFT P50") for line in lines)
    data = json.loads(tuner(state, "show", "one", "2", "--json").stdout)
    assert (data["output_tps"], data["ttft_p90_s"]) == (60.5, 2.924)
