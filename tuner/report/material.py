"""What a report is made from: a study's ledger and files, read once and gathered here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tuner.score.objective import WEIGHTED, Objective
from tuner.store.rows import Event, Origin, StudyRow, TrialRow
from tuner.verdict.families import Family, family


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Where the steps of a trial spent their time.

    Attributes:
        kinds: Seconds and calls by stage, by kind of step.
        run: The run of its own that timed them; None where the trial's own engine did.
    """

    kinds: Mapping[str, Any]
    run: int | None = None


@dataclass(frozen=True, slots=True)
class Material:
    """A study with all that its report says.

    Attributes:
        study: The study.
        trials: All its trials, in the order of their numbers.
        decision: The decision as the ledger keeps it; None while there is none.
        durations: Seconds that the engine of each trial was up or starting, by its number.
        stages: Seconds on the way to each stage of a trial's last attempt, by its number.
        importance: Share of each parameter in what tells the best trials from the others.
        space: The search space in lines for people; none where it cannot be read any more.
        curves: Samples of host and devices during a trial, by its number.
        loads: What was measured of each workload of a trial, by its number and the workload.
        profiles: Where the steps of a trial spent their time, by its number, where that was timed.
        events: What happened in the study, in order.
        objective: What the score is.
        front: The trials that no other one beats in both of two objectives.
        made: When the report was made, seconds since 1970.
        tuner: The version of tuner that made it.
    """

    study: StudyRow
    trials: Sequence[TrialRow]
    decision: Mapping[str, Any] | None
    durations: Mapping[int, float] = field(default_factory=dict)
    stages: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    importance: Mapping[str, float] = field(default_factory=dict)
    space: Sequence[str] = ()
    curves: Mapping[int, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    loads: Mapping[int, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    profiles: Mapping[int, StepTimes] = field(default_factory=dict)
    events: Sequence[Event] = ()
    objective: Objective = WEIGHTED
    front: Mapping[str, Any] | None = None
    made: float = 0.0
    tuner: str = ""

    @property
    def baseline(self) -> TrialRow | None:
        """The baseline's trial; None while it was not planned."""
        return next((t for t in self.trials if t.origin is Origin.BASELINE), None)

    @property
    def base_params(self) -> Mapping[str, Any]:
        """The baseline's point."""
        found = self.baseline
        return {} if found is None else found.params

    @property
    def compared(self) -> Mapping[str, Any] | None:
        """The winner's comparison, else the one that came closest; None where nothing was compared."""
        return compared(self.decision)

    @property
    def best(self) -> TrialRow | None:
        """The trial that the report sets beside the baseline.

        The one that was compared; before that the best feasible one of the search. None where that
        is the baseline itself, or there is none.
        """
        found = self.compared
        if found is not None:
            return self.trial(found["number"])
        scored = [t for t in self.trials if t.feasible and t.score is not None and not t.repeats]
        top = max(scored, key=lambda t: t.score or 0.0, default=None)
        return None if top is None or top.origin is Origin.BASELINE else top

    def trial(self, number: int) -> TrialRow | None:
        """The trial with that number."""
        return next((t for t in self.trials if t.number == number), None)

    def repeats(self, of: int) -> list[TrialRow]:
        """The trials that measured a trial again: those of the finals, where there were any."""
        found = [t for t in self.trials if t.repeats == of and t.origin is Origin.REPEAT]
        return [t for t in found if t.block is not None] or found


def compared(decision: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The winner's comparison, else the one that came closest; None where nothing was compared."""
    if decision is None:
        return None
    found: list[Mapping[str, Any]] = [c for c in decision["comparisons"] if c["ratio"] is not None]
    won = [c for c in found if c["number"] == decision["winner"]]
    return max(won or found, key=lambda c: c["ratio"], default=None)


def family_of(trial: TrialRow) -> Family:
    """The family of a trial's end."""
    return family(trial.verdict, feasible=trial.feasible if trial.score is not None else None)


def figure(trial: TrialRow, name: str) -> float | None:
    """A figure of a trial's first workload; None where it was not measured."""
    workloads = (trial.metrics or {}).get("workloads", {})
    first = next(iter(workloads.values()), None)
    if first is None:
        return None
    found: float | None = first["figures"].get(name)
    return found


def mean_figure(material: Material, of: int, name: str) -> float | None:
    """A figure's mean over the repeats of a trial; where there are none, the trial's own."""
    repeats = material.repeats(of)
    own = material.trial(of)
    among = repeats or ([own] if own is not None else [])
    values = [v for t in among if (v := figure(t, name)) is not None]
    return sum(values) / len(values) if values else None


def gates(trial: TrialRow) -> list[tuple[str, Mapping[str, Any]]]:
    """Each gate of a trial, with the name of its workload."""
    workloads = (trial.metrics or {}).get("workloads", {})
    return [(name, gate) for name, load in workloads.items() for gate in load["gates"]]


def missed(trial: TrialRow) -> list[str]:
    """The gates that a measured trial did not pass."""
    return [gate["name"] for _, gate in gates(trial) if not gate["passed"]]
