"""What a person wants to see of a running study, kept up to date by what happens."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tuner.quantity import format_bytes
from tuner.spec import SearchSpace
from tuner.trial.events import Happening
from tuner.trial.gatelog import CLOSED, OPENED, in_line
from tuner.trial.wishes import Wishes

STAGES = ("starting", "ready", "probed", "warmed", "measured", "stopping", "verified", "told")
_NOTES = 5


@dataclass(slots=True)
class TrialView:
    """The trial in hand.

    Attributes:
        entered: When each stage was entered, seconds since 1970.
        engine: Where in its start the engine is.
        load: Requests done, of how many, and which phase they belong to.
    """

    number: int
    origin: str
    params: dict[str, Any]
    entered: dict[str, float] = field(default_factory=dict)
    engine: str = ""
    load: dict[str, Any] = field(default_factory=dict)

    @property
    def stage(self) -> str:
        """The stage it is in."""
        return next(reversed(self.entered), "planned")


@dataclass(slots=True)
class StudyView:
    """A running study.

    Attributes:
        name: The study.
        budget: What the search space allows, by kind.
        baseline: The baseline's point, to show others by their difference from it.
        trial: The trial in hand.
        build: The last word of a build.
        scores: Scores of feasible trials in the order in which they came.
        best: The best of them: trial, score and margins of its gates.
        verdicts: How many trials ended with which verdict.
        spent: What is spent, by kind.
        finals: Starts that are left of the finalists' repeats; None before them.
        round: Starts of their first round; a later one has no more.
        sample: How host, engine and devices do, while a trial runs.
        notes: The last words that are worth keeping in sight, the newest at the end.
        proxy: What a trusted proxy did last. It does something at every trial, so it has a line of its own:
            among the notes it would push out all the others.
    """

    name: str
    budget: dict[str, float] = field(default_factory=dict)
    began: float = field(default_factory=time.time)
    baseline: dict[str, Any] = field(default_factory=dict)
    trial: TrialView | None = None
    build: dict[str, Any] = field(default_factory=dict)
    scores: list[float] = field(default_factory=list)
    best: dict[str, Any] = field(default_factory=dict)
    verdicts: Counter[str] = field(default_factory=Counter)
    spent: dict[str, float] = field(default_factory=dict)
    finals: int | None = None
    round: int = 0
    sample: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    proxy: str = ""

    def hear(self, what: Happening) -> None:
        """Take in one happening."""
        handler = getattr(self, f"_on_{what.kind}", None)
        if handler is not None:
            handler(what)

    def _on_plan(self, what: Happening) -> None:
        self.build = {}
        self.trial = TrialView(what.number or 0, what.data["origin"], what.data["params"])
        if what.data["origin"] == "baseline":
            self.baseline = what.data["params"]
        if what.data["origin"] == "repeat" and self.finals == 0:
            self.finals = self.round

    def _on_stage(self, what: Happening) -> None:
        data = what.data
        if data["stage"] == "starting" and "params" in data:
            self.trial = TrialView(what.number or 0, data["origin"], data["params"])
        if self.trial is None or what.number != self.trial.number:
            return
        self.trial.entered[what.data["stage"]] = what.at
        self.trial.load = {}

    def _on_engine(self, what: Happening) -> None:
        if self.trial is not None:
            self.trial.engine = what.data["stage"]

    def _on_load(self, what: Happening) -> None:
        if self.trial is not None:
            self.trial.load = what.data

    def _on_build(self, what: Happening) -> None:
        self.build = what.data

    def _on_sample(self, what: Happening) -> None:
        self.sample = what.data

    def _on_told(self, what: Happening) -> None:
        self.sample = {}  # nothing is sampled between two trials
        self.verdicts[what.data["verdict"]] += 1
        score = what.data["score"]
        if what.data["feasible"] and score is not None:
            self.scores.append(score)
            if not self.best or score > self.best["score"]:
                self.best = {
                    "number": what.number,
                    "score": score,
                    "margins": what.data.get("margins", {}),
                }
        if self.finals is not None and self.trial is not None and self.trial.origin == "repeat":
            self.finals = max(0, self.finals - 1)

    def _on_budget(self, what: Happening) -> None:
        self.spent = what.data

    def _on_finalists(self, what: Happening) -> None:
        self.finals = self.round = what.data["starts"]

    def _on_note(self, what: Happening) -> None:
        self._keep(what.data["text"])

    def _on_gate(self, what: Happening) -> None:
        text = in_line(what.number, what.data)
        if what.data["what"] in {OPENED, CLOSED}:
            self.proxy = ""
            self._keep(text)
        else:
            self.proxy = text

    def _on_quarantine(self, what: Happening) -> None:
        self._keep(quarantine_of(what.data))

    def _keep(self, text: str) -> None:
        self.notes = [*self.notes[1 - _NOTES :], text]

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the end, from measured trial times; None while nothing was measured."""
        typical = self.spent.get("typical")
        if not typical:
            return None
        if self.finals is not None:
            return self.finals * typical
        left = [
            (self.budget["trials"] - self.spent["trials"]) * typical
            if "trials" in self.budget
            else None,
            self.budget["wall"] - self.spent["wall"] if "wall" in self.budget else None,
            self.budget["engine"] - self.spent["engine"] if "engine" in self.budget else None,
        ]
        return (
            max(0.0, min(x for x in left if x is not None))
            + self.budget.get("repeats", 0) * typical
        )

    def difference(self, params: dict[str, Any]) -> str:
        """A point in the words of how it differs from the baseline."""
        changed = [
            f"{k}={say(v)}"
            for k, v in params.items()
            if self.baseline.get(k) != v or k not in self.baseline
        ]
        gone = [f"no {k}" for k in self.baseline if k not in params]
        return " ".join(changed + gone) or "as the baseline"


def limits(space: SearchSpace, wishes: Wishes) -> dict[str, float]:
    """What a study may spend, by kind, and how many repeats follow the search at least.

    Args:
        space: The search space.
        wishes: Limits that hold in place of the space's own.
    """
    repeats = space.search.finalists.least_starts
    return {**wishes.limits(space.budget), "repeats": float(repeats)}


def machine_of(sample: dict[str, Any]) -> list[str]:
    """How the host, the engine and each device do, in words; what is not known is left out.

    Args:
        sample: What the event ``sample`` tells.
    """
    parts = []
    host, tree, devices = sample.get("host") or {}, sample.get("tree"), sample.get("devices")
    if host.get("cpu") is not None:
        parts.append(f"host {host['cpu']:.0f} % busy")
    if tree:
        parts.append(f"engine {format_bytes(tree['pss'] or tree['rss'])}")
    if devices is None:
        parts.append("devices cannot be read")
    return parts + [_device(device) for device in devices or ()]


def _device(device: dict[str, Any]) -> str:
    name = f"device {device['index']}"
    used, total, busy = device["memory_used"], device["memory_total"], device["utilization"]
    said = [] if busy is None else [f"{busy:.0f} % busy"]
    if used is not None:
        said.append(format_bytes(used) + ("" if total is None else f" of {format_bytes(total)}"))
    return f"{name} {', '.join(said)}" if said else f"{name} cannot be read"


def quarantine_of(data: dict[str, Any]) -> str:
    """What was put in quarantine, and why, in words."""
    device = f"{data['device']}: " if data.get("device") else ""
    return f"in quarantine: {device}{data['reason']}"


def say(value: Any) -> str:
    """A parameter's value for people."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    return "none" if value is None else str(value)
