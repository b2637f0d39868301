from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.trial.factory import trial
from tuner.store.rows import Origin
from tuner.trial.finalists import Repeat, outstanding, schedule


def test_one_finalist_is_measured_in_a_b_b_a() -> None:
    assert [r.of for r in schedule(0, [7], 1)] == [0, 7, 7, 0]
    assert [r.block for r in schedule(0, [7], 1)] == [0, 0, 1, 1]


def test_no_finalists_no_repeats() -> None:
    assert schedule(0, [], 3) == []


@given(st.lists(st.integers(1, 50), unique=True, min_size=1, max_size=4), st.integers(1, 4))
def test_each_point_runs_once_in_each_block_and_drift_meets_all_alike(
    finalists: list[int], rounds: int
) -> None:
    plan = schedule(0, finalists, rounds)
    for block in range(2 * rounds):
        assert sorted(r.of for r in plan if r.block == block) == sorted([0, *finalists])
    # Over a whole round the places of each point add up to the same: linear drift cancels.
    size = 2 * (len(finalists) + 1)
    for turn in range(rounds):
        places = {
            of: [i for i, r in enumerate(plan[turn * size : (turn + 1) * size]) if r.of == of]
            for of in (0, *finalists)
        }
        assert len({sum(p) for p in places.values()}) == 1


@given(st.integers(0, 12))
def test_after_a_crash_only_what_is_missing_is_left(done: int) -> None:
    plan = schedule(0, [3, 5], 2)
    made = [
        trial(100 + i, origin=Origin.REPEAT, repeats=r.of, block=r.block)
        for i, r in enumerate(plan[:done])
    ]
    assert outstanding(plan, made) == plan[done:]
    assert outstanding([Repeat(0, 0)], [trial(1, repeats=0, block=0)]) == [
        Repeat(0, 0)
    ]  # no repeat: not on purpose
