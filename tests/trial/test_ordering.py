"""Whole studies, without engines, in which a proxy's gate acts: right proxies, and wrong ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.trial.climbs import LEVELS
from tests.trial.ordered import Ran, run
from tests.trial.proxies import (
    GRID,
    Says,
    drifting,
    good,
    hiding,
    inverted,
    layout_biased,
    tied,
)
from tuner.fidelity.evidence import Mode
from tuner.search.keys import key
from tuner.trial.climbing import HELD
from tuner.trial.gatelog import GATE
from tuner.trial.ordering import BATCH, QUEUE
from tuner.trial.shadow import EVENT
from tuner.trial.wishes import Wishes

POINTS = 72
"""Points of the space."""
LEARNS = "startup: 6"
WRONG = [inverted, tied, layout_biased, drifting]


pytestmark = pytest.mark.slow


BEST = {"seqs": 8, "batch": 2048, "moe": "native"}


def test_a_right_proxy_orders_puts_off_and_is_audited(tmp_path: Path) -> None:
    plain = run(tmp_path / "plain", good, proxy="shadow")
    done = run(tmp_path / "on", good)
    opened = done.gate.opened
    assert done.gate.mode is Mode.ON
    assert opened is not None
    # Until it has earned that, the study is the very same.
    count = len(done.trials[:opened])
    assert [t.params for t in done.trials[:count]] == [t.params for t in plain.trials[:count]]
    # From then on each trial of the search has its reason, and each seventh is an audit.
    after = [t.number for t in done.searched if t.number >= opened]
    said = {e.number: e.data["what"] for e in done.events if e.kind == GATE and "point" in e.data}
    assert list(said) == after
    audits = [number for number, what in said.items() if what == "audit"]
    assert audits[:-1] == [opened - 1 + 7 * (n + 1) for n in range(len(audits) - 1)]
    assert audits[-1] == after[-1]  # the last one that the budget holds
    assert done.put_off
    assert len(set(done.put_off)) == len(done.put_off)
    assert done.when(BEST) < 20
    assert done.winner == BEST


def test_what_it_puts_off_waits_and_is_not_lost(tmp_path: Path) -> None:
    done = run(tmp_path, good, most=POINTS)
    assert len(done.searched) == POINTS  # with budget enough every point runs, once
    assert len({key(t.assignment or {}) for t in done.searched}) == POINTS
    assert set(done.put_off) <= {key(t.assignment or {}) for t in done.searched}
    assert done.did("released")


@pytest.mark.parametrize("sampler", [LEARNS, GRID])
def test_every_sampler_has_a_queue(tmp_path: Path, sampler: str) -> None:
    done = run(tmp_path / "on", good, sampler=sampler)
    plain = run(tmp_path / "plain", good, sampler=sampler, proxy="off")
    assert done.gate.opened is not None
    assert done.did("audit")
    assert done.put_off
    drawn = [e for e in done.events if e.kind == QUEUE]
    if sampler == GRID:
        assert drawn == []  # a grid's queue is what is left of it
        assert plain.winner != BEST
    else:
        points = [key(each) for e in drawn for each in e.data["points"]]
        assert len(set(points)) == len(points) > BATCH
    assert done.winner == BEST


@pytest.mark.parametrize("says", WRONG)
def test_a_wrong_proxy_is_not_trusted_for_long_and_the_winner_is_the_same(
    tmp_path: Path, says: Says
) -> None:
    opened = 0
    for seed in range(1, 4):
        done = run(tmp_path / str(seed), says, most=POINTS, seed=seed)
        assert done.gate.mode is not Mode.ON
        if says in {inverted, tied}:
            assert done.gate.opened is None
            assert done.put_off == []
        if done.gate.opened is not None:
            opened += 1
            assert done.gate.closing is not None
            assert done.gate.closing.after - done.gate.opened <= 14
            assert_deferred_ran(done)
        assert done.winner == BEST
        assert len(done.searched) == POINTS
    assert opened or says in {inverted, tied}  # else this shows nothing


def assert_deferred_ran(done: Ran) -> None:
    """What was put off ran right after the gate was closed, in its own order, as any other point."""
    (closed,) = done.did("closed")
    points = [key(t.assignment or {}) for t in done.searched if t.number > (closed.number or 0)]
    left = [point for point in done.put_off if point in points]
    assert closed.data["left"] == len(left)
    drawn = [key(each) for e in done.events if e.kind == QUEUE for each in e.data["points"]]
    waiting = [point for point in drawn if point in points]
    assert points[: len(waiting)] == waiting
    assert set(left) <= set(waiting)
    later = [e for e in done.events if e.kind == GATE and e.id > closed.id]
    assert later == []


def test_an_audit_closes_the_gate_on_a_proxy_that_hides_the_best(tmp_path: Path) -> None:
    closings = []
    for seed in range(1, 6):
        done = run(tmp_path / str(seed), hiding, seed=seed, most=POINTS)
        assert done.winner == BEST
        assert done.gate.mode is not Mode.ON
        if done.gate.closing is not None:
            assert_deferred_ran(done)
            last = done.gate.observations[done.gate.closing.after - 1]
            closings.append((last.role, done.gate.closing.why))
    assert any(role == "audit" for role, _ in closings)
    assert any(re.match(r"trial \d+, which it had deferred, is", why) for _, why in closings)


def test_a_closed_gate_stays_closed_on_its_stack(tmp_path: Path) -> None:
    first = run(tmp_path, drifting)
    assert first.gate.closing is not None
    again = run(tmp_path, good)  # the same study, which is over
    assert again.gate.closing == first.gate.closing
    other = run(tmp_path, good, name="another")
    assert other.gate.mode is Mode.DISABLED
    assert other.gate.opened is None
    assert other.put_off == []
    (closed,) = other.did("closed")
    assert closed.data["why"].startswith("it was wrong on this stack before: ")


def test_with_cheaper_levels_what_it_chose_may_be_held_and_is_no_evidence(tmp_path: Path) -> None:
    done = run(tmp_path, good, levels=LEVELS, sampler=LEARNS)
    assert done.gate.opened is not None
    chosen = {e.number for e in done.events if e.kind == GATE and "point" in e.data}
    held = {t.number for t in done.trials if t.verdict == HELD}
    assert held & chosen
    seen = {e.number: e.data for e in done.events if e.kind == EVENT}
    assert all(seen[number]["real"] is None for number in held & chosen)
    assert not (held - chosen) & set(seen)
    assert done.winner == BEST


def test_a_study_that_is_stopped_goes_on_with_the_same_queue(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", good, most=25, sampler=LEARNS)
    wishes = Wishes()

    def stop(params: Mapping[str, Any]) -> bool:
        turns.append(params)
        if len(turns) == 14:
            wishes.pausing.set()
        return False

    turns: list[Mapping[str, Any]] = []
    part = run(tmp_path / "part", good, most=25, sampler=LEARNS, wishes=wishes, fails=stop)
    assert part.winner is None
    assert part.put_off
    rest = run(tmp_path / "part", good, most=25, sampler=LEARNS)
    assert len(rest.trials) > len(part.trials)
    assert [t.params for t in rest.trials] == [t.params for t in whole.trials]
    assert rest.put_off == whole.put_off
    more = run(tmp_path / "part", good, most=30, sampler=LEARNS)  # more budget, the same queue
    assert len(more.searched) == 30
    assert more.put_off[: len(rest.put_off)] == rest.put_off


def late(params: Mapping[str, Any], number: int) -> float:
    """It has nothing to say of the better layout until well after it is trusted in the other one."""
    return 0.0 if params["moe"] == "native" and number < 20 else good(params, number)


def test_in_a_layout_of_which_it_knows_nothing_nothing_is_put_off(tmp_path: Path) -> None:
    done = run(tmp_path, late)
    opened = done.gate.opened
    assert opened is not None
    assert opened < 18
    assert done.gate.mode is Mode.ON  # a new layout is no sign of being wrong
    native = {key(t.assignment or {}) for t in done.searched if t.params["moe"] == "native"}
    first = next(
        o.point for o in done.gate.observations
        if o.point in native and o.point in done.gate.predictions
    )  # fmt: skip
    said = {
        e.data["point"]: e.data["text"] for e in done.events if e.kind == GATE and "point" in e.data
    }
    assert said[first] == "not put off: the proxy says nothing of it"
    turns = [t.params["moe"] for t in done.searched if opened <= t.number < 18]
    assert "native" in turns
    assert done.winner == BEST
