from __future__ import annotations

import pytest

from tests.trial.factory import trial
from tuner.store.rows import Origin
from tuner.trial.simpler import as_good

BASE = trial(0, origin=Origin.BASELINE, score=100.0)
FINALIST = trial(1, score=270.0)


@pytest.mark.parametrize(
    ("score", "told", "expected"),
    [
        (268.0, True, True),
        (180.0, True, False),  # the engine calls it the same, and it is a third slower
        (268.0, False, False),  # nobody knows the noise, so nobody can call them the same
        (0.0, True, False),
    ],
)
def test_a_simpler_point_stands_for_a_finalist_where_it_is_as_good(
    score: float, told: object, expected: object
) -> None:
    one = trial(2, origin=Origin.SIMPLER, score=score)
    assert as_good(one, 1, [BASE, FINALIST, one], told=bool(told)) is expected


def test_one_that_misses_a_gate_does_not() -> None:
    one = trial(2, origin=Origin.SIMPLER, score=270.0, feasible=False)
    assert not as_good(one, 1, [BASE, FINALIST, one], told=True)


def test_where_the_noise_is_known_chance_is_allowed_for() -> None:
    again = trial(3, origin=Origin.REPEAT, score=92.0, repeats=0)
    near, far = (trial(2, origin=Origin.SIMPLER, score=s) for s in (260.0, 40.0))
    assert as_good(near, 1, [BASE, FINALIST, near, again], told=False)
    assert not as_good(far, 1, [BASE, FINALIST, far, again], told=False)
