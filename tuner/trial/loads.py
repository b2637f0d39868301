"""The loads of a trial: a probe, a warm-up and the measurement, each guarded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tuner.launch.base import Launch
from tuner.load.endpoint import Endpoint
from tuner.load.motion import Motion
from tuner.load.plan import Closed, Message, Plan, Session, Turn
from tuner.load.record import Record
from tuner.load.run import LoadResult, run_load
from tuner.load.salt import salt_of
from tuner.load.store import write_records
from tuner.load.tokens import ServerTokens
from tuner.load.workloads.declared import Prepared, prepare
from tuner.score.measure import measure
from tuner.score.rank import Standing, stand
from tuner.spec.levels import REAL, Level
from tuner.store.rows import Origin, TrialRow
from tuner.trial.climbing import EVENT, Came, Climbing
from tuner.trial.context import Study
from tuner.trial.counted import counted_again
from tuner.trial.counters import work_of
from tuner.trial.early import EarlyWatch, best_so_far, reference_of
from tuner.trial.evidence import Ending
from tuner.trial.guarded import EitherFlag, LoadGuard
from tuner.trial.levelload import LevelLoad
from tuner.trial.outcome import Measured, level_weights
from tuner.trial.repeats import study_noise
from tuner.trial.settled import SettledWatch

_PROBE_TIMEOUT = 120.0
_FIRST = frozenset({"probe", "warm"})
_SEARCHED = frozenset({Origin.FIRST, Origin.SEARCH})


@dataclass(frozen=True, slots=True)
class _Sent:
    """One load: its phase and name in files and for those who watch, and what may end it."""

    phase: str
    name: str
    plan: Plan
    settled: SettledWatch | None = None


class Loads:
    """Sends a study's workloads to the engine of one trial after another.

    Args:
        study: The study; its plans are built when the first engine can count tokens.
    """

    def __init__(self, study: Study) -> None:
        self._study = study
        self._climbing = Climbing(study.ledger, study.row.id, study.space)

    def plans(self, endpoint: Endpoint) -> dict[str, Prepared]:
        """The warm-up and the levels of each workload; the same for all trials of the study."""
        study = self._study
        if not study.plans:
            folder = study.space.source.folder
            with ServerTokens(endpoint) as tokens:
                study.plans = {
                    load.name: prepare(load.name, load.workload, tokens=tokens, folder=folder)
                    for load in study.space.loads
                }
        return study.plans

    def probe(self, trial: TrialRow, endpoint: Endpoint, launch: Launch, ending: Ending) -> None:
        """Ask one streamed chat: an engine that cannot answer it has no business under load."""
        chat = Turn((Message("user", "Say something."),), max_tokens=4)
        plan = Plan("probe", 0, (Session((chat,)),), Closed(1), request_timeout_s=_PROBE_TIMEOUT)
        result = self._send(trial, _Sent("probe", "chat", plan), endpoint, launch, ending)
        answer = result.records[0]
        if not answer.ok and not ending.failed:
            ending.broken = answer

    def warm(self, trial: TrialRow, endpoint: Endpoint, launch: Launch, ending: Ending) -> None:
        """Send load of each workload's own shape that is not counted."""
        for name, prepared in self.plans(endpoint).items():
            self._send(trial, _Sent("warm", name, prepared.warm_up), endpoint, launch, ending)
            if ending.failed:
                return

    def measure(
        self, trial: TrialRow, endpoint: Endpoint, launch: Launch, ending: Ending
    ) -> Measured | None:
        """Send the workloads one after the other, those of cheaper levels first.

        Returns:
            What the workloads came to; None when the engine did not live through them, or when a
            cheaper level has shown that they need not be sent.
        """
        levels = self._climbing.levels(trial)
        if not self._climb(trial, levels, endpoint, launch, ending):
            return None
        standings: dict[str, Standing] = {}
        seconds, objective = 0.0, self._study.objective
        for prepared in self.plans(endpoint).values():
            for plan in prepared.levels:
                sent = _Sent("measure", plan.workload, plan)
                result = self._send(trial, sent, endpoint, launch, ending)
                if ending.failed:
                    return None
                if (counts := counted_again(plan, result, endpoint)) is not None:
                    ending.counted[plan.workload] = counts
                found = measure(
                    result.records,
                    wall_s=result.wall_s,
                    since=plan.since,
                    limits=objective.limits,
                )
                seconds += result.wall_s
                standings[plan.workload] = stand(
                    found, self._study.gates, self._study.weights, objective=objective.leading
                )
        measured = Measured(standings, level_weights(self._study.space), objective)
        if self._climbing.any and trial.block is None and trial.origin is not Origin.PROFILE:
            self._tell_level(trial, REAL, Came.of(measured), seconds)
        return measured

    # --- cheaper levels --------------------------------------------------------------------------

    def _climb(
        self,
        trial: TrialRow,
        levels: Sequence[str],
        endpoint: Endpoint,
        launch: Launch,
        ending: Ending,
    ) -> bool:
        """Measure a trial on cheaper levels; whether it goes on to the next."""
        found: dict[str, Came] = {}
        for level in self._study.space.levels:
            if level.name not in levels:
                continue
            on = LevelLoad(
                self._study.gates, self._study.weights, level.until_settled, self._study.objective
            )
            for prepared in self._level_plans(level, endpoint).values():
                for plan in prepared.levels:
                    watch = on.watch(plan)
                    sent = _Sent(f"level-{level.name}", plan.workload, plan, watch)
                    result = self._send(trial, sent, endpoint, launch, ending)
                    if ending.failed:
                        return False
                    on.take(result, watch)
            measured = on.measured(self._study.space.loads_on(level))
            found[level.name] = Came.of(measured)
            ending.levels[level.name] = on.as_json(measured)
            self._tell_level(trial, level.name, found[level.name], on.seconds)
            ending.held = self._climbing.held(trial, found)
            if ending.held is not None:
                return False
        return True

    def _tell_level(self, trial: TrialRow, level: str, came: Came, seconds: float) -> None:
        said = self._climbing.said(trial, level, came, seconds)
        self._study.voice.say(EVENT, trial.number, **said)

    def _level_plans(self, level: Level, endpoint: Endpoint) -> dict[str, Prepared]:
        """The loads of a cheaper level; the same for all trials of the study."""
        known = self._study.level_plans
        if level.name not in known:
            folder = self._study.space.source.folder
            with ServerTokens(endpoint) as tokens:
                known[level.name] = {
                    load.name: prepare(load.name, load.workload, tokens=tokens, folder=folder)
                    for load in self._study.space.loads_on(level)
                }
        return known[level.name]

    # --- one load --------------------------------------------------------------------------------

    def _send(
        self, trial: TrialRow, sent: _Sent, endpoint: Endpoint, launch: Launch, ending: Ending
    ) -> LoadResult:
        phase, name, plan, settled = sent.phase, sent.name, sent.plan, sent.settled
        early = self._early(trial, name, plan) if phase == "measure" else None
        motion = Motion()
        guard = LoadGuard(
            launch,
            self._study.cancelled,
            stall=self._stall(phase, plan),
            motion=motion,
            work=partial(work_of, endpoint.url),
        )
        done: list[bool] = []

        def hear(record: Record) -> None:
            if early is not None:
                early.take(record)
            if settled is not None:
                settled.take(record)
            done.append(record.ok)
            self._study.voice.say(
                "load",
                trial.number,
                phase=phase,
                workload=name,
                done=len(done),
                of=plan.requests,
                ok=sum(done),
            )

        wish = early or settled
        stop = guard if wish is None else EitherFlag(guard, wish)
        result = run_load(
            plan,
            endpoint,
            salt=self._salt(trial, phase),
            on_record=hear,
            stop=stop,
            motion=motion,
        )
        folder = self._study.trial_folder(trial.number, trial.attempt)
        write_records(folder / f"{phase}-{name}.jsonl", result.records)
        ending.exit = guard.exit
        ending.stalled = guard.stalled
        ending.silence = guard.silence if guard.stalled else None
        ending.deadline = guard.stall if guard.stalled else None
        ending.cancelled = self._study.cancelled.is_set()
        if early is not None and not ending.failed:
            ending.worse = early.worse
        return result

    def _stall(self, phase: str, plan: Plan) -> float:
        """How long nothing may come: less than a request's own time, so that the hang is seen first.

        A first load may compile what it meets for the first time, so it is given most of that time.
        """
        if phase in _FIRST:
            return 0.9 * plan.request_timeout_s
        return min(self._study.space.engine.deadlines.tokens, plan.request_timeout_s / 2)

    def _early(self, trial: TrialRow, workload: str, plan: Plan) -> EarlyWatch | None:
        """Watches a load of the search for being clearly worse; None where nothing may be said.

        With several workloads one of them does not decide. Repeats are measured to their end, and so
        are the trials that levels are held against.
        """
        study = self._study
        search = study.space.search
        if (
            not search.stop_early
            or not study.objective.usual  # its test compares what weighs in the weighted score
            or len(level_weights(study.space)) > 1
            or trial.origin not in _SEARCHED
            or self._climbing.is_anchor(trial)
        ):
            return None
        trials = study.ledger.trials(study.row.id, light=True)
        noise, best = study_noise(trials), best_so_far(trials)
        if noise is None or best is None:
            return None
        folder = study.trial_folder(best.number, best.attempt)
        reference = reference_of(best, folder / f"measure-{workload}.jsonl", plan.since)
        return None if reference is None else EarlyWatch(reference, noise, study.weights)

    def _salt(self, trial: TrialRow, phase: str) -> str:
        """Fresh for each trial; repeats of one block share theirs, so that a pair is asked the same."""
        if trial.block is not None:
            return salt_of(self._study.row.fingerprint, phase, "block", trial.block)
        return salt_of(self._study.row.fingerprint, phase, trial.number, trial.attempt)
