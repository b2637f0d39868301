from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.fakes.ledgers import fill, fill_large
from tuner.store.ledger import Ledger
from tuner.store.overview import briefs, overview, seconds_by_trial
from tuner.store.rows import Origin
from tuner.store.stages import Stage
from tuner.trial.budget import spent
from tuner.trial.known import KnownTrials


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    with Ledger(tmp_path / "state", write=True) as made:
        fill(made, "other", trials=3)
        fill(made, "one", trials=20)
    return Ledger(tmp_path / "state", write=False)


def test_what_is_counted_is_what_the_rows_say(ledger: Ledger) -> None:
    with ledger:
        study = ledger.study("one").id
        trials = ledger.trials(study)
        found = overview(ledger, study)
        assert found.trials == found.told == 20
        assert found.launched == sum(t.launched for t in trials)
        assert found.verdicts == Counter(t.verdict for t in trials)
        best = max((t for t in trials if t.feasible), key=lambda t: t.score or 0.0)
        assert found.best == (best.number, best.score)
        assert found.current is None


def test_seconds_are_those_of_the_budget(ledger: Ledger) -> None:
    with ledger:
        study = ledger.study("one").id
        counted = spent(ledger.trials(study), ledger.transitions(study), session=0.0).durations
        assert seconds_by_trial(ledger, study) == pytest.approx(counted)
        assert seconds_by_trial(ledger, study, after=17) == pytest.approx(
            {n: s for n, s in counted.items() if n > 17}
        )
        known = KnownTrials(ledger, study)
        assert known.spending(0.0).durations == pytest.approx(counted)
        assert known.spending(0.0).durations == pytest.approx(counted)


def test_briefs_are_the_rows_in_short(ledger: Ledger) -> None:
    with ledger:
        study = ledger.study("one").id
        found = briefs(ledger, study)
        for brief, trial in zip(found, ledger.trials(study), strict=True):
            assert (brief["trial"], brief["params"]) == (trial.number, trial.params)
            assert (brief["feasible"], brief["verdict"]) == (trial.feasible, trial.verdict)
        assert {tuple(b["missed"]) for b in found} == {(), ("ttft_p90_s",)}
        assert briefs(ledger, study, after=4, limit=2) == found[5:7]


def test_the_worker_knows_its_trials_without_reading_them_again(tmp_path: Path) -> None:
    with Ledger(tmp_path / "state", write=True) as ledger:
        study = fill(ledger, "one", trials=5).id
        known = KnownTrials(ledger, study)
        assert [t.number for t in known.all()] == list(range(5))
        assert known.all()[0].metrics is None
        trial = ledger.plan(
            study, origin=Origin.SEARCH, params={"a": 1}, assignment={"a": 1}, deployment={}
        )
        for stage in (Stage.STARTING, Stage.STOPPING, Stage.VERIFIED, Stage.TOLD):
            trial = ledger.advance(trial, stage)
            assert known.all()[-1].stage is stage
        assert len(known.taken()) == len({str(t.assignment) for t in ledger.trials(study)})
        assert len(known.of(Origin.BASELINE)) == 1
        assert known.all() == ledger.trials(study, light=True)


def test_a_large_ledger_is_a_small_one_many_times(tmp_path: Path) -> None:
    with Ledger(tmp_path / "state", write=True) as ledger:
        study = fill_large(ledger, "large", trials=300).id
        assert overview(ledger, study).trials == 300
        assert len({str(t.params) for t in ledger.trials(study)}) == 300
        ledger.db.verify()
