"""How a load's records become one number, and what must hold before the number counts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tuner.spec.base import Strict

Off = Literal["off"]
Part = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]


class Weights(Strict):
    """What a token a second is worth in the score, by kind of token."""

    output_tps: Annotated[float, Field(ge=0)] = 16.796
    """Generated tokens a second, over the whole load."""
    uncached_input_tps: Annotated[float, Field(ge=0)] = 2.799
    """Prompt tokens a second that the server had to compute."""
    cached_tps: Annotated[float, Field(ge=0)] = 0.56
    """Prompt tokens a second that came from the prefix cache."""


class Gates(Strict):
    """What a trial must reach to count at all; the defaults are the official platform's."""

    success_rate: Part | Off = 0.99
    """Least part of all requests that must succeed."""
    cache_hit_rate: Part | Off = 0.5
    """Least part of the prompt tokens that must come from the prefix cache."""
    ttft_p90_s: Positive | Off = 5.0
    """Most seconds to the first token, 90th percentile."""
    output_tps_p10: Positive | Off = 20.0
    """Least output tokens a second of one request, from sending to end, 10th percentile."""
    weighted: Positive | Off = 8000.0
    """Least weighted score."""


class Score(Strict):
    """The objective."""

    profile: Literal["official", "own"] = "official"
    """``official``: the platform's weights. ``own``: the weights given here."""
    weights: Weights = Weights()
    """What a token a second is worth; needs ``profile: own``, and then all three."""
    gates: Gates = Gates()
    """What a trial must reach to count; a gate that is left out is the official one."""

    @model_validator(mode="after")
    def _one_source(self) -> Score:
        if self.profile == "official" and "weights" in self.model_fields_set:
            raise ValueError("weights need profile: own, as official means the platform's weights")
        if self.profile == "own" and "weights" not in self.model_fields_set:
            raise ValueError("profile: own needs weights")
        missing = sorted(Weights.model_fields.keys() - self.weights.model_fields_set)
        if self.profile == "own" and missing:
            raise ValueError(f"profile: own needs all weights, also {missing[0]}: write 0 for none")
        if not any(self.weights.model_dump().values()):
            raise ValueError("one of the weights must be above 0")
        return self
