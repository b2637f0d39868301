"""Cheaper levels of the question: the same deployment under less load, to sort candidates by."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from tuner.spec.base import Duration, Note, Slug, Strict
from tuner.spec.parameter import Name
from tuner.spec.workload import Positive, Span, Tokens, Workload

REAL = "real"
"""The name of the level that the workloads themselves are."""


class LoadChange(Strict):
    """What is less in a workload on a cheaper level; all else stays as the workload has it."""

    conversations: Positive | None = None
    """How many conversations there are."""
    turns: Span | None = None
    """User turns of each conversation."""
    requests: Positive | None = None
    """How many requests there are."""
    rounds: Positive | None = None
    """Requests of each stream at each concurrency."""
    concurrency: Positive | None = None
    """How many conversations or requests run at once."""
    concurrencies: Annotated[tuple[Positive, ...], Field(min_length=1)] | None = None
    """The concurrencies of a decode curve; fewer of them, for example."""
    system_tokens: Positive | None = None
    """Length of the system prompt."""
    turn_tokens: Span | None = None
    """Tokens that each user turn adds."""
    prompt_tokens: Tokens | None = None
    """Length of each prompt."""
    max_prompt_tokens: Positive | None = None
    """Longer prompts are left out of the draw."""
    output_tokens: Tokens | None = None
    """Tokens that are asked for in each answer."""
    scale: Annotated[float, Field(gt=0, le=1000)] | None = None
    """All lengths in tokens are multiplied by this."""
    time_limit: Duration | None = None
    """The time that the whole load may take."""

    @property
    def said(self) -> dict[str, Any]:
        """What is written, by the keys of the workload, in a form that a workload takes."""
        return self.model_dump(exclude_unset=True)

    def of(self, workload: Workload) -> Workload:
        """The workload with these changes.

        Raises:
            ValidationError: When the workload has no such key, or the values do not go together.
        """
        kept = workload.model_dump(exclude_unset=True)
        return _WORKLOAD.validate_python({**kept, **self.said})


_WORKLOAD: TypeAdapter[Workload] = TypeAdapter(Workload)


class Level(Strict):
    """A cheaper level: what is asked on it, and what that leaves out."""

    name: Slug
    """Its name, for tables and reports."""
    leaves_out: Note
    """What a candidate does not have to show on it."""
    workload: LoadChange | None = None
    """What is less in the workload, where there is one."""
    workloads: Annotated[dict[Name, LoadChange], Field(min_length=1)] | None = None
    """The workloads that are asked on it, each with what is less in it; the others are left out."""
    until_settled: bool = False
    """Whether its load ends as soon as lengths, cache hits and rate have settled and no gate is near."""

    @property
    def changes(self) -> dict[str, LoadChange]:
        """The workloads that are asked on it, with their changes; a single one is called ``main``."""
        if self.workloads is not None:
            return dict(self.workloads)
        return {"main": self.workload or LoadChange()}


class Climbing(Strict):
    """How candidates climb from level to level."""

    keep: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Part of the candidates of a level that climbs, the best first."""
    at_least: Annotated[int, Field(ge=1, le=1000)] = 3
    """How many candidates of a level climb in any case."""
    anchors: Annotated[int, Field(ge=1, le=1000)] = 4
    """The first so many candidates are measured on all levels, as the baseline is."""
    audit: Annotated[int, Field(ge=2, le=1000)] = 7
    """After these, every so-manieth candidate is measured on all levels as well."""
