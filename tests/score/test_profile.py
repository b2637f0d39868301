from __future__ import annotations

import pytest

from tuner.score.gates import OFFICIAL as OFFICIAL_GATES
from tuner.score.official import PUBLISHED
from tuner.score.profile import OFFICIAL, profile

WEIGHTS = {"output_tps": 16.796, "uncached_input_tps": 2.799, "cached_tps": 0.56}
GATES = {
    "success_rate": 0.99,
    "cache_hit_rate": 0.5,
    "ttft_p90_s": 5.0,
    "output_tps_p10": 20.0,
    "weighted": 8000.0,
}


def test_the_official_profile_as_a_search_space_writes_it() -> None:
    found = profile(WEIGHTS, GATES, name="official")
    assert found == OFFICIAL
    assert (found.weights, found.gates) == (PUBLISHED, OFFICIAL_GATES)


def test_a_gate_that_is_off_is_not_there() -> None:
    found = profile(WEIGHTS, GATES | {"cache_hit_rate": "off", "tpot_p90_s": 0.1})
    assert [str(gate) for gate in found.gates] == [
        "success_rate >= 0.99",
        "ttft_p90_s <= 5",
        "output_tps_p10 >= 20",
        "weighted >= 8000",
        "tpot_p90_s <= 0.1",
    ]


def test_mistakes_are_refused() -> None:
    with pytest.raises(ValueError, match="'ttft'"):
        profile(WEIGHTS, {"ttft": 1.0})
    with pytest.raises(TypeError, match="number or off"):
        profile(WEIGHTS, {"ttft_p90_s": "soon"})
