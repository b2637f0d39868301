from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tuner.spec.score import Score


def test_without_a_word_it_is_the_official_score() -> None:
    found = Score()
    assert found.weights.model_dump() == {
        "output_tps": 16.796,
        "uncached_input_tps": 2.799,
        "cached_tps": 0.56,
    }
    assert found.gates.weighted == 8000


def test_single_gates_can_be_changed_or_taken_away() -> None:
    found = Score.model_validate({"gates": {"weighted": "off", "ttft_p90_s": 8}})
    assert (found.gates.weighted, found.gates.ttft_p90_s) == ("off", 8)
    assert found.gates.success_rate == 0.99


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"weights": {"output_tps": 1.0}}, "weights need profile: own"),
        ({"profile": "own"}, "profile: own needs weights"),
        (
            {
                "profile": "own",
                "weights": {"output_tps": 0, "uncached_input_tps": 0, "cached_tps": 0},
            },
            "above 0",
        ),
        ({"profile": "own", "weights": {"output_tps": -1.0}}, "greater than or equal to 0"),
        ({"gates": {"success_rate": 1.5}}, "less than or equal to 1"),
        ({"gates": {"ttft_p90_s": 0}}, "greater than 0"),
        ({"gates": {"ttft_p90_s": True}}, "valid number"),
        ({"gates": {"ttft_p90_s": "none"}}, "'off'"),
        ({"gates": {"itl": 1}}, "Extra inputs"),
    ],
)
def test_scores_that_make_no_sense(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Score.model_validate(fields)
    assert said in str(caught.value)
