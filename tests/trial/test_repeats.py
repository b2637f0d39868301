from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.world import World
from tests.trial.factory import trial
from tests.trial.test_study import run
from tuner.spec.document import Finalists, Repeats, Search
from tuner.store.rows import Origin, TrialRow
from tuner.trial.repeats import baseline_repeats, noise_json, runs_of, standing, study_noise

BASE = trial(0, origin=Origin.BASELINE, score=100.0)


def again(
    number: int, of: int, score: float | None, block: int | None = None, *, feasible: bool = True
) -> TrialRow:
    return trial(
        number, origin=Origin.REPEAT, repeats=of, block=block, score=score, feasible=feasible
    )


def search(count: int = 2, **fields: float) -> Search:
    return Search(repeats=Repeats(**fields), finalists=Finalists(count=count))  # type: ignore[arg-type]


def test_the_baseline_is_measured_until_it_was_measured_often_enough() -> None:
    assert [r.of for r in baseline_repeats([BASE], 3)] == [0, 0]
    assert [r.block for r in baseline_repeats([BASE], 3)] == [None, None]
    assert len(baseline_repeats([BASE, again(1, 0, 99.0)], 3)) == 1
    assert len(baseline_repeats([BASE, again(1, 0, None, feasible=False)], 2)) == 0  # not for ever
    assert len(baseline_repeats([BASE, again(1, 0, 99.0, block=0)], 2)) == 1
    assert baseline_repeats([BASE], 1) == []


def test_without_a_second_measurement_the_best_above_the_baseline_are_confirmed() -> None:
    rows = [
        BASE,
        trial(1, score=99.0),
        trial(2, score=110.0),
        trial(3, score=105.0),
        trial(4, score=120.0, feasible=False),
    ]
    found = standing(rows, search(count=1))
    assert (found.finalists, found.again, found.noise) == ((2,), (), None)
    assert standing(rows, search(count=3)).finalists == (2, 3)


def test_rivals_that_cannot_be_told_apart_are_measured_again_as_long_as_starts_are_left() -> None:
    rows = [
        BASE,
        again(1, 0, 101.0),
        trial(2, score=130.0),
        trial(3, score=131.0),
        trial(4, score=50.0),
    ]
    assert standing(rows, search(count=1, starts=4)).again == (0,)  # once more after the search
    rows.append(again(7, 0, 100.5))
    found = standing(rows, search(count=1, starts=4))
    assert found.again == (3, 2)
    assert standing(rows, search(count=1, starts=1)).again == (3,)
    assert standing(rows, search(count=1, each=1)).again == ()
    assert standing(rows, search(count=2)).again == ()  # both are confirmed anyway
    more = [*rows, again(8, 3, 120.0), again(9, 2, 134.0)]
    assert standing(more, search(count=1)).finalists == (2,)
    assert standing(more, search(count=1, each=2)).again == ()  # each was run twice


def test_the_baseline_runs_once_more_after_the_search_where_that_can_change_who_is_confirmed() -> (
    None
):
    rows = [BASE, again(1, 0, 101.0), trial(2, score=130.0), trial(3, score=90.0)]
    assert standing(rows, search(count=1)).again == (0,)
    assert standing(rows, search(count=1, each=1)).again == ()
    assert standing(rows, search(count=1, starts=0)).again == ()
    assert standing(rows[:3], search(count=1)).again == ()  # there is only one to be confirmed
    failed = again(4, 0, None, feasible=False)
    assert standing([*rows, failed], search(count=1)).again == ()  # not for ever
    simpler = trial(5, score=129.0, origin=Origin.SIMPLER)
    after = standing([*rows, again(4, 0, 99.0), simpler], search(count=1))
    assert (after.finalists, after.again) == ((2,), ())
    later = trial(6, score=131.0)  # the search went on
    assert standing([*rows, again(4, 0, 99.0), later], search(count=1)).again == (0,)


def test_a_machine_that_drifts_through_the_search_does_not_hide_a_gain() -> None:
    drifted = [trial(3 + i, score=94.0 + 0.1 * i) for i in range(4)]
    rows = [BASE, again(1, 0, 100.1), trial(2, score=99.9), *drifted, trial(20, score=97.9)]
    assert set(standing(rows, search(count=2)).finalists) == set()
    end = again(21, 0, 93.0)
    assert standing([*rows, end], search(count=2)).finalists == (2, 20)


def test_a_trial_that_is_clearly_no_gain_is_out_and_it_is_said_why() -> None:
    rows = [
        BASE,
        *(again(10 + i, 0, 100.0 + 0.1 * i) for i in range(4)),
        trial(2, score=100.3),
        trial(3, score=140.0),
    ]
    found = standing(rows, search(count=2))
    assert found.finalists == (3,)
    assert set(found.dropped) == {2}
    assert "no gain of 2 %" in found.dropped[2]
    assert found.as_json()["dropped"] == {"2": found.dropped[2]}


def test_a_trial_whose_repeat_failed_is_no_finalist() -> None:
    rows = [
        BASE,
        again(1, 0, 101.0),
        trial(2, score=130.0),
        again(5, 2, None, feasible=False),
        trial(3, score=120.0),
    ]
    assert standing(rows, search(count=1)).finalists == (3,)


def test_runs_in_blocks_change_nothing_that_was_decided_before_them() -> None:
    rows = [BASE, again(1, 0, 101.0), trial(2, score=130.0), trial(3, score=125.0)]
    blocks = [
        again(10, 0, 150.0, block=0),
        again(11, 2, 90.0, block=0),
        again(12, 2, 91.0, block=1),
    ]
    assert standing([*rows, *blocks], search(count=1)) == standing(rows, search(count=1))
    assert runs_of([*rows, *blocks]) == {0: [100.0, 101.0], 2: [130.0], 3: [125.0]}
    whole, before = study_noise([*rows, *blocks], blocks=True), study_noise(rows)
    assert whole is not None
    assert before is not None
    assert whole.df > before.df


def test_the_noise_of_two_runs_is_their_difference_and_says_how_little_it_knows() -> None:
    noise = study_noise([BASE, again(1, 0, 100.0 * math.exp(0.02))])
    assert noise is not None
    assert noise.sigma == pytest.approx(0.02 / math.sqrt(2))
    data = noise_json(noise)
    assert data["df"] == 1
    assert data["low"] < data["sigma"] < data["high"]


def test_a_study_that_measures_nothing_feasible_has_no_finalist() -> None:
    rows = [
        trial(0, origin=Origin.BASELINE, score=100.0, feasible=False),
        trial(1, score=None, feasible=False),
    ]
    assert standing(rows, search()).finalists == ()
    lonely = [rows[0], trial(1, score=50.0)]  # the baseline misses a gate, and anything is better
    assert standing(lonely, search()).finalists == (1,)


@given(
    st.lists(st.floats(50, 200), min_size=1, max_size=8),
    st.lists(st.floats(90, 110), max_size=3),
    st.integers(1, 3),
)
def test_measuring_again_comes_to_an_end(
    scores: list[float], baseline: list[float], count: int
) -> None:
    rows = [BASE, *(again(50 + i, 0, s) for i, s in enumerate(baseline))]
    rows += [trial(1 + i, score=s) for i, s in enumerate(scores)]
    rule = search(count=count, each=3, starts=5)
    for number in range(100, 120):
        found = standing(rows, rule)
        assert len(found.finalists) <= count
        if not found.again:
            break
        rows.append(again(number, found.again[0], 100.0))
    made = sum(t.origin is Origin.REPEAT and t.repeats != 0 for t in rows)
    assert made <= 5
    assert not standing(rows, rule).again


@pytest.mark.slow
@pytest.mark.xdist_group("engines")
@pytest.mark.timeout(120)
def test_a_study_measures_its_noise_first_and_rivals_again_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    changes = {
        "first": [{"seqs": 2, "moe": "native"}, {"seqs": 4, "moe": "native"}],
        "budget": {"trials": 3},
        "search": {
            "repeats": {"baseline": 3, "each": 2, "starts": 2},
            "finalists": {"count": 1, "rounds": 1},
        },
    }
    world = World(tmp_path, changes, recipe_env={"FAKE_SPEED": "1"}).make()
    stopped = run(world, stop_at="1 starting")
    assert len(stopped) == 2
    trials = run(world)
    assert [(t.repeats, t.block) for t in trials[1:3]] == [(0, None), (0, None)]
    assert [t.repeats for t in trials[3:5]] == [None, None]
    rest = [t for t in trials[5:] if t.origin is not Origin.SIMPLER]
    again_, blocks = [t for t in rest if t.block is None], [t for t in rest if t.block is not None]
    assert again_[0].repeats == 0
    assert {t.repeats for t in again_[1:]} <= {3, 4}
    assert all(t.origin is Origin.REPEAT for t in rest)
    assert len(again_) <= 3
    assert rest == again_ + blocks
    finalist = next(t.repeats for t in blocks if t.repeats != 0)
    assert [t.repeats for t in blocks] == [0, finalist, finalist, 0]
