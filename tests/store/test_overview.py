from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.ledgers import fill, fill_large
from tuner.store.ledger import Ledger
from tuner.store.overview import briefs, overview, searched, seconds_by_trial, worked_by_trial
from tuner.store.rows import Origin
from tuner.store.stages import Stage
from tuner.trial.budget import durations
from tuner.trial.known import KnownTrials
from tuner.trial.summary import figures_beside


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


def test_a_trial_is_in_hand_only_while_the_study_runs(tmp_path: Path) -> None:
    with Ledger(tmp_path / "state", write=True) as ledger:
        row = fill(ledger, "one", trials=2)

        def current(status: str) -> int | None:
            ledger.set_status(row.id, status)
            return overview(ledger, row.id).current

        profile = ledger.plan(
            row.id, origin=Origin.PROFILE, params={}, assignment=None, deployment={}, repeats=0
        )
        for stage in (Stage.STARTING, Stage.STOPPING, Stage.VERIFIED, Stage.PLANNED):
            profile = ledger.advance(profile, stage)
        for status in ("queued", "paused", "finished", "stopped", "failed"):
            assert current(status) is None
        assert current("running") == profile.number
        search = ledger.plan(row.id, origin=Origin.SEARCH, params={}, assignment={}, deployment={})
        assert current("running") == profile.number
        ledger.advance(search, Stage.STARTING)
        assert current("running") == search.number  # the other one only waits to go on


def test_seconds_are_those_of_the_budget(ledger: Ledger) -> None:
    with ledger:
        study = ledger.study("one").id
        counted = durations(ledger.trials(study), ledger.transitions(study))
        assert seconds_by_trial(ledger, study) == pytest.approx(counted)
        assert seconds_by_trial(ledger, study, after=17) == pytest.approx(
            {n: s for n, s in counted.items() if n > 17}
        )
        known = KnownTrials(ledger, study)
        assert known.spending(0.0).durations == pytest.approx(counted)
        assert known.spending(0.0).durations == pytest.approx(counted)


def test_a_killed_tuners_gap_is_left_out_as_in_the_budget(tmp_path: Path) -> None:
    with Ledger(tmp_path / "state", write=True) as ledger:
        row = fill(ledger, "one", trials=1)
        trial = ledger.plan(row.id, origin=Origin.SEARCH, params={}, assignment={}, deployment={})
        trial = ledger.advance(trial, Stage.STARTING)
        trial = ledger.advance(trial, Stage.READY)
        for stage in (Stage.STOPPING, Stage.VERIFIED):
            time.sleep(0.02)
            trial = ledger.advance(trial, stage, detail={"by": "recovery"})
        counted = durations(ledger.trials(row.id), ledger.transitions(row.id))
        began, ready = (s.clock for s in ledger.transitions(row.id, 1)[1:3])
        assert counted[1] == pytest.approx(ready - began)
        assert seconds_by_trial(ledger, row.id) == pytest.approx(counted)


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


def _say(
    ledger: Ledger, study: int, clock: list[float], *said: tuple[float, str | int | None]
) -> None:
    """Statuses of the study and words of its trials, each at its time."""
    for at, what in said:
        clock[0] = at
        if isinstance(what, str):
            ledger.set_status(study, what)
        else:
            ledger.note(study, "note", {"text": "-"}, what)


def test_the_work_of_all_sessions_counts_and_pauses_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr("tuner.store.ledger.time.time", lambda: clock[0])
    with Ledger(tmp_path / "state", write=True) as ledger:
        study = ledger.create_study(name="one", fingerprint="f", space="", origin="").id
        other = ledger.create_study(name="other", fingerprint="f", space="", origin="").id
        assert worked_by_trial(ledger, study) == {}
        whole = ((100.0, "running"), (150.0, None), (160.0, 0), (190.0, 1), (191.0, "paused"))
        _say(ledger, study, clock, *whole, (500.0, 1))  # measured again by hand, after its end
        _say(ledger, other, clock, (600.0, "running"), (600.0, 0), (900.0, 0))
        assert worked_by_trial(ledger, study) == {1: 30.0}
        _say(ledger, study, clock, (1000.0, "running"), (1000.0, 2), (1007.0, 2))  # then killed
        _say(ledger, study, clock, (9000.0, "queued"), (9001.0, "running"))
        assert worked_by_trial(ledger, study) == {1: 30.0, 2: 7.0}


def _planned(ledger: Ledger, study: int, *origins: tuple[Origin, int | None, int | None]) -> None:
    for number, (origin, repeats, block) in enumerate(origins):
        ledger.plan(
            study,
            origin=origin,
            params={"n": number},
            assignment=None,
            deployment={},
            repeats=repeats,
            block=block,
        )


def test_the_search_pays_for_what_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    with Ledger(tmp_path / "state", write=True) as ledger:
        study = ledger.create_study(name="one", fingerprint="f", space="", origin="").id
        _planned(
            ledger,
            study,
            (Origin.BASELINE, None, None),
            (Origin.REPEAT, 0, None),  # the baseline's noise, before the search
            (Origin.FIRST, None, None),
            (Origin.SEARCH, None, None),
            (Origin.REPEAT, 3, None),  # a rival, measured again
            (Origin.SIMPLER, None, None),
            (Origin.REPEAT, 0, 0),  # the finals
            (Origin.REPEAT, 3, 0),
            (Origin.REPEAT, 0, 1000),  # a comparison
            (Origin.PROFILE, 3, None),
            (Origin.SEARCH, None, None),  # asked after more was given
        )
        assert searched(ledger, study) == {0, 1, 2, 3, 10}
        monkeypatch.setattr("tuner.store.ledger.time.time", lambda: clock[0])
        first: list[tuple[float, str | int]] = [(100.0, "running"), (100.0, 0)]
        _say(ledger, study, clock, *first, *((110.0 + 10 * n, n) for n in range(10)))
        _say(
            ledger, study, clock, (500.0, "finished"), (900.0, "running"), (900.0, 10), (903.0, 10)
        )
        known = KnownTrials(ledger, study)
        assert known.spending(0.0).wall == 40.0 + 3.0  # of 100 and 3 seconds of work
        assert known.spending(5.0).wall == 48.0
        with ledger.change() as db:
            db.execute("UPDATE trials SET history='the space has changed' WHERE number IN (2, 3)")
        assert KnownTrials(ledger, study).spending(0.0).wall == 23.0


@pytest.mark.slow
def test_a_large_ledger_is_a_small_one_many_times(tmp_path: Path) -> None:
    with Ledger(tmp_path / "state", write=True) as ledger:
        study = fill_large(ledger, "large", trials=300).id
        assert overview(ledger, study).trials == 300
        assert len({str(t.params) for t in ledger.trials(study)}) == 300
        ledger.db.verify()


def load(weight: float, tps: float | None, ttft: float | None) -> dict[str, Any]:
    return {
        "weight": weight,
        "figures": {"output_tps": tps, "ttft_p90_s": ttft},
        "gates": [],
    }


@pytest.mark.parametrize(
    ("loads", "tps", "ttft"),
    [
        ({}, None, None),
        ({"main": load(1.0, 60.5, 2.5)}, 60.5, 2.5),
        ({"a": load(1.0, 10.0, 1.0), "b": load(3.0, 50.0, 4.0)}, 40.0, 4.0),
        ({"a": load(1.0, None, 1.0), "b": load(3.0, 50.0, None)}, None, None),
        ({"a": load(0.0, 10.0, 1.0)}, None, 1.0),
    ],
)
def test_the_two_figures_beside_a_score(
    tmp_path: Path, loads: dict[str, Any], tps: float | None, ttft: float | None
) -> None:
    with Ledger(tmp_path / "state", write=True) as ledger:
        row = fill(ledger, "one", trials=1)
        with ledger.change() as db:
            db.execute("UPDATE trials SET metrics=?", (json.dumps({"workloads": loads}),))
        (brief,) = briefs(ledger, row.id, figures=True)
        assert (brief["output_tps"], brief["ttft_p90_s"]) == (tps, ttft)
        assert figures_beside(ledger.trial(row.id, 0)) == {"output_tps": tps, "ttft_p90_s": ttft}
        (short,) = briefs(ledger, row.id)
        assert short["output_tps"] is None
        assert brief.keys() == short.keys()
