from __future__ import annotations

import pytest

from tests.load.conftest import plan_of, turn
from tuner.load.plan import Closed, Open
from tuner.load.repace import at_concurrency, at_rate

PLAN = plan_of(*[[turn(), turn()] for _ in range(2000)])


def test_a_concurrency() -> None:
    plan = at_concurrency(at_rate(PLAN, 5.0), 7)
    assert plan.pacing == Closed(7)
    assert plan.sessions == PLAN.sessions
    assert plan.workload == "test-5rps-0-c7"


def test_a_rate() -> None:
    plan = at_rate(PLAN, 40.0)
    assert plan.pacing == Open()
    starts = [session.turns[0].arrival_s or 0.0 for session in plan.sessions]
    assert starts[0] == 0.0
    assert starts == sorted(starts)
    assert starts[-1] == pytest.approx(50.0, rel=0.1)
    assert all(session.turns[1].arrival_s is None for session in plan.sessions)


def test_repeats_have_gaps_and_names_of_their_own() -> None:
    one, two = at_rate(PLAN, 4.0), at_rate(PLAN, 4.0, repeat=1)
    assert one == at_rate(PLAN, 4.0)
    assert one.workload != two.workload
    assert one.sessions != two.sessions


def test_gaps_scale_with_the_rate() -> None:
    slow, fast = at_rate(PLAN, 2.0), at_rate(PLAN, 8.0)
    for one, other in zip(slow.sessions, fast.sessions, strict=True):
        assert one.turns[0].arrival_s == pytest.approx(4 * (other.turns[0].arrival_s or 0.0))


def test_no_rate() -> None:
    for rate in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="rate"):
            at_rate(PLAN, rate)
