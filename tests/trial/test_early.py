from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.world import World
from tests.trial.factory import trial
from tests.trial.test_study import run
from tuner.load.record import Record
from tuner.load.store import write_records
from tuner.score.noise import Noise
from tuner.score.official import PUBLISHED
from tuner.store.rows import Origin
from tuner.trial.early import CLEARLY_WORSE, EarlyWatch, Reference, best_so_far, reference_of

QUIET = Noise(sigma=0.02, df=20)


def load(sessions: int, *, slow: float = 1.0, turns: int = 2, seed: int = 1) -> Iterator[Record]:
    """Conversations one after another; each request takes about a second, times ``slow``."""
    rng = random.Random(seed)
    at = 0.0
    for session in range(sessions):
        for turn in range(turns):
            end = at + slow * rng.uniform(0.9, 1.1)
            yield Record(
                "main",
                session,
                turn,
                at,
                at,
                at + 0.1,
                end,
                prompt_tokens=100,
                cached_tokens=0,
                output_tokens=40,
            )
            at = end


def watch(sessions: int = 20, *, noise: Noise = QUIET) -> EarlyWatch:
    best = trial(3, score=1000.0)
    return EarlyWatch(Reference.of(best, list(load(sessions))), noise, PUBLISHED)


def fed(watched: EarlyWatch, records: Iterator[Record]) -> int:
    """How many records were taken in when it had seen enough."""
    count = 0
    for record in records:
        if watched.is_set():
            break
        watched.take(record)
        count += 1
    return count


def test_a_load_that_is_clearly_worse_is_ended_at_a_look() -> None:
    watched = watch()
    assert fed(watched, load(20, slow=1.5, seed=2)) == 16  # eight conversations of two turns
    assert watched.worse is not None
    assert watched.worse.reference == 3
    assert watched.worse.stop.ratio == pytest.approx(1 / 1.5, rel=0.1)
    assert watched.worse.estimate == pytest.approx(1000 / 1.5, rel=0.1)
    assert "after 8 of 20 conversations" in watched.worse.words


@pytest.mark.parametrize("slow", [0.7, 1.0, 1.03])
def test_one_that_is_as_good_or_nearly_runs_to_its_end(slow: float) -> None:
    watched = watch(40)
    assert fed(watched, load(40, slow=slow, seed=3)) == 80
    assert not watched.is_set()


def test_noise_between_starts_is_allowed_for() -> None:
    loud = watch(noise=Noise(sigma=0.2, df=2))
    fed(loud, load(20, slow=1.5, seed=2))
    assert not loud.is_set()


def test_conversations_that_lack_a_turn_are_not_compared() -> None:
    watched = watch()
    fed(watched, (r for r in load(20, slow=3.0) if r.turn == 0))
    assert not watched.is_set()


def test_near_the_end_nothing_is_saved_by_ending() -> None:
    watched = watch(9)
    fed(watched, load(9, slow=2.0))
    assert not watched.is_set()


def test_the_judgement_says_that_gates_were_not_judged() -> None:
    watched = watch()
    fed(watched, load(20, slow=2.0))
    assert watched.worse is not None
    judgement = watched.worse.as_json()
    stop = watched.worse.stop
    assert judgement["estimate"] < judgement["bound"] == 1000 * (1 - stop.margin) < 1000
    assert judgement["verdict"] == CLEARLY_WORSE
    assert judgement["segments"] == 8
    assert "its gates were not judged" in judgement["evidence"][1]["text"]


def test_the_best_is_a_feasible_one_of_the_search() -> None:
    rows = [
        trial(0, origin=Origin.BASELINE, score=5.0),
        trial(1, score=9.0, feasible=False),
        trial(2, score=7.0),
        trial(3, score=8.0, origin=Origin.REPEAT, repeats=2),
    ]
    best = best_so_far(rows)
    assert best is not None
    assert best.number == 2
    assert best_so_far([rows[1]]) is None


def test_lost_records_make_no_reference(tmp_path: Path) -> None:
    file = tmp_path / "measure-main.jsonl"
    assert reference_of(trial(1, score=1.0), file) is None
    write_records(file, load(3))
    found = reference_of(trial(1, score=1.0), file)
    assert found is not None
    assert found.turns == {0: 2, 1: 2, 2: 2}
    file.write_text("no record\n")
    assert reference_of(trial(1, score=1.0), file) is None


_MOE = {"env": "ENGINEX_MOE_TINY_IMPL", "choices": ["wrong", "loop"], "baseline": "wrong"}
_WORKLOAD = {
    "kind": "conversations", "conversations": 16, "turns": 1, "concurrency": 1, "system_tokens": 64,
    "turn_tokens": 20, "output_tokens": 24, "request_timeout": "10s", "warmup": {"conversations": 1},
}  # fmt: skip
CHANGES: dict[str, Any] = {
    "parameters": {"moe": _MOE},
    "workload": _WORKLOAD,
    "budget": {"trials": 2},
    "search": {"repeats": {"baseline": 4, "each": 1}, "finalists": {"count": 1, "rounds": 1}},
}


@pytest.mark.slow
@pytest.mark.xdist_group("engines")
@pytest.mark.timeout(120)
def test_where_the_objective_is_another_the_weighted_score_ends_no_trial_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    gates = dict.fromkeys(("cache_hit_rate", "ttft_p90_s", "output_tps_p10", "weighted"), "off")
    score = {"objective": "goodput_rps", "limits": {"e2e_s": 10}, "gates": gates}
    changes = {
        **CHANGES,
        "score": score,
        "search": {**CHANGES["search"], "finalists": {"count": 0}},
    }
    made = World(tmp_path, changes, recipe_env={"FAKE_SPEED": "0.4"}).make()
    slow = next(t for t in run(made) if t.params == {"moe": "loop"})
    assert slow.verdict == "healthy"
    assert slow.score is not None


@pytest.mark.slow
@pytest.mark.xdist_group("engines")
@pytest.mark.timeout(120)
def test_in_a_study_a_clearly_worse_trial_is_ended_and_told_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trials = run(World(tmp_path, CHANGES, recipe_env={"FAKE_SPEED": "0.4"}).make())
    slow = next(t for t in trials if t.params == {"moe": "loop"})
    assert slow.verdict == CLEARLY_WORSE
    assert (slow.score, slow.metrics, slow.feasible) == (None, None, False)
    base = trials[0]
    assert slow.value is not None
    assert base.score is not None
    assert 0 < slow.value < 0.7 * base.score
    assert slow.constraints is not None
    assert slow.constraints["start"] == -1.0
    assert all(v <= 0 for v in slow.constraints.values())
    folder = tmp_path / "state" / "studies" / "fake" / "trials" / "0004" / "attempt-1"
    seen = [
        r for r in (folder / "measure-main.jsonl").read_text().splitlines() if '"end":null' not in r
    ]
    assert len(seen) < 16


def test_a_wait_in_an_open_loop_counts_as_time(tmp_path: Path) -> None:
    """A candidate that is as fast once it is sent, and is sent later each time, is worse."""
    best = trial(3, score=1000.0)
    reference = Reference.of(best, list(load(20)), "scheduled")
    late = [replace(r, scheduled=(r.sent or 0.0) - 2.0) for r in load(20)]
    assert fed(EarlyWatch(reference, QUIET, PUBLISHED), iter(late)) < len(late)
    from_send = Reference.of(best, list(load(20)))
    assert fed(EarlyWatch(from_send, QUIET, PUBLISHED), iter(late)) == len(late)
    file = tmp_path / "measure-main.jsonl"
    write_records(file, load(3))
    found = reference_of(best, file, "scheduled")
    assert found is not None
    assert found.since == "scheduled"
