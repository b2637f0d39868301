from __future__ import annotations

from typing import Any

import pytest

from tests.trial.factory import trial
from tuner.trial.deployable import doubt_of

MISSED = {"workloads": {"main": {"gates": [{"figure": "ttft_p90_s", "passed": False}]}}}


@pytest.mark.parametrize(
    ("fields", "said", "grave"),
    [
        ({"verdict": "engine_crash"}, "never was healthy: engine_crash", True),
        ({"verdict": None}, "never was healthy: ", True),
        ({"verdict": "held_on_level"}, "never measured on the real load", False),
        (
            {"verdict": "healthy", "score": 9.0, "feasible": False, "metrics": MISSED},
            "is healthy, and misses ttft_p90_s",
            False,
        ),
    ],
)
def test_why_a_trial_is_not_one_to_deploy(fields: dict[str, Any], said: str, grave: object) -> None:
    found = doubt_of(trial(3, **{"score": None, "feasible": False, **fields}))
    assert found is not None
    assert said in found.said
    assert found.grave is grave


def test_one_that_passed_is_not_doubted() -> None:
    assert doubt_of(trial(3, verdict="healthy", score=9.0, feasible=True)) is None
