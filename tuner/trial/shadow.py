"""A proxy beside a study: what it says of trials, what they came to, and the gate that it has to pass.

In the shadow, the default, its predictions stand beside the results and change nothing: no order, no
score, no rejection, no winner. Where the search space lets it act (``search: proxy: on``), its gate
orders the queue and puts points off, once it has earned that in this study. The gate is in the
ledger: a trial's place in it is written together with the trial, and what a trial did to it together
with the prediction that was held against it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tuner.fidelity.evidence import GateKey, Mode, Observed, Predicted, Role
from tuner.fidelity.gate import Gate
from tuner.search.keys import key
from tuner.spec import Assignment, Point, point, resolve
from tuner.spec.deployment import Deployment
from tuner.store.ledger import Said
from tuner.store.rows import Event, TrialRow
from tuner.trial import gatelog
from tuner.trial.climbing import digests
from tuner.trial.context import Study
from tuner.trial.early import CLEARLY_WORSE
from tuner.trial.gatelog import GATE
from tuner.trial.stepproxy import VERSION

EVENT = "proxy"
"""The event that holds a prediction beside the real value."""
MIGRATED = "migrated"
"""The event after which points have other names, in another search space."""


class Proxy(Protocol):
    """What predicts points."""

    @property
    def ready(self) -> bool:
        """Whether it can say anything at all by now; one that cannot is asked again later."""

    def speaks(self, deployment: Deployment) -> bool:
        """Whether there is anything to learn from a deployment."""

    def learn(self, trial: TrialRow) -> None:
        """Learn a trial that was measured."""

    def predict(self, params: Point, deployment: Deployment) -> Predicted | str:
        """What a point should come to, by trials that were learnt; else why nothing can be said."""


@dataclass(slots=True)
class Shadow:
    """Holds a proxy's word beside what trials came to, and asks its gate.

    Attributes:
        study: The study and all that it has at hand.
        proxy: What predicts.
    """

    study: Study
    proxy: Proxy
    _known: set[int] = field(default_factory=set)
    _roles: dict[int, Role] = field(default_factory=dict)
    _said: dict[str, Predicted | str] = field(default_factory=dict)
    _gate: Gate | None = None

    @property
    def gate(self) -> Gate:
        """The gate as it stands; in the shadow, as it would stand."""
        if self._gate is None:
            self._gate = Gate(key=gate_key(self.study))
        return self._gate

    @property
    def acts(self) -> bool:
        """Whether the search space lets the proxy act at all."""
        return self.study.space.search.proxy == "on"

    @property
    def trusted(self) -> bool:
        """Whether the proxy orders the search now."""
        return self.acts and self.gate.mode is Mode.ON

    @property
    def ready(self) -> bool:
        """Whether the proxy can speak already: at the start of a session it may not be able to."""
        return self.proxy.ready

    # --- what the ledger has ---------------------------------------------------------------------

    def restore(self, trials: list[TrialRow]) -> None:
        """Take up what the ledger has of this stack: what was said, what was seen, what the gate did.

        Args:
            trials: The trials that count, in the terms of the search space as it is now.
        """
        if self.study.space.search.proxy == "off":
            return
        ledger, study = self.study.ledger, self.study.row.id
        points = {t.number: key(t.assignment) for t in trials if t.assignment is not None}
        for event in ledger.events(study, kinds=(EVENT, GATE, MIGRATED)):
            own = event.data.get("key") == self.gate.key.digest
            if event.kind == MIGRATED:
                self._gate = gatelog.moved(self.gate)
            elif event.kind == GATE and own:
                self._take_up(event)
            elif event.kind == EVENT and event.number not in self._known:  # the first one stands
                self._known.add(event.number or 0)
                # Else of another stack: the engine, the load or the score was another one.
                if own and event.number in points:
                    self._recall(event, points[event.number])
        self._heed_others()

    def _take_up(self, event: Event) -> None:
        role = gatelog.role_of(event)
        if role is not None and event.number is not None:
            self._roles[event.number] = role
        self._gate = gatelog.taken_up(self.gate, event)

    def _recall(self, event: Event, name: str) -> None:
        data, number = event.data, event.number or 0
        said = None if data["said"] is None else Predicted(**data["said"])
        seen = Observed(
            point=name, value=data["real"], role=data.get("role", "plain"), below=data.get("below")
        )
        self._gate = self._heard(name, said).recall(seen)
        if data.get("learnt", seen.value is not None):
            self.proxy.learn(self.study.ledger.trial(event.study, number))

    def _heard(self, name: str, said: Predicted | None) -> Gate:
        """The gate that has heard a prediction; what is not predicted is no evidence."""
        return self.gate if said is None else self.gate.predict({name: said})

    def _heed_others(self) -> None:
        """Stay closed where another study of this folder has found the proxy wrong on this stack."""
        if not self.acts or self.gate.mode is Mode.DISABLED:
            return
        for event in self.study.ledger.events(kinds=(GATE,)):
            same = event.data.get("key") == self.gate.key.digest
            if same and event.data["what"] == gatelog.CLOSED:
                self._close(f"it was wrong on this stack before: {event.data['why']}")
                return

    def _close(self, why: str) -> None:
        self._gate = self.gate.close(why)
        kind, data = gatelog.closed(self.gate, acts=self.acts)
        self.study.ledger.note(self.study.row.id, kind, data)
        self.study.voice.say(kind, **data)

    # --- before a trial --------------------------------------------------------------------------

    def foretell(self, waiting: Mapping[str, Assignment]) -> None:
        """Hear what the proxy says of all points that wait.

        Of a layout in which nothing was measured beside a prediction it is not believed: there
        nothing is put off. It takes its time with many points, and ends where work is to end: then
        nothing was heard.
        """
        gate = self.gate
        valued = {seen.point for seen in gate.observations if seen.value is not None}
        layouts = {said.layout for name, said in gate.predictions.items() if name in valued}
        found = {}
        for name, assignment in waiting.items():
            if self.study.wishes.ending:
                return
            if name not in self._said:
                self._said[name] = self._predicted(assignment)
            said = self._said[name]
            if isinstance(said, Predicted) and said.layout in layouts:
                found[name] = said
        self._gate = gate.foretell(found)

    def _predicted(self, assignment: Assignment) -> Predicted | str:
        params = point(self.study.space, assignment, self.study.context)
        deployment = resolve(self.study.space, params, self.study.context)
        if not self.proxy.speaks(deployment):
            return "its engine says nothing of its steps"
        return self.proxy.predict(params, deployment)

    def keeps(self, waiting: Sequence[str]) -> bool:
        """Whether there is a point that waits and is not put off."""
        return bool(self.gate.screen(waiting).kept)

    def pick(self, waiting: Sequence[str], *, last: bool) -> tuple[str, list[Said]]:
        """What runs next of points that wait, and what becomes true when it gets its trial.

        Args:
            waiting: At least one point, in the queue's own order.
            last: Whether nothing will run after it.
        """
        before = self.gate
        choice, self._gate = before.choose(waiting, last=last)
        parts = before.screen(waiting)
        why = gatelog.reason(choice.point, choice.role, before, parts)
        return choice.point, gatelog.handed_out(choice, why, before, self._gate)

    def handed(self, number: int, beside: Sequence[Said]) -> None:
        """Hear that a point that was picked has its trial."""
        for kind, data in beside:
            role = gatelog.ROLES.get(data["what"])
            if role is not None:
                self._roles[number] = role
            self.study.voice.say(kind, number, **data)

    # --- after a trial ---------------------------------------------------------------------------

    def observe(self, trial: TrialRow) -> None:
        """Hear of a trial that is over, before it is told: hold it against its prediction, then learn it."""
        wanted = trial.launched and trial.block is None and trial.assignment is not None
        if not wanted or trial.number in self._known or self.study.space.search.proxy == "off":
            return
        deployment = Deployment.from_json(trial.deployment)
        role = self._roles.get(trial.number, "plain")
        learnt = trial.verdict == "healthy" and (trial.score or 0) > 0
        # What cannot be deployed is no value to reach: its steps are learnt, and that is all.
        real = trial.score if learnt and trial.feasible else None
        # One that was ended early is known to be below something. One that failed says nothing; it
        # counts where the gate chose it, for the gate has had its turn.
        below = (trial.judgement or {}).get("bound") if trial.verdict == CLEARLY_WORSE else None
        shows = learnt or below is not None
        if not self.proxy.speaks(deployment) or (not shows and role == "plain"):
            return
        name = key(trial.assignment or {})
        word = self._word(trial, name, deployment)
        said, abstained = (None, word) if isinstance(word, str) else (word, None)
        data = {
            "point": name,
            "said": None if said is None else said.model_dump(),
            "abstained": abstained,
            "real": real,
            "learnt": learnt,
            "below": below,
            "role": role,
            "key": self.gate.key.digest,
        }
        before = self._heard(name, said)
        after = _renamed(before.record(name, real, role, below=below), name, trial.number)
        beside = gatelog.changed(before, after, acts=self.acts)
        self.study.ledger.note(self.study.row.id, EVENT, data, trial.number, beside)
        self._known.add(trial.number)
        self._gate = after
        for kind, each in beside:
            self.study.voice.say(kind, trial.number, **each)
        if learnt:
            self.proxy.learn(trial)
        self._said.clear()

    def _word(self, trial: TrialRow, name: str, deployment: Deployment) -> Predicted | str:
        """What the proxy said of a trial's point beforehand: just what was acted upon, if it was."""
        if any(seen.point == name for seen in self.gate.observations):
            return "it ran before: this would be no prediction"
        said = self._said.get(name)
        return self.proxy.predict(trial.params, deployment) if said is None else said

    # --- at the end ------------------------------------------------------------------------------

    def conclude(self, winner: TrialRow) -> None:
        """Hear which trial the study found best, and say what the proxy's word was worth.

        Nothing is said where it had none.
        """
        if not self._known:
            return
        name = key(winner.assignment or {})
        after = _renamed(self.gate.winner_was(name), name, winner.number)
        if after.closing is not None and after.mode is not self.gate.mode:
            self._close(after.closing.why)
        found = {**self.gate.report(), "acts": self.acts}
        if not self.acts:
            found["would_be"], found["mode"] = found["mode"], str(Mode.SHADOW)
        self.study.voice.say("proxy_report", **found)
        self.study.voice.say("note", text=in_words(found))


def _renamed(gate: Gate, name: str, number: int) -> Gate:
    """The gate with a trial's number in its reason, where it knows the point by its key alone."""
    if gate.closing is None:
        return gate
    why = gate.closing.why.replace(name, f"trial {number}")
    return gate.model_copy(update={"closing": gate.closing.model_copy(update={"why": why})})


def in_words(found: dict[str, Any]) -> str:
    """A gate's report in a sentence."""
    shown, acts = found["assessment"], found.get("acts", False)
    text = (
        f"the step simulator{'' if acts else ', in the shadow,'} predicted {shown['points']} measured "
        f"points: tau-b {shown['tau']:.2f} over {shown['pairs']} informative pairs"
    )
    mode = found["mode"] if acts else found["would_be"]
    if acts and found["opened_after"] is not None:
        text += (
            f"; it ordered the search after {found['opened_after']} trials and put off "
            f"{found['deferred']} points, {found['deferred_never_run']} of which never ran; "
            f"{found['audits']} audits"
        )
    if mode == Mode.DISABLED:
        return (
            f"{text}; it {'was' if acts else 'would have been'} shut out: {found['closed_because']}"
        )
    if mode == Mode.ON:
        after = f"would have been trusted after {found['opened_after']} trials"
        return f"{text}; it {'was trusted to the end' if acts else after}"
    if acts and found["opened_after"] is not None:
        return f"{text}; it was not trusted to the end: {shown['why']}"
    return f"{text}; it {'was not' if acts else 'would not have been'} trusted: {shown['why']}"


def gate_key(study: Study) -> GateKey:
    """The stack of a study: another engine, model, device, driver, setting, load or score is another key.

    An engine is known by what it is made of and not by where it lies or how long its building took:
    the same one, built again, is the same stack.
    """
    space = study.space
    variants = sorted(
        f"{p.env}={choice}"
        for p in space.parameters.values()
        if p.env is not None and p.env.startswith("ENGINEX_")
        for choice in p.choices or ()
    )
    engines = {
        name: [engine.digest, engine.fingerprint.as_json()]
        for name, engine in study.engines.items()
    }
    devices = [f"{device.name} {device.driver or ''}".strip() for device in study.hardware.devices]
    started = space.engine.model_dump(mode="json", include={"launch", "flags", "env"})
    files = {name: file.digest for name, file in space.files.items()}
    return GateKey(
        proxy=VERSION,
        engine=_digest(engines),
        variants=" ".join(variants),
        model=" ".join(sorted(study.models)),
        device=" ".join(devices) or "cpu",
        workload=digests(space)["real"],
        score=_digest(space.score.model_dump(mode="json")),
        settings=_digest([started, files]),
    )


def _digest(data: Any) -> str:
    text = json.dumps(data, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
