"""Quality in a trial: the engine is examined before it is measured, and its answers once more after."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tuner.launch.base import Launch
from tuner.load.endpoint import Endpoint
from tuner.load.text import exact_text
from tuner.load.tokens import ServerTokens, TokensUnknown
from tuner.quality.answers import sheet_from_json, sheet_json
from tuner.quality.asking import context_of
from tuner.quality.catalogue import chosen
from tuner.quality.examination import Examination, Examiner, Reference
from tuner.quality.suite import Outcome, ProbeResult
from tuner.spec.deployment import Deployment
from tuner.store.rows import ON_PURPOSE, Event, Origin, TrialRow
from tuner.trial.context import Study
from tuner.trial.counted import COUNTS, miscounted
from tuner.trial.evidence import Ending
from tuner.trial.guarded import LoadGuard
from tuner.trial.outcome import Measured
from tuner.verdict.compare import parse_argv

QUALITY = "quality"
"""The event that keeps what an engine showed."""
REFERENCE = "reference"
"""The event that keeps what the baseline showed, for all trials after it."""

_LONG = 1600
"""Tokens of the long prompt: several blocks of any cache that is in use."""
_PART = 0.6
"""The most of the context that the long prompt may take."""


class Probing:
    """Examines the engines of one study.

    Args:
        study: The study and all that it has at hand.
    """

    def __init__(self, study: Study) -> None:
        self._study = study
        self._long: str | None = None

    def examine(self, trial: TrialRow, endpoint: Endpoint, launch: Launch, ending: Ending) -> None:
        """Ask the engine of a trial everything; what is wrong goes into its ending."""
        study = self._study
        deployment = Deployment.from_json(trial.deployment)
        caching = parse_argv(deployment.argv).get("enable_prefix_caching") is not False
        # What runs again is a deployment whose probes have passed already: its answers are enough.
        probes = (
            {}
            if trial.origin in ON_PURPOSE
            else chosen(
                study.space.quality,
                trained=not deployment.model.startswith("make:"),
                caching=caching,
            )
        )
        reference = self.reference()
        guard = self._guard(launch)
        done: list[bool] = []

        def hear(result: ProbeResult) -> None:
            done.append(result.outcome is Outcome.PASSED)
            study.voice.say(
                "load",
                trial.number,
                phase="probe",
                workload=result.name,
                done=len(done),
                of=len(probes),
                ok=sum(done),
            )

        found = self._examiner(endpoint, guard).examine(
            probes, reference, hear, one_by_one=trial.attempt > 1
        )
        self._keep(trial, found, is_reference=reference is None)
        _note(ending, found)
        _note_guard(ending, guard, cancelled=study.cancelled.is_set())

    def found(self, trial: TrialRow) -> dict[str, Any]:
        """What the engine of a trial showed, as its last examination was kept."""
        events = self._study.ledger.events(self._study.row.id, kinds=(QUALITY,))
        return quality_of(events, trial.number) or {}

    def after(
        self,
        trial: TrialRow,
        measured: Measured,
        endpoint: Endpoint,
        launch: Launch,
        ending: Ending,
    ) -> dict[str, Any] | None:
        """Look once more when the load is over: garbage repeats itself, and wear shows in answers.

        Returns:
            How the answers compare to the baseline's now; None where none are compared.
        """
        if trial.origin is Origin.BASELINE:
            for words in miscounted(ending.counted, None):
                self._study.voice.say("note", trial.number, text=words)
        else:
            found = (*self._repetition(measured), *self._miscounted(ending))
            ending.probes = (*ending.probes, *found)
        reference = self.reference()
        if reference is None or not reference.sheet:
            return None
        guard = self._guard(launch)
        again = self._examiner(endpoint, guard).again(reference)
        _note_guard(ending, guard, cancelled=self._study.cancelled.is_set())
        if again is None:
            return None
        if again.problem is not None:
            ending.answers = f"after the load, {again.problem}"
        return again.as_json()

    def _miscounted(self, ending: Ending) -> tuple[str, ...]:
        first = self._study.ledger.first_of(self._study.row.id, Origin.BASELINE)
        base = None if first is None else first.metrics
        return () if base is None else miscounted(ending.counted, base.get(COUNTS, {}))

    def _repetition(self, measured: Measured) -> list[str]:
        """Workloads whose answers repeat each other far more than the baseline's, in words."""
        limit = self._study.space.quality.repetition
        first = self._study.ledger.first_of(self._study.row.id, Origin.BASELINE)
        base = None if first is None else first.metrics
        if limit == "off" or base is None:
            return []
        found = []
        for name, standing in measured.standings.items():
            now = standing.figures.get("repeated_answer_rate")
            before = base["workloads"][name]["figures"].get("repeated_answer_rate")
            if now is not None and before is not None and now > before + limit:
                found.append(
                    f"workload {name}: {now:.0%} of the answers repeat another one, "
                    f"and {before:.0%} at the baseline"
                )
        return found

    def reference(self) -> Reference | None:
        """What the baseline showed; None while it has not."""
        events = self._study.ledger.events(self._study.row.id, kinds=(REFERENCE,))
        data = next((e.data for e in events), None)
        if data is None:
            return None
        self._long = data["long"]
        return Reference(tuple(_result(r) for r in data["results"]), sheet_from_json(data["sheet"]))

    # --- what it needs ---------------------------------------------------------------------------

    def _guard(self, launch: Launch) -> LoadGuard:
        # A request that hangs alone fails by its own timeout, well before the engine counts as hung.
        stall = 2 * self._study.space.quality.timeout
        return LoadGuard(launch, self._study.cancelled, stall=stall)

    def _examiner(self, endpoint: Endpoint, guard: LoadGuard) -> Examiner:
        quality = self._study.space.quality
        context = context_of(endpoint)
        if self._long is None:
            self._long = _long_text(endpoint, context)
        return Examiner(
            endpoint=endpoint,
            answers=quality.answers,
            timeout=quality.timeout,
            context=context,
            long_text=self._long,
            stop=guard,
            on_reply=guard.progress,
        )

    def _keep(self, trial: TrialRow, found: Examination, *, is_reference: bool) -> None:
        ledger, study = self._study.ledger, self._study.row.id
        ledger.note(study, QUALITY, found.as_json(), trial.number)
        whole = not found.problems and found.non_finite is None
        unasked = any(r.outcome is Outcome.NOT_ASKED for r in found.results)
        if is_reference and trial.origin is Origin.BASELINE and whole and not unasked:
            data = {
                "results": [r.as_json() for r in found.results],
                "sheet": sheet_json(found.sheet),
                "long": self._long,
            }
            ledger.note(study, REFERENCE, data, trial.number)


def quality_of(events: Sequence[Event], number: int) -> dict[str, Any] | None:
    """What the last attempt of a trial showed, by the study's events; None where it never did."""
    found = [e.data for e in events if e.kind == QUALITY and e.number == number]
    return found[-1] if found else None


def _long_text(endpoint: Endpoint, context: int | None) -> str:
    """A text of many tokens; empty where the server cannot count."""
    try:
        with ServerTokens(endpoint) as tokens:
            most = _LONG if context is None else min(_LONG, int(_PART * context))
            return exact_text(tokens, random.Random("long"), most)  # noqa: S311  (a text, no secret)
    except TokensUnknown:
        return ""


def _note(ending: Ending, found: Examination) -> None:
    ending.probes = found.problems
    ending.non_finite = found.non_finite
    if found.agreement is not None:
        ending.answers = found.agreement.problem
    under_way = [r.name for r in found.results if r.outcome is Outcome.NOT_ASKED and r.reason]
    ending.doing = f"it was asked: {', '.join(under_way)}" if under_way else None


def _note_guard(ending: Ending, guard: LoadGuard, *, cancelled: bool) -> None:
    ending.exit = guard.exit
    ending.stalled = guard.stalled
    ending.silence = guard.silence if guard.stalled else None
    ending.deadline = guard.stall if guard.stalled else None
    ending.cancelled = cancelled


def _result(data: dict[str, Any]) -> ProbeResult:
    return ProbeResult(**{**data, "outcome": Outcome(data["outcome"])})
