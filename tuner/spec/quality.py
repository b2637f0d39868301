"""What an engine must be able to do, and how close its answers must stay to the baseline's."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tuner.spec.base import Seconds, Strict

Need = Literal["required", "as_baseline", "allowed", "off"]
"""What a failed probe means: ``required`` makes the trial unhealthy; ``as_baseline`` does so where
the baseline passed it; ``allowed`` is only reported; ``off`` is not asked."""

ProbeName = Literal[
    "chat",
    "system",
    "multi_system",
    "multi_turn",
    "languages",
    "max_tokens_1",
    "max_tokens_64",
    "max_tokens_none",
    "max_tokens_large",
    "stop",
    "n_2",
    "seed",
    "parameters",
    "json_object",
    "json_schema",
    "tool_messages",
    "tool_choice",
    "tool_call",
    "reasoning",
    "image",
    "cache",
    "bad_body",
    "bad_messages",
    "bad_parameters",
    "too_long",
    "long_context",
    "worst_case",
]
"""Every probe; docs/reference/quality.md says what each asks."""


class Answers(Strict):
    """The answer oracle: greedy answers to fixed prompts, held against the baseline's."""

    match: Literal["exact", "first", "distance", "off"] = "distance"
    """``exact``: the same text. ``first``: the same tokens at the start. ``distance``:
    log-probabilities within the tolerance, and both tokens nearly as likely where answers part."""
    tokens: Annotated[int, Field(ge=1, le=1024)] = 16
    """Tokens asked of each answer."""
    first: Annotated[int, Field(ge=1, le=1024)] = 8
    """``first``: how many tokens at the start must be the same."""
    tolerance: Annotated[float, Field(gt=0, le=10)] = 0.01
    """``distance``: the mean difference in nats that is still the same answer. No single token may
    differ by more than ten times as much."""

    @model_validator(mode="after")
    def _used(self) -> Answers:
        needs = {
            "tolerance": {"distance"},
            "first": {"first"},
            "tokens": {"exact", "first", "distance"},
        }
        for name, matches in needs.items():
            if self.match not in matches and name in self.model_fields_set:
                raise ValueError(f"{name} does nothing with match: {self.match}: leave it out")
        if self.match == "first" and self.first > self.tokens:
            raise ValueError(f"first is {self.first}, and only {self.tokens} tokens are asked for")
        return self


class Quality(Strict):
    """What is asked of an engine before it is measured. A trial that fails here is unhealthy."""

    suite: Literal["core", "full", "off"] = "core"
    """``core``: what takes seconds. ``full``: also the longest prompts and the worst-case request.
    ``off``: only that a chat is answered."""
    probes: dict[ProbeName, Need] = Field(default_factory=dict)
    """Probes that are to mean something else than their default does."""
    answers: Answers = Answers()
    """The answer oracle."""
    repetition: Annotated[float, Field(gt=0, le=1)] | Literal["off"] = 0.5
    """By how much more of a load's answers may be repeats of others than at the baseline."""
    timeout: Seconds = 60.0
    """The time that one probe's request may take."""

    @model_validator(mode="after")
    def _asked(self) -> Quality:
        if self.suite == "off" and self.probes:
            raise ValueError("probes do nothing with suite: off: leave them out")
        if self.timeout <= 0:
            raise ValueError("a timeout of no time lets nothing pass")
        return self
