"""A study: baseline, written points, search, finalists, decision."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from tuner.errors import NeedsMending, NothingFeasible, TunerError
from tuner.search.keys import key
from tuner.search.sampler import Sampler, Told
from tuner.spec import (
    Assignment,
    Point,
    assignment,
    axes,
    baseline,
    first_points,
    point,
    resolve,
    violations,
)
from tuner.spec.deployment import Deployment
from tuner.spec.levels import REAL
from tuner.store.history import set_aside
from tuner.store.ledger import Said
from tuner.store.rows import ON_PURPOSE, Origin, Transition, TrialRow
from tuner.store.stages import Stage, is_running
from tuner.trial.budget import Spending
from tuner.trial.climbing import HELD, Climbing
from tuner.trial.context import Study
from tuner.trial.decision import Decision, decide
from tuner.trial.early import CLEARLY_WORSE
from tuner.trial.finalists import Repeat
from tuner.trial.finals import Finals
from tuner.trial.foresight import Foresight
from tuner.trial.known import KnownTrials
from tuner.trial.margins import CONSTRAINT, Margins
from tuner.trial.ordering import Ordering
from tuner.trial.outcome import failed_constraints, level_weights, unjudged_constraints
from tuner.trial.recovery import settle, unsettled
from tuner.trial.repeats import baseline_repeats
from tuner.trial.retry import CANCELLED, stops, teaches
from tuner.trial.runnable import hindrance
from tuner.trial.runner import TrialRunner
from tuner.trial.scrub import scrub
from tuner.trial.shadow import Shadow
from tuner.trial.stepproxy import StepProxy
from tuner.trial.summary import margins
from tuner.verdict import Verdict

REJECTED = "rejected_by_rule"
_MAX_REJECTIONS = 200
_SEARCH_AFTER_NOISE = 4
MEMORY_VERDICTS = frozenset(
    {
        Verdict.DEVICE_OOM_LOAD,
        Verdict.DEVICE_OOM_PROFILING,
        Verdict.DEVICE_OOM_CAPTURE,
        Verdict.DEVICE_OOM_RUN,
        Verdict.KV_SEQUENCE,
        Verdict.KV_SPACE,
        Verdict.HOST_OOM,
    }
)


class StudyRunner:
    """Works on one study until its budget is spent or it is told to stop.

    Args:
        study: The study and all that it has at hand.
        shadow: A proxy and its gate; left out, the step simulator.
    """

    def __init__(self, study: Study, shadow: Shadow | None = None) -> None:
        self._study = study
        self._runner = TrialRunner(study)
        self._known = KnownTrials(study.ledger, study.row.id)
        self._foresight = Foresight(study)
        self._margins = Margins(study)
        self._finals = Finals(
            study, again=self.again, offer=self._offer, search_on=lambda: self.may_go_on
        )
        self._climbing = Climbing(study.ledger, study.row.id, study.space)
        self._entry = REAL
        self._shadow = shadow or Shadow(study, StepProxy(study))
        self._ordering = Ordering(study, self._shadow)
        self._began = time.monotonic()
        self._beside = 0.0
        self._ended_at: dict[str, float] | None = None
        self._sampler = self._new_sampler()
        self._restored = False

    def _new_sampler(self) -> Sampler:
        settings = self._study.space.search
        return Sampler(
            axes(self._study.space, self._study.context),
            kind=settings.sampler,
            seed=self._study.space.seed,
            startup=settings.startup,
        )

    # --- the way of a study ----------------------------------------------------------------------

    def run(self) -> Decision | None:
        """Go on from wherever the ledger says the study is.

        Returns:
            The decision, or None when the study was told to stop before it.

        Raises:
            NothingFeasible: When no trial passed the gates.
            NeedsMending: When no engine can run until a person has mended something.
            TunerError: When the baseline itself does not run.
        """
        try:
            return self._run_phases()
        finally:
            self._foresight.close()

    def _run_phases(self) -> Decision | None:
        # A profile belongs to what is decided: it waits until that is known.
        self.take_up(lambda trial: trial.origin is not Origin.PROFILE)
        finalists = self._search_and_confirm()
        while self.may_go_on and not self._stopped:
            text = "the search goes on: its limits were raised"
            self._study.voice.say("search_again", limits=self._limits, text=text)
            finalists = self._search_and_confirm()
        if self._stopped:
            return None
        decision = decide(self._trials(), finalists, self._study.space.search.finalists.rounds)
        self._say_levels()
        self._shadow.conclude(self._study.ledger.trial(self._study.row.id, decision.winner))
        self._study.voice.say("decision", **decision.as_json())
        if not any(t.feasible for t in self._trials()):
            raise NothingFeasible(
                "no trial passed the gates; `tuner trials` shows by how much each one missed them"
            )
        return decision

    def _search_and_confirm(self) -> list[int]:
        """Search, and measure the finalists; up to where it is told to stop, or may search on."""
        for phase in (self._baseline, self._first, self._search, self._finals.contend):
            phase()
            if self._stopped:
                return []
        finalists = self._finals.finalists()
        if not self._finals.left:
            self._finals.confirm(finalists)
        return finalists

    @property
    def may_go_on(self) -> bool:
        """Whether the search ended at a limit, and other limits let it go on by now."""
        changed = self._ended_at is not None and self._ended_at != self._limits
        return changed and not self.spending().obstacles(self._limits, 1, 1)

    def _restore(self) -> None:
        """Know what the ledger knows; once, before the first trial is told."""
        if self._restored:
            return
        self._restored = True
        self._entry = self._climbing.entry
        self._sampler.restore(self._told_history())
        self._shadow.restore(self._trials())
        self._ordering.restore()

    def take_up(self, wanted: Callable[[TrialRow], bool] = lambda _: True) -> None:
        """Take up what an earlier tuner left: tell what is verified, run what is planned.

        Args:
            wanted: Which of the planned trials to run now; the others stay planned.
        """
        self._restore()
        ledger, study = self._study.ledger, self._study.row.id
        for trial in self._trials():
            if is_running(trial.stage):  # its tuner was killed before it could do this
                scrub(self._study.trial_folder(trial.number, trial.attempt), ledger.redact)
        waiting = [trial for trial in settle(ledger, study) if not self._given_up(trial)]
        for trial in unsettled(ledger, study):
            self._tell(trial)
        for trial in filter(wanted, waiting):
            if self._stopped:
                return
            self._take(trial)

    def _given_up(self, trial: TrialRow) -> bool:
        """Keep a planned trial as history that cannot run any more; whether it is one."""
        why = hindrance(self._study, trial)
        if why is None:
            return False
        set_aside(self._study.ledger, trial, why)
        self._study.voice.say("note", text=f"trial {trial.number} is not run any more: {why}")
        return True

    def _baseline(self) -> None:
        if not any(t.origin is Origin.BASELINE for t in self._trials()):
            start = baseline(self._study.space, self._study.context)
            self._offer(
                Origin.BASELINE, start, assignment(self._study.space, start, self._study.context)
            )
        known = next(t for t in self._trials() if t.origin is Origin.BASELINE)
        first = self._study.ledger.trial(self._study.row.id, known.number)
        judgement = first.judgement or {}
        if first.stage is Stage.TOLD and (first.metrics is None or judgement.get("failed")):
            said = judgement.get("advice", "")
            raise TunerError(
                f"the baseline does not run: {first.verdict}. {said}\n"
                f"`tuner show {self._study.row.name} {first.number}` has the proof"
            )
        if first.score == 0:
            said = "the baseline scores 0, so no trial's gain over it can be told and none can win"
            self._study.voice.say("note", text=said)
        for repeat in baseline_repeats(self._trials(), self._study.space.search.repeats.baseline):
            # The noise is worth a start only where enough is left to search with.
            if not self._stopped and not self._spent_out(leave=_SEARCH_AFTER_NOISE):
                self.again(repeat)

    def _first(self) -> None:
        space, context = self._study.space, self._study.context
        for written in first_points(space, context)[len(self._known.of(Origin.FIRST)) :]:
            if self._stopped or self._spent_out():
                return
            chosen = assignment(space, written, context)
            if key(chosen) not in self._known.taken():
                self._offer(Origin.FIRST, written, chosen)

    def _search(self) -> None:
        self._ended_at = None
        ended = self._search_points()
        if ended is None or self._stopped:
            return
        at, text = ended
        self._study.voice.say("search_over", trials=len(self._trials()), at=list(at), text=text)
        self._say_levels()

    def _search_points(self) -> tuple[tuple[str, ...], str] | None:
        """Search; at which limits it ended, and in words why. None when it was told to end."""
        rejected = 0
        while not self._stopped:
            limits = self._limits
            if at := self._obstacles():
                self._ended_at = limits
                return at, self.spending().words(limits, at)
            if rejected >= _MAX_REJECTIONS:
                return (), f"the search ended after {rejected} points in a row that cannot run"
            held = self._climbing.next_up(self._trials())
            if held is not None and self._turn_of_held():
                self._climb(held)
                continue
            found = self._ordering.next(
                self._sampler, len(self._trials()), self._known.taken(), self._is_last
            )
            if self._study.wishes.ending:  # meanwhile
                return None
            if found is None and held is not None:
                self._climb(held)
                continue
            if found is None:
                return (), "the search ended: every point of the space was tried"
            chosen = found.assignment
            ran = self._offer(
                Origin.SEARCH,
                point(self._study.space, chosen, self._study.context),
                chosen,
                found.beside,
            )
            rejected = 0 if ran else rejected + 1
        return None

    def _turn_of_held(self) -> bool:
        """Whether it is the turn of a point that was held and may climb now: after each new point."""
        trials = self._trials()
        last = trials[-1].assignment
        return not any(t.verdict == HELD and t.assignment == last for t in trials[:-1])

    def _climb(self, held: TrialRow) -> None:
        """Measure a point further that a cheaper level held back."""
        study = self._study
        text = f"trial {held.number} climbs after all: what held it does not hold any more"
        study.voice.say("note", text=text)
        trial = study.ledger.trial(study.row.id, held.number)
        self._offer(Origin.SEARCH, trial.params, trial.assignment or {})

    def _say_levels(self) -> None:
        if self._climbing.any:
            self._study.voice.say("levels", rows=self._climbing.report())

    def again(self, repeat: Repeat) -> None:
        """Measure a trial again, on an engine of its own."""
        study = self._study
        again = study.ledger.trial(study.row.id, repeat.of)
        self._run(
            study.ledger.plan(
                study.row.id,
                origin=Origin.REPEAT,
                params=again.params,
                assignment=again.assignment,
                deployment=again.deployment,
                repeats=repeat.of,
                block=repeat.block,
            )
        )

    # --- one trial -------------------------------------------------------------------------------

    def carry_out(self, trial: TrialRow) -> None:
        """Run a trial that somebody else has planned, and tell it."""
        self._run(trial)

    def _offer(
        self, origin: Origin, wanted: Point, chosen: Assignment, beside: Sequence[Said] = ()
    ) -> bool:
        """Plan a point and take it on; whether it ran."""
        return self._take(self._plan(origin, wanted, chosen, beside))

    def _take(self, trial: TrialRow) -> bool:
        """Run a planned trial, unless it can be known beforehand that it cannot run; whether it ran."""
        objection = None if trial.launched else self._objection(trial)
        if objection is None:
            self._run(trial)
            return True
        verdict = objection["verdict"]
        ledger = self._study.ledger
        self._tell(ledger.advance(trial, Stage.VERIFIED, verdict=verdict, judgement=objection))
        return False

    def _objection(self, trial: TrialRow) -> dict[str, Any] | None:
        """Why a trial need not be started; where its point ran before, nothing speaks against it."""
        if trial.origin in ON_PURPOSE:
            return None
        broken = violations(self._study.space, trial.params, self._study.context)
        if broken:
            return _rejection([rule.reason for rule in broken])
        return self._foresight.objection(Deployment.from_json(trial.deployment))

    def _plan(
        self, origin: Origin, wanted: Point, chosen: Assignment, beside: Sequence[Said]
    ) -> TrialRow:
        study = self._study
        deployment = resolve(study.space, wanted, study.context)
        trial = study.ledger.plan(
            study.row.id,
            origin=origin,
            params=dict(wanted),
            assignment=dict(chosen),
            deployment=deployment.as_json(),
            beside=beside,
        )
        study.voice.say("plan", trial.number, origin=str(origin), params=trial.params)
        self._shadow.handed(trial.number, beside)
        return trial

    def _run(self, trial: TrialRow) -> None:
        if trial.origin in ON_PURPOSE or trial.attempt:
            self._study.voice.say(
                "plan", trial.number, origin=str(trial.origin), params=trial.params
            )
        began = time.monotonic()
        trial = self._runner.run(trial)
        if trial.verdict == CANCELLED and self._study.cancelled.is_set():
            trial = self._study.ledger.advance(trial, Stage.PLANNED)
        if trial.stage is not Stage.PLANNED:
            if stops(trial, self._steps(trial)):
                # Not told: nothing is known of its point, and it runs again once that is mended.
                raise NeedsMending(_to_mend(self._study.row.name, trial))
            self._tell(trial)
        if trial.number not in self._known.searched():
            self._beside += time.monotonic() - began

    def _steps(self, trial: TrialRow) -> list[Transition]:
        return self._study.ledger.transitions(trial.study, trial.number)

    def _tell(self, trial: TrialRow) -> None:
        """Tell a verified trial: to the ledger, and where it teaches to the sampler. Once."""
        self._shadow.observe(trial)
        lesson = self._lesson(trial)
        feasible = lesson.get("feasible", trial.feasible)
        said = {
            "verdict": trial.verdict,
            "score": trial.score,
            "feasible": feasible,
            "margins": margins(trial),
            "best": self._is_best(trial, feasible=feasible),
        }
        trial = self._study.ledger.advance(trial, Stage.TOLD, say=said, **lesson)
        self._teach(trial)
        self._study.voice.say("told", trial.number, **said)

    def _teach(self, trial: TrialRow) -> None:
        """Tell the sampler; all of it anew where the level that it learns from has changed."""
        if self._climbing.entry != self._entry:
            for level, why in self._climbing.state().retired.items():
                self._study.voice.say("note", text=f"level {level} rejects nobody any more: {why}")
            self._entry = self._climbing.entry
            self._sampler = self._new_sampler()
            self._sampler.restore(self._told_history())
            return
        told = self._told(trial)
        if told is not None:
            self._sampler.tell(told)

    def _told(self, trial: TrialRow) -> Told | None:
        """What the sampler learns of a trial: values of one level alone, never of two."""
        if self._entry == REAL:
            return _told(trial)
        failed = trial.value == 0.0 and trial.score is None
        value = trial.value if failed else self._climbing.value(trial)
        return None if value is None else _told(trial, value)

    def _told_history(self) -> list[Told]:
        return [told for trial in self._trials() if (told := self._told(trial)) is not None]

    def _is_best(self, trial: TrialRow, *, feasible: bool | None) -> bool:
        """Whether a trial of the search scored above all before it."""
        if not feasible or trial.score is None or trial.origin in ON_PURPOSE:
            return False
        before = [t.score for t in self._trials() if t.feasible and t.number != trial.number]
        return trial.score > max((s for s in before if s is not None), default=float("-inf"))

    def _lesson(self, trial: TrialRow) -> dict[str, Any]:
        """What the sampler learns of a trial: nothing where the configuration was not the cause."""
        if trial.origin is Origin.PROFILE:
            return {}
        deployment = Deployment.from_json(trial.deployment)
        judgement = trial.judgement or {}
        if trial.metrics is not None and not judgement.get("failed"):
            return {
                "value": trial.score if trial.score is not None else 0.0,
                "constraints": self._with_margin(trial.constraints or {}, deployment),
            }
        if not teaches(trial, self._steps(trial)):
            return {"feasible": False}
        over = judgement.get("violation") or 1.0
        loads = level_weights(self._study.space)
        vector = failed_constraints(self._study.gates, loads, over)
        if trial.verdict == HELD:  # no value: what it came to is of another level
            return {
                "feasible": False,
                "constraints": self._with_margin(unjudged_constraints(vector), deployment),
            }
        if trial.verdict == CLEARLY_WORSE:
            return {
                "feasible": False,
                "value": judgement["estimate"],
                "constraints": self._with_margin(unjudged_constraints(vector), deployment),
            }
        if judgement["verdict"] in MEMORY_VERDICTS:
            vector[CONSTRAINT] = over
        return {
            "feasible": False,
            "value": 0.0,
            "constraints": self._with_margin(vector, deployment),
        }

    def _with_margin(self, vector: dict[str, float], deployment: Deployment) -> dict[str, float]:
        """The vector with the expected memory margin, where it says more than what was seen."""
        expected = self._margins.violation(deployment)
        seen = vector.get(CONSTRAINT)
        if seen is not None and seen > 0:
            return vector
        # A margin that is only expected may frighten the sampler away, but it never makes a trial
        # that ran infeasible: it stays at or below 0.
        known = [margin for margin in (expected, seen) if margin is not None]
        if expected is not None and self._margins.on_devices(deployment):
            known = [
                expected
            ]  # a pool that takes all it can get leaves as much free at every point
        # On the host the tighter one counts: what was asked for and not touched yet is not measured.
        return {**vector, CONSTRAINT: min(0.0, max(known, default=0.0))}

    # --- the state -------------------------------------------------------------------------------

    @property
    def _stopped(self) -> bool:
        return self._study.wishes.ending

    def _trials(self) -> list[TrialRow]:
        return self._known.all()

    def spending(self) -> Spending:
        """What the search has spent so far."""
        return self._known.spending(time.monotonic() - self._began - self._beside)

    @property
    def _limits(self) -> dict[str, float]:
        return self._study.wishes.limits(self._study.space.budget)

    def _spent_out(self, leave: int = 0) -> bool:
        """Whether one more trial does not fit into the budget.

        Args:
            leave: For how many trials more there must then still be time.
        """
        return bool(self._obstacles(leave))

    def _obstacles(self, leave: int = 0) -> tuple[str, ...]:
        """The limits that one more trial does not fit into."""
        now = self.spending()
        limits = self._limits
        self._study.voice.say(
            "budget",
            trials=now.trials,
            wall=now.wall,
            engine=now.engine,
            typical=now.typical(),
            limits=limits,
        )
        return now.obstacles(limits, 1, 1 + leave)

    def _is_last(self) -> bool:
        """Whether one more trial fits into the budget, and no second one."""
        return bool(self.spending().obstacles(self._limits, 2, 2))


def told_history(trials: Sequence[TrialRow]) -> list[Told]:
    """What the sampler was told of trials, in the order of their numbers."""
    return [told for trial in trials if (told := _told(trial)) is not None]


def _told(trial: TrialRow, value: float | None = None) -> Told | None:
    """What the sampler was, or is to be, told of a trial; None where it learns nothing.

    Args:
        trial: The trial.
        value: What it came to on a cheaper level, where the sampler learns from that one.
    """
    of_level = value is not None
    value = trial.value if value is None else value
    known = value is not None and trial.assignment is not None and trial.constraints is not None
    if not known or trial.origin in ON_PURPOSE or trial.stage is not Stage.TOLD:
        return None
    return Told(
        trial.assignment or {},
        value or 0.0,
        trial.constraints or {},
        ended_early=trial.verdict == CLEARLY_WORSE and not of_level,
    )


def _to_mend(study: str, trial: TrialRow) -> str:
    """What a person is told who has to mend something before any engine can run."""
    judgement = trial.judgement or {}
    proof = "".join(f": {part['text']}" for part in judgement.get("evidence", ())[:1])
    return (
        f"the study stops at trial {trial.number}, {trial.verdict}: {judgement.get('title', '')}{proof}\n"
        f"{judgement.get('advice', '')}\n"
        f"`tuner show {study} {trial.number}` has the proof; `tuner resume {study}` runs it again "
        "when that is mended"
    )


def _rejection(reasons: list[str]) -> dict[str, Any]:
    return {
        "verdict": REJECTED,
        "title": "forbidden by a rule of the search space",
        "evidence": [{"text": reason} for reason in reasons],
        "advice": "nothing to do: no engine was started",
        "teaches": True,
        "retry": "none",
        "violation": 1.0,
        "failed": True,
    }
