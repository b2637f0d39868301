"""Ranges of numbers that a parameter may take."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

from pydantic import Field, model_validator

from tuner.spec.base import Strict

Whole = Annotated[int, Field(ge=-(2**53), le=2**53)]
"""A whole number that samplers can count with: beyond, their numbers cannot tell two apart."""


class IntegerRange(Strict):
    """Whole numbers from low to high, both included."""

    low: Whole
    """The smallest value."""
    high: Whole
    """The largest value."""
    step: Annotated[int, Field(ge=1)] = 1
    """The distance between values."""
    log: bool = False
    """Whether the sampler draws evenly over the logarithms: for values that span decades."""

    @model_validator(mode="after")
    def _coherent(self) -> IntegerRange:
        _check_bounds(self.low, self.high, log=self.log)
        if self.log and self.step != 1:
            raise ValueError("step and log exclude each other: keep one of the two")
        if (self.high - self.low) % self.step:
            nearest = self.low + (self.high - self.low) // self.step * self.step
            raise ValueError(f"high is not reached by the steps: write high: {nearest}")
        return self

    @property
    def size(self) -> int:
        """How many values there are."""
        return (self.high - self.low) // self.step + 1

    def value(self, index: int) -> int:
        """The value with this number, counted from 0 at low."""
        return self.low + index * self.step

    def snap(self, value: float) -> int:
        """The value of the range that is nearest to a number.

        Raises:
            ValueError: When the number is outside.
        """
        if not self.low <= value <= self.high:
            raise ValueError(f"{value} is not between {self.low} and {self.high}")
        return self.value(round((value - self.low) / self.step))

    def contains(self, value: Any) -> bool:
        """Whether a value is one of the range's."""
        whole = isinstance(value, int) and not isinstance(value, bool)
        return whole and self.low <= value <= self.high and (value - self.low) % self.step == 0

    def __str__(self) -> str:
        return (
            f"{self.low} to {self.high}{_manner(self.step if self.step != 1 else None, self.log)}"
        )


class FloatRange(Strict):
    """Numbers from low to high, both included."""

    low: float
    """The smallest value."""
    high: float
    """The largest value."""
    step: Annotated[float, Field(gt=0)] | None = None
    """The distance between values; left out, every number of the range is a value."""
    log: bool = False
    """Whether the sampler draws evenly over the logarithms: for values that span decades."""

    @model_validator(mode="after")
    def _coherent(self) -> FloatRange:
        _check_bounds(self.low, self.high, log=self.log)
        if self.log and self.step is not None:
            raise ValueError("step and log exclude each other: keep one of the two")
        if self.step is not None and (_exact(self.high) - _exact(self.low)) % _exact(self.step):
            raise ValueError(f"high is not reached by the steps: write high: {self.value(-1)}")
        return self

    @property
    def size(self) -> int | None:
        """How many values there are; None where they cannot be counted."""
        if self.step is None:
            return None
        return int((_exact(self.high) - _exact(self.low)) // _exact(self.step)) + 1

    def value(self, index: int) -> float:
        """The value with this number in a range with steps, counted from 0 at low.

        It is computed in decimal, so that the third step of 0.05 from 0.8 is 0.95 and not
        0.9500000000000001.
        """
        count = self.size or 1
        return float(_exact(self.low) + (index % count) * _exact(self.step or 0.0))

    def snap(self, value: float) -> float:
        """The value of the range that is nearest to a number.

        Raises:
            ValueError: When the number is outside by more than rounding.
        """
        slack = 1e-9 * max(abs(self.low), abs(self.high))
        if not self.low - slack <= value <= self.high + slack:
            raise ValueError(f"{value} is not between {self.low} and {self.high}")
        if self.step is None:
            return min(max(float(value), self.low), self.high)
        return self.value(round((value - self.low) / self.step))

    def contains(self, value: Any) -> bool:
        """Whether a value is one of the range's."""
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and self.low <= value <= self.high and self.snap(value) == value

    def __str__(self) -> str:
        return f"{self.low} to {self.high}{_manner(self.step, self.log)}"


def _check_bounds(low: float, high: float, *, log: bool) -> None:
    if low > high:
        raise ValueError("low is above high: exchange the two")
    if log and low <= 0:
        raise ValueError("a logarithmic range needs a low above 0")


def _exact(number: float) -> Decimal:
    return Decimal(repr(number))


def _manner(step: float | None, log: bool) -> str:  # noqa: FBT001 - private, named at its two calls
    steps = f" in steps of {step}" if step is not None else ""
    return f"{steps}, logarithmic" if log else steps
