"""One more run of a trial's point, with the stages of its engine's steps timed: where the time goes.

It runs after the search and never inside it. Timing slows an engine, so the run has no score, teaches the
sampler nothing and is never exported; what it was asked is what the trial itself was asked. Like any trial it
is in the ledger before it starts, so one that was broken off is run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tuner.build import load_recipe
from tuner.errors import UserError
from tuner.spec.deployment import Deployment
from tuner.store.ledger import Ledger
from tuner.store.rows import Origin, StudyRow, TrialRow
from tuner.store.stages import Stage
from tuner.trial.admission import uses_devices
from tuner.trial.context import Study
from tuner.trial.deliver import decided
from tuner.trial.profiled import SWITCH, with_profile
from tuner.trial.runnable import missing, point_of
from tuner.trial.study import StudyRunner


def profile_of(trials: Sequence[TrialRow], number: int) -> TrialRow | None:
    """The last trial that profiled another one and is over; one that found stages before one that did not."""
    mine = [t for t in trials if t.origin is Origin.PROFILE and t.repeats == number]
    over = [t for t in mine if t.stage is Stage.TOLD]
    return max(over, key=lambda t: (bool(stages_of(t)), t.number), default=None)


def stages_of(trial: TrialRow) -> dict[str, Any]:
    """The profile that a trial found; nothing where it found none."""
    found: dict[str, Any] = (trial.metrics or {}).get("profile") or {}
    return found


def profiled_number(ledger: Ledger, row: StudyRow, asked: int | None) -> int:
    """The trial that is to be profiled: the one that was asked for, or the one that was decided for.

    For a trial that ran another one's point again it is the other one.

    Raises:
        StudyNotFound: When the study has no such trial.
        UserError: When nothing was decided and no trial is named, it does not count any more, or it
            never started an engine.
    """
    if asked is None:
        decision = decided(ledger, row)
        if decision is None:
            raise UserError(
                f"study {row.name} has not decided on a trial yet", mend="name one with --trial"
            )
        asked = int(decision["winner"])
    return point_of(ledger, row.id, asked, "profile").number


def check_profiled(recipe: str) -> None:
    """Refuse an engine that knows of no profile, before anything is started.

    Raises:
        UserError: When the recipe says that its engine does not read the variable.
    """
    loaded = load_recipe(recipe)
    if loaded.spec.knows.env and not loaded.knows_env(SWITCH):
        raise UserError(
            f"recipe {loaded.name} knows no variable {SWITCH}, so its engine cannot be profiled",
            mend="take a recipe that installs enginex, and has ENGINEX_* under knows: env:",
        )


def profile_winner(study: Study, runner: StudyRunner, winner: int) -> bool:
    """Profile the winner of a study, unless that was done; first what was broken off.

    Returns:
        Whether it is over, also where the wish to end came while it ran. A run that failed is over, too:
        it changes nothing of what was decided.
    """
    runner.take_up(lambda trial: trial.origin is Origin.PROFILE)
    if profile_of(_trials(study), winner) is None and not study.wishes.ending:
        _run(study, runner, winner)
    return profile_of(_trials(study), winner) is not None


def profile_trial(study: Study, number: int, *, anew: bool = False) -> TrialRow | None:
    """Profile a trial, or take what an earlier run of this found.

    Args:
        study: The study, made ready.
        number: The trial.
        anew: Whether it is run again although it was profiled.

    Returns:
        The run that is over; None where it was told to stop before.
    """
    runner = StudyRunner(study)

    def of_it(trial: TrialRow) -> bool:
        return trial.origin is Origin.PROFILE and trial.repeats == number

    broken_off = any(of_it(t) and t.stage is not Stage.TOLD for t in _trials(study))
    runner.take_up(of_it)
    if study.wishes.ending:
        return None
    known = profile_of(_trials(study), number)
    if known is not None and (broken_off or (stages_of(known) and not anew)):
        return known
    return _run(study, runner, number)


def _run(study: Study, runner: StudyRunner, number: int) -> TrialRow | None:
    """Plan the run and carry it out; it has no assignment, so that the sampler cannot know of it."""
    profiled = point_of(study.ledger, study.row.id, number, "profile")
    deployment = Deployment.from_json(profiled.deployment)
    if (lacks := missing(study, deployment)) is not None:
        raise UserError(f"trial {number} cannot run again: {lacks}", mend="profile another trial")
    check_profiled(deployment.recipe)
    asked = with_profile(deployment, on_devices=uses_devices(study.space))
    trial = study.ledger.plan(
        study.row.id,
        origin=Origin.PROFILE,
        params=profiled.params,
        assignment=None,
        deployment=asked.as_json(),
        repeats=number,
    )
    runner.carry_out(trial)
    over = study.ledger.trial(study.row.id, trial.number)
    if over.stage is not Stage.TOLD:
        return None
    study.voice.say("note", text=_said(over))
    return over


def _said(trial: TrialRow) -> str:
    """What a run came to, in a sentence."""
    what = f"trial {trial.number} timed the steps of trial {trial.repeats}"
    found = stages_of(trial)
    if not found:
        why = "its engine printed no profile" if trial.verdict == "healthy" else trial.verdict
        return f"{what} and found nothing: {why}"
    kind = "decode" if "decode" in found else next(iter(found))
    stages = found[kind]["stages"]
    whole = sum(s["total_s"] for s in stages.values()) or 1.0
    name, stage = max(stages.items(), key=lambda item: float(item[1]["total_s"]))
    return f"{what}: {stage['total_s'] / whole:.0%} of {kind} is {name}"


def _trials(study: Study) -> list[TrialRow]:
    return study.ledger.trials(study.row.id)
