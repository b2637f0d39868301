"""Whole studies that the step simulator itself orders, ended and gone on with: no engine, real step logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.trial import climbs
from tests.trial.climbs import Runner, Trials, study_of
from tests.trial.proxies import acting_space
from tests.trial.test_stepproxy import TURN, ran, say, steps
from tuner.fidelity.evidence import Mode, Predicted
from tuner.launch.base import LOG_NAME
from tuner.load.plan import Closed, Plan, Session
from tuner.load.workloads.declared import Prepared
from tuner.score.official import PUBLISHED
from tuner.search.keys import key
from tuner.store.ledger import Ledger
from tuner.store.rows import TrialRow
from tuner.trial.gatelog import GATE
from tuner.trial.lengths import LENGTHS
from tuner.trial.margins import Margins
from tuner.trial.shadow import Shadow
from tuner.trial.stepproxy import StepProxy
from tuner.trial.study import StudyRunner

pytestmark = pytest.mark.slow

LOGS = {"native": steps(1e-4, 0.006, 32, 20), "loop": steps(1e-4, 0.01, 32, 20)}
WIDE = Plan("main", 0, tuple(Session((TURN,)) for _ in range(48)), Closed(32))
"""With it, each value of the space's parameters makes a difference."""
PLANS = {"main": Prepared(WIDE, (WIDE,))}
Truth = Callable[[Mapping[str, Any]], float]


class Logged(Trials):
    """Trials whose engines log their steps; plans are there once one of this session is up."""

    def run(self, trial: TrialRow) -> TrialRow:
        study = self.study
        study.plans = PLANS
        study.ledger.note(study.row.id, "readback", {"kv_tokens": 100_000}, trial.number)
        folder = study.trial_folder(trial.number, trial.attempt + 1)
        (folder / LOG_NAME).write_text(LOGS[trial.params["moe"]])
        return super().run(trial)


@pytest.fixture
def truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Truth:
    """What points come to: what their steps say."""
    folder = tmp_path / "truth"
    folder.mkdir()
    with Ledger(folder, write=True) as ledger:
        study = study_of(ledger, acting_space(folder, most=9))
        study.weights, study.plans = PUBLISHED, PLANS
        proxy = StepProxy(study)
        for moe, log in LOGS.items():
            proxy.learn(ran(study, log, seqs=8, moe=moe))
        known: dict[str, float] = {}
        for seqs in (1, 2, 4, 8, 16, 32):
            for batch in (256, 512, 1024, 2048, 4096, 8192):
                for moe in LOGS:
                    point = {"seqs": seqs, "batch": batch, "moe": moe}
                    said = say(proxy, study, **point)
                    assert isinstance(said, Predicted)
                    known[repr(sorted(point.items()))] = said.value

    def truth(params: Mapping[str, Any]) -> float:
        return known[repr(sorted(params.items()))]

    monkeypatch.setattr(climbs, "truth", truth)
    monkeypatch.setattr(Margins, "violation", lambda *_: None)  # nobody watched any memory
    return truth


def session(folder: Path, truth: Truth, most: int) -> tuple[list[TrialRow], Shadow, Any]:
    """One session of a study, with as many trials as it may have by then."""
    folder.mkdir(exist_ok=True)
    with Ledger(folder, write=True) as ledger:
        study = study_of(ledger, acting_space(folder, most=most))
        study.weights = PUBLISHED
        shadow = Shadow(study, StepProxy(study))
        runner: StudyRunner = Runner(Logged(study, truth, sigma=0.001), shadow)
        runner.run()
        events = ledger.events(study.row.id, kinds=(GATE,))
        return [t for t in ledger.trials(study.row.id) if t.repeats is None], shadow, events


def off(events: Any) -> list[str]:
    return [point for e in events if e.data["what"] == "deferred" for point in e.data["points"]]


def test_a_study_that_goes_on_orders_from_its_first_trial(tmp_path: Path, truth: Truth) -> None:
    first, shadow, events = session(tmp_path / "own", truth, 20)
    assert shadow.gate.mode is Mode.ON
    put_off = set(off(events))
    assert put_off - {key(t.assignment or {}) for t in first}  # some still wait
    more, shadow, events = session(tmp_path / "own", truth, 24)
    fresh = {t.number for t in more} - {t.number for t in first}
    said = {e.number: e.data for e in events if "point" in e.data}
    assert len(fresh) == 4
    assert fresh <= said.keys()  # each was chosen by the proxy that knew what it said
    for number in fresh:
        assert "says nothing" not in said[number]["text"]
    released = {said[n]["point"] for n in fresh if said[n]["what"] == "ordered"}
    assert not released & put_off


def test_what_was_put_off_waits_while_it_cannot_be_known(tmp_path: Path, truth: Truth) -> None:
    first, _, events = session(tmp_path / "own", truth, 20)
    put_off = set(off(events))
    (tmp_path / "own" / LENGTHS).unlink()  # as in a folder of an earlier version
    more, shadow, events = session(tmp_path / "own", truth, 24)
    fresh = [t for t in more if t.number not in {f.number for f in first}]
    chosen = {e.number for e in events if "point" in e.data}
    assert fresh[0].number not in chosen  # asked for plainly: nobody knew anything yet
    assert key(fresh[0].assignment or {}) not in put_off
    assert {t.number for t in fresh[1:]} <= chosen  # an engine was up: it speaks again
    assert shadow.gate.mode is Mode.ON
