import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.memory.floor import FloorTracker, Least, judge_floor

MIB = 2**20
CARD = 32_480 * MIB


def test_the_run_that_died_with_fifty_megabytes_left() -> None:
    found = judge_floor([Least("a", 50 * MIB, CARD), Least("b", 4000 * MIB, CARD)])
    assert not found.ok
    assert found.margin == 50 * MIB - int(0.02 * CARD)
    assert found.relative == pytest.approx(50 / 32_480 - 0.02)
    assert found.reasons == (
        "device a: 50.0 MiB free at the worst moment, 649.6 MiB (2.0%) must stay free",
    )


def test_room_enough() -> None:
    found = judge_floor([Least("a", 700 * MIB, CARD)])
    assert found.ok
    assert found.margin is not None
    assert found.margin > 0


def test_what_is_not_known_is_said_and_has_no_margin() -> None:
    found = judge_floor([Least("a", None, CARD), Least("b", 5, None)])
    assert found.ok
    assert found.margin is None
    assert found.relative is None
    assert found.unknown == ("a", "b")
    assert judge_floor([]).margin is None


def test_the_floor_can_be_set() -> None:
    least = [Least("a", 50 * MIB, CARD)]
    assert judge_floor(least, floor=0).ok
    with pytest.raises(ValueError, match="no share of a device"):
        judge_floor(least, floor=2)


def test_the_tracker_keeps_the_worst_moment() -> None:
    tracker = FloorTracker()
    for free in (None, 900 * MIB, 600 * MIB, None, 800 * MIB):
        tracker.add("a", free, CARD)
    tracker.add("b", None, None)
    found = tracker.judge()
    assert found.margin == 600 * MIB - int(0.02 * CARD)
    assert found.unknown == ("b",)
    assert not found.ok


@given(st.lists(st.tuples(st.integers(0, 3), st.none() | st.integers(0, CARD)), max_size=30))
def test_the_tracker_agrees_with_the_least_of_all(samples: list[tuple[int, int | None]]) -> None:
    tracker = FloorTracker()
    known: dict[str, list[int]] = {}
    for device, free in samples:
        tracker.add(str(device), free, CARD)
        known.setdefault(str(device), [])
        if free is not None:
            known[str(device)].append(free)
    least = [Least(key, min(values, default=None), CARD) for key, values in known.items()]
    assert tracker.judge() == judge_floor(least)
