from __future__ import annotations

import math
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.conftest import HOSTILE
from tuner.report.svg import Svg, nice_step, scale

_NUMBERS = st.floats(-1e12, 1e12, allow_nan=False)


@given(values=st.lists(_NUMBERS, min_size=1, max_size=20), zero=st.booleans())
def test_a_scale_holds_its_values_and_round_ticks(values: list[float], *, zero: bool) -> None:
    found = scale(values, 0.0, 100.0, zero=zero)
    room = 1e-6 * max(1.0, *(abs(v) for v in values))
    assert found.low - room <= min(values)
    assert max(values) <= found.high + room
    assert -1e-3 <= found.at(values[0]) <= 100 + 1e-3
    ticks = found.ticks()
    assert 1 <= len(ticks) <= 12
    assert ticks == sorted(ticks)
    if zero:
        assert found.low <= 0 <= found.high


@pytest.mark.parametrize(
    ("rough", "step"), [(0.0, 0.0), (0.9, 1), (1.0, 1), (1.1, 2), (3, 5), (70, 100), (math.inf, 0)]
)
def test_steps_are_1_2_or_5(rough: float, step: float) -> None:
    assert nice_step(rough) == step


@pytest.mark.parametrize("text", HOSTILE)
def test_foreign_text_stays_text(text: str) -> None:
    svg = Svg(10, 10)
    svg.text(1, 1, text)
    svg.add("circle", text, kind="dot", cx=1, cy=1, r=1)
    root = ET.fromstring(svg.file(text))  # noqa: S314 - our own picture
    names = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert names == ["svg", "style", "text", "circle", "title"]
