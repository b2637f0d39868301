from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from tests.fakes.world import World
from tests.spec.conftest import filled
from tests.trial.test_study import run
from tuner.fidelity.table import level_table
from tuner.load.plan import Closed, Message, Open, Plan, Session, Turn
from tuner.load.record import Record
from tuner.load.run import LoadResult
from tuner.load.store import read_records
from tuner.score.gates import Gate
from tuner.score.goodput import Limits
from tuner.score.objective import WEIGHTED, Objective
from tuner.score.official import PUBLISHED
from tuner.score.pareto import Objectives
from tuner.spec import SearchSpace, parse_space
from tuner.spec.space import Load
from tuner.spec.workload import Workload
from tuner.store.rows import Origin
from tuner.trial.climbing import HELD
from tuner.trial.events import Happening
from tuner.trial.levelload import LevelLoad
from tuner.trial.settled import SettledWatch, offered


def plan(requests: int = 200) -> Plan:
    turn = Turn((Message("user", "hello"),), 40, expect_prompt_tokens=100, expect_output_tokens=40)
    return Plan("main", 0, tuple(Session((turn,)) for _ in range(requests)), Closed(1))


def record(number: int, *, seconds: float = 1.0, ttft: float = 0.1, **fields: Any) -> Record:
    """A request; each begins when the one before it has ended."""
    at = number * seconds
    given = {"prompt_tokens": 100, "cached_tokens": 0, "output_tokens": 40, **fields}
    return Record("main", number, 0, at, at, at + ttft, at + seconds, **given)


def fed(watch: SettledWatch, count: int, **fields: Any) -> int:
    """How many records were taken in when it had seen enough."""
    for number in range(count):
        if watch.is_set():
            return number
        watch.take(record(number, **fields))
    return count


TTFT = Gate("ttft_p90_s", 1.0, at_least=False)


def test_a_load_that_has_settled_ends() -> None:
    watch = SettledWatch(plan(), (TTFT,), PUBLISHED)
    assert 50 <= fed(watch, 200) < 100
    assert watch.why is not None
    assert "settled" in watch.why
    assert watch.standing().success_rate == 1.0
    assert watch.standing().score == pytest.approx(
        SettledWatch(plan(), (), PUBLISHED, records=[record(n) for n in range(200)])
        .standing()
        .score,
        rel=0.05,
    )


def test_near_a_gate_it_runs_in_full() -> None:
    watch = SettledWatch(plan(), (TTFT,), PUBLISHED)
    assert fed(watch, 200, ttft=0.95) == 200


def test_while_lengths_differ_from_the_whole_plan_it_goes_on() -> None:
    watch = SettledWatch(plan(), (), PUBLISHED)
    assert fed(watch, 200, output_tokens=20) == 200


def test_what_is_cut_by_the_end_of_a_load_is_no_part_of_it() -> None:
    watch = SettledWatch(plan(), (), PUBLISHED)
    taken = fed(watch, 200)
    watch.take(record(taken))
    assert len(watch.records) == taken


def test_lengths_that_a_plan_does_not_state_are_not_made_up() -> None:
    turn = Turn((Message("user", "hello"),), 40)
    found = offered(Plan("main", 0, (Session((turn,)),), Closed(1)))
    assert (found.requests, found.prompt_tokens, found.output_tokens) == (1, None, None)
    assert offered(plan(4)).prompt_tokens == 100


def test_only_a_level_that_settles_is_watched() -> None:
    assert LevelLoad((), PUBLISHED, settles=False).watch(plan()) is None
    assert LevelLoad((), PUBLISHED, settles=True).watch(plan()) is not None


def test_a_level_comes_to_the_objective_of_the_study(space: SearchSpace) -> None:
    records = tuple(record(n, ttft=0.1 if n % 4 else 3.0, seconds=4.0) for n in range(8))
    result = LoadResult("main", "f", "s", records, 32.0, 0.0, 0.0, None, 0.0)
    for objective, score in (
        (Objective("goodput_rps", Limits(ttft_s=1)), 6 / 32),
        (WEIGHTED, 16.796 * 10 + 2.799 * 25),
    ):
        on = LevelLoad((TTFT,), PUBLISHED, settles=False, objective=objective)
        on.take(result, None)
        measured = on.measured(space.loads)
        assert measured.score == measured.comparable == pytest.approx(score)


def test_without_a_figure_of_the_objective_nothing_is_feasible(space: SearchSpace) -> None:
    """A server that counts no cached tokens has a goodput, and no hit rate to balance with it."""
    records = tuple(record(n, cached_tokens=None) for n in range(8))
    result = LoadResult("main", "f", "s", records, 8.0, 0.0, 0.0, None, 0.0)
    pair = Objectives("output_tps", "cached_tps", balance=0.5)
    for objective, feasible in (
        (Objective("output_tps"), True),
        (Objective("output_tps", pair=pair), False),
        (WEIGHTED, False),
    ):
        on = LevelLoad((TTFT,), PUBLISHED, settles=False, objective=objective)
        on.take(result, None)
        assert on.measured(space.loads).feasible is feasible


@pytest.fixture
def space(tmp_path: Path) -> SearchSpace:
    return parse_space(filled(""), tmp_path / "space.yaml")


def test_an_open_loop_is_judged_from_when_its_requests_were_due() -> None:
    asked = replace(plan(2), pacing=Open(1), sessions=tuple(map(_arriving, plan(2).sessions)))
    late = [record(0), replace(record(1), scheduled=0.0)]  # the second one waited a second
    watch = SettledWatch(asked, (TTFT,), PUBLISHED, records=late)
    assert watch.standing().figures["ttft_max_s"] == pytest.approx(1.1)
    result = LoadResult("main", "", "s", tuple(late), 2.0, 0.0, 0.0, None, 0.0, asked.since)
    on = LevelLoad((TTFT,), PUBLISHED, settles=False)
    on.take(result, None)
    assert on.measured([]).standings["main"].figures["ttft_max_s"] == pytest.approx(1.1)


def test_a_load_that_has_settled_is_scored_by_the_studys_objective() -> None:
    goodput = Objective("goodput_rps", Limits(ttft_s=1.0))
    on = LevelLoad((), PUBLISHED, settles=True, objective=goodput)
    watch = on.watch(plan())
    assert watch is not None
    fed(watch, 200)
    on.take(LoadResult("main", "", "s", (), 0.0, 0.0, 0.0, None, 0.0), watch)
    workload = {"kind": "conversations", "conversations": 1, "turns": 1, "concurrency": 1,
                "turn_tokens": 1, "output_tokens": 1}  # fmt: skip
    load = Load("main", TypeAdapter[Workload](Workload).validate_python(workload))
    assert on.measured([load]).comparable == pytest.approx(
        1.0
    )  # one a second, each within a second


def _arriving(session: Session) -> Session:
    return Session(tuple(replace(turn, arrival_s=0.0) for turn in session.turns))


@pytest.mark.slow
@pytest.mark.xdist_group("engines")
@pytest.mark.timeout(180)
def test_a_study_on_the_fake_server_measures_levels_and_holds_what_need_not_climb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    impls = ["wrong", "native", "tokenwise", "bmm", "loop"]
    workload = {
        "kind": "conversations", "conversations": 8, "turns": 2, "concurrency": 2, "system_tokens": 64,
        "turn_tokens": 20, "output_tokens": 12, "request_timeout": "10s", "warmup": {"conversations": 1},
    }  # fmt: skip
    changes = {
        "parameters": {
            "moe": {"env": "ENGINEX_MOE_TINY_IMPL", "choices": impls, "baseline": "loop"},
            "seqs": {"flag": "--max-num-seqs", "choices": [1, 2], "baseline": 1},
        },
        "first": [
            {"moe": "wrong", "seqs": 2},
            {"moe": "bmm", "seqs": 2},
            {"moe": "wrong"},
            {"moe": "native", "seqs": 2},
        ],
        "workload": workload,
        "levels": [
            {"name": "brief", "leaves_out": "most", "workload": {"conversations": 3}},
            {"name": "settled", "leaves_out": "the end", "until_settled": True},
        ],
        "budget": {"trials": 8},
        "search": {
            "sampler": "random",
            "stop_early": False,
            "repeats": {"baseline": 3, "each": 1},
            "finalists": {"count": 1, "rounds": 1},
            "climb": {"at_least": 1, "anchors": 4, "keep": 0.1},
        },
    }
    heard: list[Happening] = []
    trials = run(World(tmp_path, changes, recipe_env={"FAKE_SPEED": "0.8"}).make(), heard=heard)
    base = trials[0]
    assert base.metrics is not None
    assert set(base.metrics["levels"]) == {"brief", "settled"}
    assert base.metrics["levels"]["brief"]["score"] > 0
    assert base.score == base.metrics["score"]
    folder = tmp_path / "state" / "studies" / "fake" / "trials" / "0000" / "attempt-1"
    assert len(list(read_records(folder / "level-brief-main.jsonl"))) == 6
    assert len(list(read_records(folder / "measure-main.jsonl"))) == 16
    held = [t for t in trials if t.verdict == HELD]
    assert held  # eight points with a factor of six between them, of which one may climb
    for trial in held:
        assert trial.score is None
        assert trial.judgement is not None
        assert trial.judgement["levels"]["brief"]["score"] > 0
    for trial in (t for t in trials if t.origin is Origin.REPEAT and t.block is not None):
        assert "levels" not in (trial.metrics or {})
    rows = [w.data["rows"] for w in heard if w.kind == "levels"][-1]
    assert [row["level"] for row in rows] == ["brief", "settled", "real"]
    assert rows[0]["held"] + rows[1]["held"] == len(held)
    assert rows[0]["cost"] < rows[2]["cost"]
    table = level_table(trials, "fake", "brief")
    came = [row for row in table.rows if row["value"] is not None]  # the others failed
    assert len(came) == sum("levels" in json.dumps([t.metrics, t.judgement]) for t in trials)
    assert len(level_table(trials, "fake", "real").rows) < len(came) + 4
