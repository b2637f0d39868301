"""Gathers what a study's report is made from: the ledger's rows, and the files of two trials."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from tuner import __version__
from tuner.errors import TunerError, UserError
from tuner.launch.base import LOG_NAME
from tuner.load.record import Record
from tuner.load.store import read_records
from tuner.report.material import Material, StepTimes, compared
from tuner.score.buckets import PLATFORM_EDGES
from tuner.score.columns import from_records
from tuner.score.objective import WEIGHTED
from tuner.score.profile import OFFICIAL, Profile
from tuner.score.summary import summarise
from tuner.search.importance import importance
from tuner.spec import Context, SearchSpace, axes, describe
from tuner.spec.context import Hardware
from tuner.store.ledger import Ledger
from tuner.store.rows import Origin, StudyRow, TrialRow
from tuner.trial.budget import spent, stage_seconds
from tuner.trial.deliver import decided
from tuner.trial.entry import attempt_folder, stored_space, study_folder
from tuner.trial.front import front_of
from tuner.trial.outcome import latency_starts
from tuner.trial.profiled import step_profile
from tuner.trial.profiling import profile_of, stages_of
from tuner.trial.scoring import objective_of, weights_of
from tuner.trial.study import told_history

MOST_SAMPLES = 300
"""Samples of telemetry that a picture shows; more are thinned evenly."""
FINE_EDGES = (512, 1024, 2048, 4096)
"""Edges of length buckets for workloads whose prompts are all shorter than the platform's first."""
_MOST_RECORDS = 200_000
_MOST_TOLD = 2000
"""The newest told trials that importance is computed from; more say no more, and take seconds."""


def material(ledger: Ledger, row: StudyRow) -> Material:
    """All that the report of a study says, read from the ledger and the study's folder."""
    trials = ledger.trials(row.id)
    steps = ledger.transitions(row.id)
    decision = decided(ledger, row)
    space = space_of(ledger, row)
    context = None if space is None else context_of(space, row)
    objective = WEIGHTED if space is None else objective_of(space)
    shown = _shown(trials, decision)
    folder = study_folder(ledger, row.name)
    return Material(
        study=row,
        trials=trials,
        decision=decision,
        durations=spent(trials, steps, session=0.0).durations,
        stages=_stages(steps),
        importance={} if space is None or context is None else shares(space, context, trials),
        space=() if space is None or context is None else describe(space, context),
        curves={t.number: samples(folder, t) for t in shown},
        loads={t.number: load_summaries(folder, t, space) for t in shown},
        profiles=_profiles(folder, shown, trials),
        events=ledger.events(row.id),
        objective=objective,
        front=front_of(trials, objective),
        made=time.time(),
        tuner=__version__,
    )


def space_of(ledger: Ledger, row: StudyRow) -> SearchSpace | None:
    """The study's search space; None where it is of a form that this tuner does not read."""
    try:
        return stored_space(ledger, row)
    except TunerError:
        return None


def context_of(space: SearchSpace, row: StudyRow) -> Context | None:
    """What the space was read against when the study began; None while the machine is not known."""
    found = row.facts.get("hardware")
    if found is None:
        return None
    sizes = [d["memory_total"] for d in found["devices"] if d.get("memory_total")]
    machine = Hardware(
        devices=len(found["devices"]),
        cores=found["cores"],
        memory_bytes=found["memory_total"],
        device_memory_bytes=min(sizes, default=0),
    )
    return Context.of(space, machine)


def _profile(space: SearchSpace | None) -> Profile:
    if space is None:
        return OFFICIAL
    return Profile("own", weights_of(space), ())


def _shown(trials: list[TrialRow], decision: Mapping[str, Any] | None) -> list[TrialRow]:
    """The trials that are looked at closely: the baseline and the best."""
    found = compared(decision)
    base = next((t for t in trials if t.origin is Origin.BASELINE), None)
    if found is not None:
        best = next((t for t in trials if t.number == found["number"]), None)
    else:
        scored = [t for t in trials if t.feasible and t.score is not None and t.repeats is None]
        best = max(scored, key=lambda t: t.score or 0.0, default=None)
    both = [t for t in (base, best) if t is not None and t.launched]
    return list({t.number: t for t in both}.values())


def _profiles(
    folder: Path, shown: Iterable[TrialRow], trials: Sequence[TrialRow]
) -> dict[int, StepTimes]:
    """Where the steps of trials spent their time, by number.

    That is each trial that was profiled in a run of its own; and those that are looked at closely,
    where the search space has their own engines timed.
    """
    logs = {t.number: attempt_folder(folder, t.number, t.attempt) / LOG_NAME for t in shown}
    found = {number: StepTimes(step_profile(log)) for number, log in logs.items()}
    for trial in trials:
        if trial.origin is Origin.PROFILE and trial.repeats is not None:
            run = profile_of(trials, trial.repeats)
            if run is not None and (stages := stages_of(run)):
                found[trial.repeats] = StepTimes(stages, run.number)
    return {number: times for number, times in sorted(found.items()) if times.kinds}


def _stages(steps: Iterable[Any]) -> dict[int, dict[str, float]]:
    mine: dict[int, list[Any]] = {}
    for step in steps:
        mine.setdefault(step.number, []).append(step)
    return {
        number: {str(stage): seconds for stage, seconds in stage_seconds(each).items()}
        for number, each in mine.items()
    }


def importance_of(ledger: Ledger, row: StudyRow) -> tuple[int, dict[str, float]]:
    """How many trials were told, and the importance of each axis by them."""
    trials = ledger.trials(row.id, light=True)
    told = len(told_history(trials))
    space = space_of(ledger, row)
    context = None if space is None else context_of(space, row)
    if space is None or context is None:
        return told, {}
    return told, shares(space, context, trials)


def loads_of(ledger: Ledger, row: StudyRow, trial: TrialRow) -> dict[str, dict[str, Any]]:
    """What was measured of each workload of a trial; nothing where its records are not kept."""
    return load_summaries(study_folder(ledger, row.name), trial, space_of(ledger, row))


def shares(space: SearchSpace, context: Context, trials: list[TrialRow]) -> dict[str, float]:
    """Importance of the axes of a search space, by what its trials came to."""
    known = axes(space, context)
    names = {axis.name for axis in known}
    history = [told for told in told_history(trials) if set(told.assignment) <= names]
    history = history[-_MOST_TOLD:]
    return importance(known, history)


def samples(folder: Path, trial: TrialRow, points: int = MOST_SAMPLES) -> list[dict[str, Any]]:
    """Samples of host and devices during a trial's last attempt, thinned evenly; none where none were kept."""
    file = attempt_folder(folder, trial.number, trial.attempt) / "telemetry.jsonl"
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            # The last line of a growing file may be cut, and the very last one is no sample.
            found = [line for line in lines if line.endswith("\n") and '"at"' in line]
    except OSError:
        return []
    step = max(1, -(-len(found) // points))
    return [json.loads(line) for line in found[::step]]


def load_summaries(
    folder: Path, trial: TrialRow, space: SearchSpace | None
) -> dict[str, dict[str, Any]]:
    """What was measured of each workload, from the records of the trial's last attempt.

    Workloads whose records are not kept any more are left out.
    """
    where = attempt_folder(folder, trial.number, trial.attempt)
    loads = (trial.metrics or {}).get("workloads", {})
    profile = _profile(space)
    starts = {} if space is None else latency_starts(space.loads)
    limits = None if space is None else objective_of(space).limits
    found = {}
    for name in loads:
        if {"/", "\0"} & set(name):
            continue  # no workload is called so; a name of the ledger leads to no other folder
        try:
            records = list(islice(read_records(where / f"measure-{name}.jsonl"), _MOST_RECORDS))
        except UserError:
            continue
        if records:
            wall = loads[name]["figures"].get("wall_s")
            found[name] = summarise(
                from_records(records).since(starts.get(name, "sent")),
                profile,
                wall_s=wall,
                limits=limits,
                edges=_edges(records),
            ).as_json()
    return found


def _edges(records: list[Record]) -> tuple[int, ...]:
    longest = max((r.prompt_tokens or 0 for r in records), default=0)
    return PLATFORM_EDGES if longest >= PLATFORM_EDGES[0] else FINE_EDGES
