from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.errors import StudyNotFound
from tuner.store.ledger import Ledger
from tuner.store.queue import Queue


def studies(ledger: Ledger, count: int) -> list[int]:
    return [
        ledger.create_study(name=f"s{n}", fingerprint="f", space="", origin="/s.yaml").id
        for n in range(count)
    ]


def order(queue: Queue) -> list[int]:
    return [entry.study for entry in queue.entries()]


def test_the_first_one_in_goes_first_and_what_is_submitted_again_keeps_its_place(
    tmp_path: Path,
) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        one, two = studies(ledger, 2)
        queue = Queue(ledger)
        queue.put(two, stood="/a", budget={"trials": 5})
        queue.put(one, stood="/b", priority=0, devices=("GPU-1",))
        assert order(queue) == [two, one]
        queue.want(two, "stop")
        again = queue.put(two, stood="/c")
        assert order(queue) == [two, one]
        assert (again.wanted, again.budget, again.stood) == ("run", {"trials": 5}, "/c")
        assert queue.allow(two, {"wall": 60.0}).budget == {"trials": 5, "wall": 60.0}
        # A budget is given whole: what is not in it is up to the search space again.
        assert queue.put(two, stood="/c", budget={"wall": 9.0}).budget == {"wall": 9.0}
        assert queue.put(two, stood="/c", budget={}).budget == {}
        assert queue.entry(one).devices == ("GPU-1",)


def test_a_study_that_was_never_there_is_said_so(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        (one,) = studies(ledger, 1)
        assert Queue(ledger).find(one) is None
        with pytest.raises(StudyNotFound, match="tuner resume"):
            Queue(ledger).entry(one)


@settings(max_examples=25, deadline=None)
@given(
    moves=st.lists(
        st.tuples(st.integers(0, 4), st.one_of(st.integers(-3, 3), st.tuples(st.integers(0, 4)))),
        max_size=12,
    )
)
def test_priorities_and_moves_do_what_they_say(
    moves: list[tuple[int, int | tuple[int]]],
) -> None:
    with tempfile.TemporaryDirectory() as folder, Ledger(Path(folder), write=True) as ledger:
        ids = studies(ledger, 5)
        queue = Queue(ledger)
        for one in ids:
            queue.put(one, stood="/")
        for place, move in moves:
            study = ids[place]
            before = [s for s in order(queue) if s != study]
            if isinstance(move, int):
                queue.prioritize(study, move)
                peers = [e for e in queue.entries() if e.priority == move]
                assert peers[-1].study == study
            elif ids[move[0]] != study:
                other = ids[move[0]]
                queue.put_before(study, other)
                now = order(queue)
                assert now.index(study) == now.index(other) - 1
            assert [s for s in order(queue) if s != study] == before  # nobody else moves
            ranks = [e.priority for e in queue.entries()]
            assert ranks == sorted(ranks, reverse=True)


def test_deaths_are_counted_until_a_trial_is_told(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        (one,) = studies(ledger, 1)
        queue = Queue(ledger)
        queue.put(one, stood="/")
        assert [queue.died(one), queue.died(one)] == [1, 2]
        queue.lives(one)
        assert queue.died(one) == 1


def test_marks_are_kept(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        assert Queue(ledger).mark("x") is None
        Queue(ledger).set_mark("x", 7)
        Queue(ledger).set_mark("x", 9)
    with Ledger(tmp_path, write=False) as ledger:
        assert Queue(ledger).mark("x") == 9
