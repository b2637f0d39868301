from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.search.keys import key
from tuner.search.sampler import Sampler, Told
from tuner.spec.axes import Assignment, Axis

AXES = (
    Axis("kind", "categorical", 0, 2),
    Axis("seqs", "ordinal", 0, 4),
    Axis("share", "float", 0.1, 0.9, step=None),
    Axis("extra", "integer", 1, 64, step=1, log=True, active=lambda chosen: chosen["kind"] != 0),
)
FINITE = (
    AXES[0],
    AXES[1],
    Axis("extra", "ordinal", 0, 1, active=lambda chosen: chosen["kind"] != 0),
)


def sampler(
    kind: str = "tpe", *, seed: int = 1, axes: tuple[Axis, ...] = AXES, startup: int = 5
) -> Sampler:
    return Sampler(axes, kind=kind, seed=seed, startup=startup)


def value(point: Assignment) -> float:
    return (
        100
        - 10 * abs(point["seqs"] - 3)
        - (5 if point["kind"] == 0 else 0)
        - 20 * abs(point.get("share", 0.5) - 0.5)
    )


def study(s: Sampler, trials: int) -> list[Told]:
    """Ask and tell; points with the first kind and many seqs do not fit."""
    told: list[Told] = []
    for number in range(trials):
        point = s.ask(number, {key(t.assignment) for t in told})
        assert point is not None
        over = point["seqs"] - 2 if point["kind"] == 1 else -1
        told.append(Told(point, 0.0 if over > 0 else value(point), {"start": float(over)}))
        s.tell(told[-1])
    return told


def test_points_are_within_their_axes_and_conditions_hold() -> None:
    for told in study(sampler(), 30):
        point = told.assignment
        assert point["kind"] in {0, 1, 2}
        assert 0 <= point["seqs"] <= 4
        assert 0.1 <= point["share"] <= 0.9
        assert ("extra" in point) == (point["kind"] != 0)
        assert isinstance(point["seqs"], int)


@pytest.mark.parametrize("kind", ["tpe", "random"])
def test_the_seed_and_what_was_told_decide_and_nothing_else(kind: str) -> None:
    whole = study(sampler(kind), 20)
    assert whole == study(sampler(kind), 20)
    assert whole != study(sampler(kind, seed=2), 20)


@pytest.mark.slow
@given(st.integers(0, 19))
@settings(max_examples=8, deadline=None)
def test_a_sampler_that_is_restored_suggests_what_it_would_have(cut: int) -> None:
    whole = study(sampler(), 20)
    again = sampler()
    again.restore(whole[:cut])
    point = again.ask(cut, {key(t.assignment) for t in whole[:cut]})
    assert point == whole[cut].assignment


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tpe", "random", "grid"])
def test_every_point_of_a_finite_space_comes_once_and_then_none(kind: str) -> None:
    s, taken = sampler(kind, axes=FINITE), set[str]()
    for number in range(5 + 2 * 5 * 2):
        point = s.ask(number, taken)
        assert point is not None
        assert key(point) not in taken
        taken.add(key(point))
        s.tell(Told(point, 1.0, {"start": -1.0}))
    assert s.ask(99, taken) is None


def test_the_grid_goes_in_order() -> None:
    s, taken, seen = sampler("grid", axes=FINITE), set[str](), []
    for number in range(6):
        point = s.ask(number, taken)
        assert point is not None
        taken.add(key(point))
        seen.append(point)
    assert seen[:5] == [{"kind": 0, "seqs": seqs} for seqs in range(5)]
    assert seen[5] == {"kind": 1, "seqs": 0, "extra": 0}


@pytest.mark.slow
def test_what_does_not_fit_is_learnt() -> None:
    """After twenty trials a space whose half does not fit is left alone most of the time."""
    axes = (Axis("size", "ordinal", 0, 15), Axis("other", "ordinal", 0, 15))
    s, told = sampler(axes=axes, startup=6), list[Told]()
    for number in range(50):
        point = s.ask(number, {key(t.assignment) for t in told})
        assert point is not None
        over = (point["size"] - 7.5) / 16
        told.append(Told(point, 0.0 if over > 0 else float(point["size"]), {"start": over}))
        s.tell(told[-1])
    late = [t.constraints["start"] > 0 for t in told[20:]]
    assert sum(late) <= 3
    assert max(t.value for t in told) == 7


def test_a_point_that_was_never_asked_can_be_told() -> None:
    s = sampler()
    s.tell(Told({"kind": 0, "seqs": 1, "share": 0.5}, 5.0, {"start": -1.0}))
    assert s.ask(1, set()) is not None


def ended_early(told: list[Told]) -> list[Told]:
    """The same study, in which trials below the median were ended early."""
    median = sorted(t.value for t in told)[len(told) // 2]
    return [replace(t, ended_early=True) if t.value < median else t for t in told]


def test_a_trial_that_was_ended_early_is_learnt_and_restored_alike() -> None:
    told = ended_early(study(sampler(), 20))
    once, again = sampler(), sampler()
    for one in told:
        once.ask(0, set())
        once.tell(one)
    again.restore(told)
    taken = {key(t.assignment) for t in told}
    assert once.ask(20, taken) == again.ask(20, taken)


def test_trials_that_were_ended_early_teach_where_not_to_look() -> None:
    axes = (Axis("size", "ordinal", 0, 15), Axis("other", "ordinal", 0, 15))
    s, told = sampler(axes=axes, startup=6), list[Told]()
    for number in range(40):
        point = s.ask(number, {key(t.assignment) for t in told})
        assert point is not None
        best = max((t.value for t in told), default=0.0)
        worth = float(point["size"])
        told.append(Told(point, worth, {"start": -1.0}, worth < 0.7 * best))
        s.tell(told[-1])
    assert sum(t.assignment["size"] >= 10 for t in told[20:]) >= 15


@pytest.mark.parametrize("kind", ["tpe", "random"])
def test_what_is_drawn_is_new_and_hangs_on_what_was_told_alone(kind: str) -> None:
    first, second = sampler(kind), sampler(kind)
    told = study(first, 12)
    second.restore(told)
    taken = {key(t.assignment) for t in told}
    drawn = first.draw(12, taken, 6)
    assert len({key(point) for point in drawn} | taken) == len(taken) + 6
    assert second.draw(12, taken, 6) == drawn
    assert first.draw(13, taken, 6) != drawn
    # Drawing leaves no trace: the next one that is asked for is the same as without.
    assert first.ask(14, taken) == sampler_after(kind, told).ask(14, taken)


def sampler_after(kind: str, told: list[Told]) -> Sampler:
    found = sampler(kind)
    found.restore(told)
    return found


@pytest.mark.parametrize("kind", ["tpe", "random", "grid"])
def test_no_more_is_drawn_than_there_is(kind: str) -> None:
    s = sampler(kind, axes=FINITE)
    everything = s.rest(set(), 1000)
    taken = {key(point) for point in everything[:-3]}
    drawn = s.draw(0, taken, 8)
    assert {key(p) for p in drawn} == {key(p) for p in everything} - taken
    assert s.rest(taken, 2) == everything[-3:-1]
    assert sampler().rest(set(), 5) == []  # no end of points, so none comes first
