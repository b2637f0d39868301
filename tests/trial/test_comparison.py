from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.fakes.world import World
from tests.trial.factory import trial
from tests.trial.test_study import run
from tuner.cli import register
from tuner.cli.main import app
from tuner.errors import StudyNotFound, UserError
from tuner.score.paired import Finding, compare
from tuner.store.ledger import Ledger
from tuner.store.locks import hold_folder
from tuner.store.rows import Origin, TrialRow
from tuner.trial.comparison import Pair, pair_of, result
from tuner.trial.decision import COMPARISONS, decide

PAIR = Pair(3, 7, place=2)


def runs(*rounds: Sequence[float | None], pair: Pair = PAIR) -> list[TrialRow]:
    rows, number = [], 100
    for turn, scores in enumerate(rounds):
        for place, score in enumerate(scores):
            rows.append(
                trial(
                    number,
                    origin=Origin.REPEAT,
                    repeats=pair.a if place in {0, 3} else pair.b,
                    block=pair.place * COMPARISONS + 2 * turn + (place > 1),
                    score=score,
                    feasible=score is not None,
                    verdict="healthy" if score is not None else "engine_crash",
                )
            )
            number += 1
    return rows


def test_runs_are_in_turns_in_blocks_of_their_own() -> None:
    plan = PAIR.schedule(2)
    assert [r.of for r in plan] == [3, 7, 7, 3] * 2
    assert [r.block for r in plan] == [2000, 2000, 2001, 2001, 2002, 2002, 2003, 2003]
    assert all(PAIR.owns(trial(1, block=r.block)) for r in plan)
    assert not PAIR.owns(trial(1, block=0))
    assert not PAIR.owns(trial(1, block=3000))


def test_the_ratio_is_of_the_second_over_the_first() -> None:
    found = result(PAIR, runs([100, 110, 111, 101], [99, 109, 112, 100]))
    assert (found.rounds, len(found.runs)) == (2, 8)
    assert found.comparison == compare(found.runs)
    assert found.comparison is not None
    assert found.comparison.finding is Finding.BETTER
    assert found.as_json()["ratio"] == pytest.approx(1.1, abs=0.02)
    assert found.trials == tuple(range(100, 108))


def test_before_the_first_whole_round_nothing_is_said() -> None:
    found = result(PAIR, runs([100, 110, 111]))
    assert (found.comparison, found.rounds) == (None, 0)
    assert found.as_json()["ratio"] is None


def test_a_round_with_a_failed_run_counts_for_nothing_and_it_is_said() -> None:
    found = result(PAIR, runs([100, None, 111, 101], [99, 109, 112, 100]))
    assert found.rounds == 1
    assert found.failed == ("trial 101 (B): engine_crash",)
    assert len(found.runs) == 4


def test_comparisons_decide_nothing() -> None:
    rows = [trial(0, origin=Origin.BASELINE, score=100.0), trial(7, score=150.0)]
    asked = runs([100, 200, 200, 100], [100, 200, 200, 100], pair=Pair(0, 7, place=1))
    found = decide([*rows, *asked], [7], rounds=2)
    assert (found.winner, found.standings[0].runs) == (0, ())


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.chdir(tmp_path)
    changes = {"first": [{"seqs": 4, "moe": "native"}, {"kv_space": 64}], "budget": {"trials": 3}}
    return World(tmp_path, changes).make()


def command(world: World, *words: str) -> Any:
    if not any(c.callback and c.callback.__name__ == "compare" for c in app.registered_commands):
        register.commands(app)
    return CliRunner().invoke(app, ["--state", str(world.state), "compare", "fake", *words])


@pytest.mark.slow
@pytest.mark.xdist_group("engines")
@pytest.mark.timeout(120)
def test_two_trials_are_measured_in_turns_and_more_rounds_are_added(world: World) -> None:
    before = run(world)
    done = command(world, "0", "1", "--rounds", "1", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["a"], found["b"], found["rounds"]) == (0, 1, 1)
    assert [r["arm"] for r in found["runs"]] == list("ABBA")
    assert found["low"] <= found["ratio"] <= found["high"]
    with Ledger(world.state, write=False) as ledger:
        row = ledger.study("fake")
        rows = ledger.trials(row.id)
        assert [t.repeats for t in rows[len(before) :]] == [0, 1, 1, 0]
        assert [t.block for t in rows[len(before) :]] == [1000, 1000, 1001, 1001]
        status = row.status
    with hold_folder(world.state, {}):  # as a daemon does that has nothing to do any more
        more = command(world, "0", "1", "--rounds", "2")
    assert more.exit_code == 0
    assert "2 of 2 rounds" in more.stdout
    assert "B over A: " in more.stdout
    again = command(world, "0", "1", "--rounds", "2")  # nothing is left to do
    assert again.stdout.splitlines()[-4:] == more.stdout.splitlines()[-4:]
    with Ledger(world.state, write=False) as ledger:
        assert len(ledger.trials(row.id)) == len(before) + 8
        assert ledger.study("fake").status == status == "finished"
        assert [e.data["place"] for e in ledger.events(row.id, kinds=("comparison",))] == [1]


@pytest.mark.slow
@pytest.mark.xdist_group("engines")
@pytest.mark.timeout(120)
def test_what_cannot_be_compared_is_said(world: World) -> None:
    run(world)
    with Ledger(world.state, write=True) as ledger:
        row = ledger.study("fake")
        with pytest.raises(UserError, match="cannot be compared with itself"):
            pair_of(ledger, row, 1, 1)
        with pytest.raises(UserError, match="never started an engine"):
            pair_of(ledger, row, 0, 2)
        with pytest.raises(StudyNotFound):
            pair_of(ledger, row, 0, 99)
        assert ledger.events(row.id, kinds=("comparison",)) == []
        assert pair_of(ledger, row, 0, 1) == pair_of(ledger, row, 0, 1) == Pair(0, 1, 1)
        assert pair_of(ledger, row, 1, 0) == Pair(1, 0, 2)
