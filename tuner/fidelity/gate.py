"""The gate that lets a proxy order work, once it has earned that on the very stack in hand.

::

    OFF ──predictions──▶ SHADOW ──evidence──▶ ON ──first sign of being wrong──▶ DISABLED
                            ◀──evidence that no longer tells──┘

In SHADOW, the default, predictions are kept beside real values and change nothing. ON, the proxy
orders the queue and defers; it never gives a value, never rejects a point, never names a winner.
DISABLED is for good: a proxy that was wrong once on a stack is not asked again there, and what it
had deferred runs. Where too little is known to show it right it is not wrong: it stands in the SHADOW
again, and may earn its trust anew. A new stack has a new key and begins at OFF.

The gate is a value: every step gives a new one, and all of it goes through JSON.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from tuner.fidelity.assess import Assessment, Limits, assess, noise, tau_interval
from tuner.fidelity.calibrate import Anchor, calibrate, typical_error
from tuner.fidelity.evidence import Closing, GateKey, Mode, Observed, Predicted, Role
from tuner.fidelity.screen import Screen, draw, screen


@dataclass(frozen=True, slots=True)
class Choice:
    """What to run next.

    Attributes:
        point: The point.
        role: Why.
    """

    point: str
    role: Role


class Gate(BaseModel):
    """The state of one proxy on one stack.

    Attributes:
        key: The stack and the proxy.
        limits: What is asked of the proxy.
        mode: How far it is trusted.
        predictions: What it says, by point.
        observations: Real trials, in order.
        deferred: Points that were put off at any time while ON.
        opened: After how many real trials it went ON, the last time.
        closing: Why it is DISABLED.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: GateKey
    limits: Limits = Limits()
    mode: Mode = Mode.OFF
    predictions: Mapping[str, Predicted] = Field(default_factory=dict)
    observations: tuple[Observed, ...] = ()
    deferred: tuple[str, ...] = ()
    opened: int | None = None
    closing: Closing | None = None

    @classmethod
    def resume(cls, text: str | None, key: GateKey) -> Gate:
        """The gate as it was written, or a new one where the stack is another."""
        if text is None:
            return cls(key=key)
        old = cls.model_validate_json(text)
        return old if old.key == key else cls(key=key)

    def predict(self, predictions: Mapping[str, Predicted]) -> Gate:
        """Hear what the proxy says of points.

        It may change its mind on a point until that point has run; then what it said stays said.
        """
        if not predictions:
            return self
        ran = {o.point for o in self.observations}
        fixed = {point: said for point, said in self.predictions.items() if point in ran}
        mode = Mode.SHADOW if self.mode is Mode.OFF else self.mode
        return self._with(mode=mode, predictions={**self.predictions, **predictions, **fixed})

    def foretell(self, predictions: Mapping[str, Predicted]) -> Gate:
        """Hear what the proxy says of all points that wait now, in place of what it said before.

        What it said of points that ran stays said. Those that neither ran nor wait are forgotten:
        what will never be measured holds no place among the best.
        """
        ran = {o.point for o in self.observations}
        fixed = {point: said for point, said in self.predictions.items() if point in ran}
        return self._with(predictions={}).predict({**predictions, **fixed})

    def choose(self, waiting: Sequence[str], *, last: bool = False) -> tuple[Choice, Gate]:
        """What runs next of a queue, and the gate that remembers what was put off.

        Args:
            waiting: At least one point, in the queue's own order.
            last: Whether nothing will run after it: then it is an audit, if one can be made.
        """
        if self.mode is not Mode.ON:
            return Choice(waiting[0], "plain"), self
        parts = self.screen(waiting)
        gate = self._with(
            deferred=tuple(dict.fromkeys((*self.deferred, *parts.deferred))),
        )
        if parts.deferred and (last or self._audit_due()):
            point = draw(parts.deferred, self.key.digest, len(self.observations))
            return Choice(point, "audit"), gate
        if parts.kept:
            return Choice(parts.kept[0], "ordered"), gate
        return Choice(parts.deferred[0], "deferred"), gate

    def screen(self, waiting: Sequence[str]) -> Screen:
        """The queue as the proxy would part it, whatever the mode."""
        anchors, _ = self._anchors()
        seen = calibrate(anchors, self.sigma or 0.0) if anchors else None
        predicted = {
            point: p.value if seen is None else seen.apply(p.layout, p.value)
            for point, p in self.predictions.items()
        }
        layouts = {point: p.layout for point, p in self.predictions.items()}
        valued = {o.point for o in self.observations if o.value is not None}
        failed = {o.point for o in self.observations} - valued
        return screen(
            waiting,
            predicted,
            layouts,
            error=typical_error(anchors, self.sigma or 0.0) if len(anchors) > 1 else 1.0,
            failed=failed,
            limits=self.limits,
        )

    def _audit_due(self) -> bool:
        audits = (n for n, o in enumerate(self.observations, 1) if o.role == "audit")
        last = max((self.opened or 0, *audits))
        return len(self.observations) - last >= self.limits.audit_every - 1

    def record(
        self, point: str, value: float | None, role: Role = "plain", *, below: float | None = None
    ) -> Gate:
        """Learn what a real trial came to, and open or close by it.

        Args:
            point: The point that ran.
            value: Its real value, above 0; None where it has none.
            role: Why it ran, as :meth:`choose` said.
            below: What the value lies below, where the trial was ended early as clearly worse.
        """
        best = self.incumbent
        seen = Observed(point=point, value=value, role=role, below=below)
        gate = self.recall(seen)
        if gate.mode not in {Mode.SHADOW, Mode.ON}:
            return gate
        found = gate.assessment()
        why = gate.sign_of_being_wrong(seen, best, found)
        if why is not None:
            return gate.close(why)
        if gate.mode is Mode.SHADOW:
            opens = {"mode": Mode.ON, "opened": len(gate.observations)}
            return gate.model_copy(update=opens) if found.standing == "earned" else gate
        doubted = found.pairs < self.limits.pairs  # then it is neither right nor wrong
        return gate.model_copy(update={"mode": Mode.SHADOW}) if doubted else gate

    def recall(self, seen: Observed) -> Gate:
        """Take up a real trial that was judged when it was recorded, without judging by it anew."""
        return self._with(observations=(*self.observations, seen))

    def sign_of_being_wrong(
        self, seen: Observed, best: float | None, found: Assessment
    ) -> str | None:
        """Why a proxy must not be trusted any more; None where it may.

        Args:
            seen: The last real trial, which is among the observations already.
            best: The best real value before it.
            found: What the proxy has shown, with that trial.
        """
        late = seen.role in {"audit", "deferred"} or seen.point in self.deferred
        late = late and self.opened is not None
        if late and seen.value is not None and best is not None:
            edge = best * (1 + 2 * (self.sigma or 0.0))
            if seen.value > edge:
                gain = seen.value / best - 1
                return f"{seen.point}, which it had deferred, is {gain:.1%} better than the best"
        if self.mode is not Mode.ON:
            return None
        if self._missed():
            return (
                f"{self.limits.misses} points in a row that it put first were ended early as clearly "
                "worse than the best, and it had said more of each"
            )
        return found.why if found.standing == "wrong" else None

    def _missed(self) -> bool:
        """Whether the last points that it put first all ended early, below what it said of them."""
        anchors, _ = self._anchors()
        first = [
            o for o in self.observations if o.role == "ordered" and o.point in self.predictions
        ]
        last = first[-self.limits.misses :]
        if not anchors or len(last) < self.limits.misses:
            return False
        seen = calibrate(anchors, self.sigma or 0.0)
        said = (self.predictions[o.point] for o in last)
        return all(
            o.below is not None and seen.apply(p.layout, p.value) > o.below
            for o, p in zip(last, said, strict=True)
        )

    def winner_was(self, point: str) -> Gate:
        """Learn which point the study's own repeats found best: it must not be a deferred one."""
        if self.mode in {Mode.SHADOW, Mode.ON} and point in self.deferred:
            return self.close(f"{point}, which it had deferred, was found best")
        return self

    def close(self, why: str) -> Gate:
        """Shut the proxy out for good, on this stack."""
        closing = Closing(why=why, after=len(self.observations))
        return self._with(mode=Mode.DISABLED, closing=closing)

    def assessment(self) -> Assessment:
        """What the proxy has shown so far."""
        anchors, counts = self._anchors()
        valued = {o.point for o in self.observations if o.value is not None}
        nothing = {o.point for o in self.observations} - valued
        # A point that came to nothing covers no layout, and asks for none to be covered.
        layouts = {p.layout for point, p in self.predictions.items() if point not in nothing}
        bounds = {o.point: o.below for o in self.observations if o.point in nothing and o.below}
        ended = [
            Anchor(said.layout, said.value, bound)
            for point, bound in bounds.items()
            if (said := self.predictions.get(point)) is not None
        ]
        return assess(
            anchors, counts, sigma=self.sigma, layouts=layouts, limits=self.limits, ended=ended
        )

    @property
    def sigma(self) -> float | None:
        """Relative deviation of one measurement; None where no point was measured twice."""
        return noise(self._measured())

    @property
    def incumbent(self) -> float | None:
        """The best real value so far."""
        return max((o.value for o in self.observations if o.value is not None), default=None)

    def _measured(self) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        for o in self.observations:
            if o.value is not None:
                found.setdefault(o.point, []).append(o.value)
        return found

    def _anchors(self) -> tuple[list[Anchor], list[int]]:
        """Every point that was predicted and measured, with how often it was measured."""
        anchors, counts = [], []
        for point, values in self._measured().items():
            said = self.predictions.get(point)
            if said is not None:
                mean = _geometric_mean(values)
                anchors.append(Anchor(said.layout, said.value, mean))
                counts.append(len(values))
        return anchors, counts

    def _with(self, **changes: Any) -> Gate:
        return self.model_copy(update=changes)

    def report(self) -> dict[str, Any]:
        """Everything that a reader should know of the proxy, as JSON-ready data."""
        anchors, counts = self._anchors()
        found = self.assessment()
        ran = {o.point for o in self.observations}
        interval = tau_interval(anchors, counts, self.sigma) if found.pairs and self.sigma else None
        return {
            "mode": str(self.mode),
            "key": self.key.model_dump(),
            "limits": asdict(self.limits),
            "assessment": found.as_json(),
            "tau_interval": [interval.low, interval.high] if interval else None,
            "sigma": self.sigma,
            "trials": len(self.observations),
            "audits": sum(o.role == "audit" for o in self.observations),
            "opened_after": self.opened,
            "closed_after": self.closing.after if self.closing else None,
            "closed_because": self.closing.why if self.closing else None,
            "deferred": len(self.deferred),
            "deferred_never_run": sum(point not in ran for point in self.deferred),
        }


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(math.log(v) for v in values) / len(values))
