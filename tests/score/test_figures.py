from __future__ import annotations

from collections.abc import Callable

import pytest

from tuner.load.record import Record
from tuner.score.figures import FIGURES, figures, why_missing
from tuner.score.measure import measure
from tuner.score.official import Weights

Make = Callable[..., Record]


def test_every_figure_has_a_value_for_a_full_record(make_record: Make) -> None:
    found = figures(measure([make_record(answer_digest="ab" * 32, reasoning_tokens=1)]))
    assert list(found) == list(FIGURES)
    missing = {name for name, value in found.items() if value is None}
    assert missing == {"goodput_rps", "goodput_share", "repetition_rate"}


def test_every_missing_figure_says_why() -> None:
    metrics = measure([])
    for name, value in figures(metrics).items():
        if value is None:
            assert why_missing(name, metrics) != "it was not measured", name


def test_the_three_kinds_of_output_tps(make_record: Make) -> None:
    found = figures(measure([make_record(ttft=1.0, step=0.1, output=11) for _ in range(3)]))
    assert found["output_tps"] == pytest.approx(16.5)
    assert found["output_tps_p50"] == pytest.approx(5.5)
    assert found["decode_tps_p50"] == pytest.approx(10.0)


def test_weights_of_ones_own(make_record: Make) -> None:
    metrics = measure([make_record(ttft=1.0, step=0.1, prompt=100, cached=50, output=11)])
    assert figures(metrics, Weights(1, 0, 0))["weighted"] == metrics.output_tps
