"""Whole studies, without engines, in which a proxy's gate may act."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.trial.climbs import Runner, Trials, study_of, truth
from tests.trial.proxies import Fake, Says, acting_space
from tuner.fidelity.gate import Gate
from tuner.store.ledger import Ledger
from tuner.store.rows import Event, TrialRow
from tuner.trial.gatelog import GATE
from tuner.trial.shadow import Shadow
from tuner.trial.wishes import Wishes


@dataclass
class Ran:
    """A study that ran to its end, or for as long as it was let."""

    trials: list[TrialRow]
    gate: Gate
    events: list[Event]
    winner: Mapping[str, Any] | None

    @property
    def searched(self) -> list[TrialRow]:
        return [t for t in self.trials if t.repeats is None]

    def did(self, what: str) -> list[Event]:
        return [e for e in self.events if e.kind == GATE and e.data["what"] == what]

    @property
    def put_off(self) -> list[str]:
        return [point for e in self.did("deferred") for point in e.data["points"]]

    def when(self, params: Mapping[str, Any]) -> int:
        """How many points had run when this one had."""
        return [t.params for t in self.searched].index(dict(params)) + 1


def run(
    folder: Path,
    says: Says,
    *,
    wishes: Wishes | None = None,
    fails: Callable[[Mapping[str, Any]], bool] = lambda _: False,
    sigma: float = 0.001,
    **asked: Any,
) -> Ran:
    """Work on a study until it is decided.

    Args:
        folder: Its state folder.
        says: What the proxy says.
        wishes: What is wished of it from outside.
        fails: Which points come to nothing.
        sigma: The noise of a measurement.
        **asked: What the search space says (see :func:`tests.trial.proxies.acting_space`).
    """
    folder.mkdir(exist_ok=True)
    with Ledger(folder, write=True) as ledger:
        own = study_of(ledger, acting_space(folder, **{"most": 40, **asked}), wishes)
        shadow = Shadow(own, Fake(says))
        decision = Runner(Trials(own, truth, sigma=sigma, fails=fails), shadow).run()
        trials = ledger.trials(own.row.id)
        winner = None if decision is None else ledger.trial(own.row.id, decision.winner).params
        return Ran(trials, shadow.gate, ledger.events(own.row.id), winner)
