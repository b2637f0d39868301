"""What a gate is about, and what it has heard and seen."""

from __future__ import annotations

import enum
import hashlib
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Role = Literal["plain", "ordered", "audit", "deferred"]
"""Why a point ran: in the queue's own order; put first by the proxy; drawn from the deferred to test
the proxy; or because only deferred points were left."""

_FROZEN = ConfigDict(extra="forbid", frozen=True)


class Mode(enum.StrEnum):
    """How far a proxy is trusted."""

    OFF = "off"
    SHADOW = "shadow"
    ON = "on"
    DISABLED = "disabled"


class GateKey(BaseModel):
    """The stack on which a proxy earns its trust, and the proxy. Another stack is another key.

    Attributes:
        proxy: The proxy and its version.
        engine: The engine's version or digest: what it is made of.
        variants: The kernel variants that are in play.
        model: The model.
        device: The devices and their driver.
        workload: The workload's fingerprint.
        score: The score's version or digest.
        settings: What every engine is started with, its type of numbers among it.
    """

    model_config = _FROZEN

    proxy: str
    engine: str
    variants: str
    model: str
    device: str
    workload: str
    score: str
    settings: str = ""

    @property
    def digest(self) -> str:
        """A short name of the key."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]


class Predicted(BaseModel):
    """What a proxy says of a point: its layout, and a value of which more is better."""

    model_config = _FROZEN

    layout: str
    value: Positive


class Observed(BaseModel):
    """A real trial.

    Attributes:
        point: Its point.
        value: Its value; None where it has none.
        role: Why it ran.
        below: What its value lies below, where it was ended early as clearly worse than another.
    """

    model_config = _FROZEN

    point: str
    value: Positive | None
    role: Role
    below: Positive | None = None


class Closing(BaseModel):
    """Why and when the gate closed for good; ``after`` counts real trials."""

    model_config = _FROZEN

    why: str
    after: int
