"""How much may be spent: time, trials, memory; and what machine is assumed."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from tuner.quantity import parse_bytes
from tuner.spec.base import Bytes, Seconds, Strict


class Budget(Strict):
    """When the search ends: at whichever of these is reached first."""

    trials: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Most trials, the baseline included, the finalists' measurements not."""
    wall: Seconds | None = None
    """Most wall time of the search, from its first trial on, the finalists' measurements not included."""
    engine: Seconds | None = None
    """Most time with an engine up or starting, in all trials of the search together."""

    @model_validator(mode="after")
    def _one(self) -> Budget:
        if self.trials is None and self.wall is None and self.engine is None:
            raise ValueError("a budget needs at least one of trials, wall and engine")
        if self.wall == 0 or self.engine == 0:
            raise ValueError("a budget of no time finds nothing")
        return self


class Amount(Strict):
    """A size in bytes, or a share of what the machine has; exactly one of the two is not None."""

    bytes: int | None = None
    share: float | None = None

    def of(self, total: int) -> int:
        """The amount in bytes, for a machine that has ``total`` bytes."""
        return self.bytes if self.bytes is not None else int((self.share or 0.0) * total)


_SIZE = re.compile(r"\d+(\.\d+)? ?([KMGT]i?)?B", re.ASCII)
_PERCENT = re.compile(r"(\d+(?:\.\d+)?) ?%", re.ASCII)


def _amount(value: Any) -> Any:
    if isinstance(value, Amount):
        return value
    if isinstance(value, str) and _SIZE.fullmatch(value):
        return Amount(bytes=parse_bytes(value))
    number = isinstance(value, int | float) and not isinstance(value, bool)
    share = float(value) if number else None
    if isinstance(value, str) and (found := _PERCENT.fullmatch(value)):
        share = float(found[1]) / 100
    if share is None or not 0 <= share <= 1:
        raise ValueError("is no amount: write a size as in 8GiB, or a share as in 80%")
    return Amount(share=share)


SizeOrShare = Annotated[
    Amount,
    BeforeValidator(_amount),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"^\d+(\.\d+)? ?([KMGT]i?)?B$"},
                {"type": "string", "pattern": r"^(100(\.0+)?|\d{1,2}(\.\d+)?) ?%$"},
                {"type": "number", "minimum": 0, "maximum": 1},
            ]
        }
    ),
]
"""A size such as ``8GiB``, or a share such as ``90%``."""


class Memory(Strict):
    """Memory limits that keep the machine, and the deployment, out of trouble."""

    host: SizeOrShare = Amount(share=0.9)
    """Most host memory of the engine's processes together; past it the engine is ended."""
    device_floor: SizeOrShare = Amount(share=0.02)
    """Least free memory of each device under load; a trial that goes below is infeasible."""

    @model_validator(mode="after")
    def _some(self) -> Memory:
        if not (self.host.bytes or self.host.share):
            raise ValueError("host must be above 0: no engine runs in no memory")
        return self


class HardwareOverride(Strict):
    """What expressions and checks assume in place of what is found on the machine."""

    devices: Annotated[int, Field(ge=0, le=4096)] | None = None
    """Accelerators."""
    cores: Annotated[int, Field(ge=1, le=65536)] | None = None
    """CPU cores that the engine may use."""
    memory: Bytes | None = None
    """Host memory."""
    device_memory: Bytes | None = None
    """Memory of one accelerator."""
