"""A proxy in the shadow: its predictions stand beside results, and what they would have been worth is said.

It changes nothing: no order, no score, no rejection, no winner. What the gate would have done with
it, when it would have trusted it and when it would have closed, is part of what is said.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, Protocol

from tuner.fidelity.evidence import GateKey, Mode, Predicted
from tuner.fidelity.gate import Gate
from tuner.search.sampler import key
from tuner.store.rows import TrialRow
from tuner.trial.climbing import digests
from tuner.trial.context import Study
from tuner.trial.stepproxy import VERSION

EVENT = "proxy"
"""The event that holds a prediction beside the real value."""


class Proxy(Protocol):
    """What predicts trials."""

    def speaks(self, trial: TrialRow) -> bool:
        """Whether there is anything to learn from a trial."""

    def learn(self, trial: TrialRow) -> None:
        """Learn a trial that was measured."""

    def predict(self, trial: TrialRow) -> Predicted | str:
        """What a trial should come to, by those that were learnt; else why nothing can be said."""


@dataclass(slots=True)
class Shadow:
    """Holds a proxy's word beside what trials came to.

    Attributes:
        study: The study and all that it has at hand.
        proxy: What predicts.
    """

    study: Study
    proxy: Proxy
    _known: set[int] = field(default_factory=set)
    _gate: Gate | None = None

    def restore(self, trials: list[TrialRow]) -> None:
        """Learn what the ledger has: what was said, and the trials that the proxy learns from."""
        for event in self.study.ledger.events(self.study.row.id, kinds=(EVENT,)):
            if event.number is not None and event.number not in self._known:
                self._known.add(event.number)
                self._take(event.data)
        for light in trials:
            if light.number in self._known:
                self.proxy.learn(self.study.ledger.trial(light.study, light.number))

    def observe(self, trial: TrialRow) -> None:
        """Hear of a trial that is over, before it is told: predict it by earlier ones, then learn it."""
        wanted = trial.launched and trial.block is None and trial.assignment is not None
        if not wanted or trial.number in self._known or not self.proxy.speaks(trial):
            return
        if trial.verdict != "healthy" or not trial.score or trial.score <= 0:
            return  # ended early or failed: it has no real value to stand beside
        point = key(trial.assignment or {})
        said = self._said(trial, point)
        data = {
            "point": point,
            "said": None if isinstance(said, str) else said.model_dump(),
            "abstained": said if isinstance(said, str) else None,
            "real": trial.score,
        }
        self.study.ledger.note(self.study.row.id, EVENT, data, trial.number)
        self._known.add(trial.number)
        self._take(data)
        self.proxy.learn(trial)

    def _said(self, trial: TrialRow, point: str) -> Predicted | str:
        if any(seen.point == point for seen in self.gate.observations):
            return "it ran before: this would be no prediction"
        return self.proxy.predict(trial)

    def _take(self, data: dict[str, Any]) -> None:
        gate = self.gate
        if data["said"] is not None:
            gate = gate.predict({data["point"]: Predicted(**data["said"])})
        # What is not predicted is no evidence; and nothing that the proxy says is acted upon.
        self._gate = gate.record(data["point"], data["real"])

    @property
    def gate(self) -> Gate:
        """The gate as it would stand."""
        if self._gate is None:
            self._gate = Gate(key=gate_key(self.study))
        return self._gate

    def say(self) -> None:
        """Say what the proxy's word was worth; nothing where it had none."""
        if not self._known:
            return
        found = self.gate.report()
        found["would_be"], found["mode"] = found["mode"], str(Mode.SHADOW)
        self.study.voice.say("proxy_report", **found)
        self.study.voice.say("note", text=in_words(found))


def in_words(found: dict[str, Any]) -> str:
    """A gate's report in a sentence."""
    shown = found["assessment"]
    text = (
        f"the step simulator, in the shadow, predicted {shown['points']} measured points: tau-b "
        f"{shown['tau']:.2f} over {shown['pairs']} informative pairs"
    )
    if found["would_be"] == Mode.DISABLED:
        return f"{text}; it would have been shut out: {found['closed_because']}"
    if found["would_be"] == Mode.ON:
        return f"{text}; it would have been trusted after {found['opened_after']} trials"
    return f"{text}; it would not have been trusted: {shown['why']}"


def gate_key(study: Study) -> GateKey:
    """The stack of a study: another engine, model, device, load or score is another key."""
    space = study.space
    variants = sorted(
        f"{p.env}={choice}"
        for p in space.parameters.values()
        if p.env is not None and p.env.startswith("ENGINEX_")
        for choice in p.choices or ()
    )
    engines = {name: engine.as_json() for name, engine in study.engines.items()}
    devices = [device.name for device in study.hardware.devices]
    return GateKey(
        proxy=VERSION,
        engine=_digest(engines),
        variants=" ".join(variants),
        model=" ".join(sorted(study.models)),
        device=" ".join(devices) or "cpu",
        workload=digests(space)["real"],
        score=_digest(space.score.model_dump(mode="json")),
    )


def _digest(data: Any) -> str:
    text = json.dumps(data, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
