from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tuner.spec.limits import Amount, Budget, HardwareOverride, Memory


def test_a_budget_is_one_of_three_or_more() -> None:
    found = Budget.model_validate({"wall": "1h30m", "engine": 90})
    assert (found.trials, found.wall, found.engine) == (None, 5400.0, 90.0)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "at least one of trials, wall and engine"),
        ({"trials": 0}, "greater than or equal to 1"),
        ({"wall": "0s"}, "no time finds nothing"),
        ({"wall": -5}, "greater than or equal to 0"),
        ({"wall": True}, "is no duration"),
        ({"wall": float("inf")}, "is no duration"),
    ],
)
def test_budgets_that_make_no_sense(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Budget.model_validate(fields)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("written", "total", "amount"),
    [
        ("8GiB", 1, 8 << 30),
        ("500 MB", 1, 500_000_000),
        ("50%", 1000, 500),
        (0.25, 1000, 250),
        (1, 9, 9),
    ],
)
def test_amounts(written: str | float, total: int, amount: int) -> None:
    assert Memory.model_validate({"host": written}).host.of(total) == amount


@pytest.mark.parametrize("written", ["8", "8G", "101%", 1.5, -0.1, True, None, [], "many"])
def test_amounts_that_make_no_sense(written: Any) -> None:
    with pytest.raises(ValidationError, match="is no amount: write a size as in 8GiB, or a share"):
        Memory.model_validate({"host": written})


def test_defaults() -> None:
    assert Memory().host == Amount(share=0.9)
    assert Memory().device_floor.of(1000) == 20


def test_sizes_of_hardware_need_their_unit() -> None:
    found = HardwareOverride.model_validate({"memory": "16GiB", "devices": 0})
    assert (found.memory, found.devices, found.cores) == (16 << 30, 0, None)
    with pytest.raises(ValidationError, match="with its unit"):
        HardwareOverride.model_validate({"memory": 16})
