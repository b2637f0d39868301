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


Figure = Literal[
    "weighted",
    "goodput_rps",
    "request_rps",
    "output_tps",
    "uncached_input_tps",
    "cached_tps",
    "output_tps_p10",
    "output_tps_p50",
    "decode_tps_p10",
    "decode_tps_p50",
    "ttft_mean_s",
    "ttft_p50_s",
    "ttft_p90_s",
    "ttft_p99_s",
    "tpot_mean_s",
    "tpot_p50_s",
    "tpot_p90_s",
    "itl_p50_s",
    "itl_p99_s",
    "e2e_mean_s",
    "e2e_p50_s",
    "e2e_p90_s",
    "e2e_p99_s",
]
"""A figure of a load that may be one of two objectives; those in seconds are better when lower."""


class RequestLimits(Strict):
    """What a request must keep to count in the goodput; a limit that is left out is not looked at."""

    ttft_s: Positive | None = None
    """Most seconds to the first token."""
    tpot_s: Positive | None = None
    """Most seconds for each token after the first."""
    e2e_s: Positive | None = None
    """Most seconds from the send to the end."""
    output_tps: Positive | None = None
    """Least output tokens a second of the request, from sending to end."""

    @model_validator(mode="after")
    def _some(self) -> RequestLimits:
        if not any(value is not None for value in self.model_dump().values()):
            raise ValueError("limits need at least one of ttft_s, tpot_s, e2e_s and output_tps")
        return self


class Choose(Strict):
    """The rule that takes the winner from the trials that no other one beats in both objectives."""

    balance: Annotated[float, Field(gt=0, lt=1)] | None = None
    """How much the first objective weighs against the second: 0.5 weighs a gain of 1 % in both alike."""
    best: Figure | None = None
    """The objective that is to be the best, while the other one keeps ``limit``."""
    limit: Positive | None = None
    """What the other objective must keep: at most this where it is in seconds, else at least this."""

    @model_validator(mode="after")
    def _one_rule(self) -> Choose:
        if (self.balance is None) == (self.best is None and self.limit is None):
            raise ValueError("choose is either balance, or best and limit")
        if self.balance is None and (self.best is None or self.limit is None):
            raise ValueError(
                "choose needs best and limit together: the limit is the other objective's"
            )
        return self


class Score(Strict):
    """The objective."""

    objective: Literal["weighted", "goodput_rps"] = "weighted"
    """What the score is: the weighted score, or the requests a second that keep ``limits``."""
    objectives: tuple[Figure, Figure] | None = None
    """Two figures in place of one objective; ``choose`` then says which trial wins."""
    choose: Choose | None = None
    """The rule for the winner of two objectives."""
    limits: RequestLimits | None = None
    """What a request must keep to count in ``goodput_rps``."""
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

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The figures that the score is made of."""
        return self.objectives or (self.objective,)

    @property
    def other(self) -> Figure | None:
        """The objective that must keep the limit of the rule; None where the rule has none."""
        if self.objectives is None or self.choose is None or self.choose.best is None:
            return None
        first, second = self.objectives
        return second if self.choose.best == first else first

    @model_validator(mode="after")
    def _one_objective(self) -> Score:
        if self.objectives is None:
            if self.choose is not None:
                raise ValueError("choose needs objectives: it is the rule for the winner of two")
            return self
        if "objective" in self.model_fields_set:
            raise ValueError("objective and objectives exclude each other: leave one of them out")
        if self.choose is None:
            raise ValueError("objectives need choose: balance: 0.5, or best and limit")
        first, second = self.objectives
        if first == second:
            raise ValueError(f"both objectives are {first}: name two, or one as objective")
        if self.choose.best not in {None, first, second}:
            raise ValueError(f"choose.best must be one of the objectives: {first} or {second}")
        gate = getattr(self.gates, self.other or "", "off")
        if self.other in self.gates.model_fields_set and gate != "off":
            raise ValueError(
                f"choose.limit and gates.{self.other} limit the same figure: leave the gate out"
            )
        return self

    @model_validator(mode="after")
    def _all_act(self) -> Score:
        counts_good = "goodput_rps" in self.figures
        if counts_good and self.limits is None:
            raise ValueError("goodput_rps needs limits: which requests count, as ttft_s: 2")
        if self.limits is not None and not counts_good:
            raise ValueError("limits do nothing, as goodput_rps is no objective: leave them out")
        weighs = "weighted" in self.figures or self.gates.weighted != "off"
        if self.profile == "own" and not weighs:
            raise ValueError(
                "weights do nothing, as weighted is neither an objective nor a gate: leave out "
                "profile and weights"
            )
        return self
