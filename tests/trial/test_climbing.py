from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.trial.climbs import (
    CHANCE,
    LEVELS,
    Runner,
    Surface,
    Trials,
    inverted,
    space,
    study_of,
    truth,
)
from tuner.score.rank import Tier
from tuner.search.keys import key
from tuner.spec.levels import REAL
from tuner.store.ledger import Ledger
from tuner.store.rows import Origin, TrialRow
from tuner.store.stages import Stage
from tuner.trial.climbing import EVENT, HELD, Came, Climbing
from tuner.trial.decision import Decision
from tuner.trial.early import CLEARLY_WORSE
from tuner.trial.study import told_history
from tuner.trial.wishes import Wishes

BEST = truth({"seqs": 8, "batch": 2048, "moe": "native"})


def agreeing(params: Mapping[str, Any]) -> float:
    """In the order of the truth, on quite another scale."""
    return float(3.0 * truth(params) ** 1.1)


class Ran:
    """A study that was run in no time."""

    def __init__(
        self, folder: Path, cheap: Surface = agreeing, *, most: int = 40, seed: int = 1, **of: Any
    ) -> None:
        self.folder = folder
        with Ledger(folder, write=True) as ledger:
            study = study_of(ledger, space(folder, most=most, seed=seed, **of))
            self.trials_run = Trials(study, cheap)
            self.runner = Runner(self.trials_run)
            self.decision: Decision | None = self.runner.run()
            self.trials = ledger.trials(study.row.id)
            self.climbs = Climbing(ledger, study.row.id, study.space)
            self.state = self.climbs.state()
            self.report = self.climbs.report()
            self.seconds = self.trials_run.engine()
            self.told = self.runner._told_history()
            self.notes = [e.data for e in ledger.events(study.row.id, kinds=("note",))]
            self.said = [e.data["rows"] for e in ledger.events(study.row.id, kinds=("levels",))]

    @property
    def winner(self) -> TrialRow:
        assert self.decision is not None
        return self.trials[self.decision.winner]

    def candidates(self) -> list[TrialRow]:
        """The first trial of each point that the search tried; a point that was held may run again."""
        found: dict[str, TrialRow] = {}
        for trial in self.trials:
            if trial.origin is Origin.SEARCH:
                found.setdefault(key(trial.assignment or {}), trial)
        return list(found.values())

    def held(self) -> list[TrialRow]:
        return [t for t in self.trials if t.verdict == HELD]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A study whose short level orders as the real one does."""
    return Ran(tmp_path_factory.mktemp("agreeing"), sampler=CHANCE)


@pytest.mark.slow
def test_a_level_that_agrees_spares_most_candidates_the_real_load(tmp_path: Path, ran: Ran) -> None:
    assert ran.report[0]["standing"] == "agrees"
    searched = [t for t in ran.trials if t.origin is Origin.SEARCH]
    assert len(ran.held()) > len(searched) / 2
    assert truth(ran.winner.params) > 0.95 * BEST
    plain = Ran(tmp_path / "plain", levels="", sampler=CHANCE)
    assert plain.climbs.any is False
    assert plain.said == []
    assert ran.seconds < 0.75 * plain.seconds


@pytest.mark.slow
def test_a_held_trial_has_no_score_and_neither_wins_nor_teaches_the_real_scale(ran: Ran) -> None:
    for trial in ran.held():
        assert (trial.score, trial.value, trial.metrics, trial.feasible) == (None,) * 3 + (False,)
        assert trial.judgement is not None
        assert trial.judgement["level"] == "short"
        assert "was not asked of it" in trial.judgement["evidence"][-1]["text"]
    assert ran.decision is not None
    assert ran.winner.score is not None
    held = {key(t.assignment or {}) for t in ran.held()}
    climbed = {key(t.assignment or {}) for t in ran.trials if t.score is not None}
    assert held - climbed
    assert not (held - climbed) & {key(told.assignment) for told in told_history(ran.trials)}


@pytest.mark.slow
def test_the_sampler_learns_from_one_level_alone(ran: Ran) -> None:
    told = ran.told
    searched = [ran.trials[0], *ran.candidates()]
    assert len(told) == len(searched)
    for learnt, trial in zip(told, searched, strict=True):
        assert learnt.value == pytest.approx(agreeing(trial.params), rel=0.05)


@pytest.mark.slow
def test_baseline_its_repeats_anchors_and_audits_run_in_full(ran: Ran) -> None:
    measured = ran.trials_run.ran
    both = ["short", REAL]
    assert [measured[n] for n in range(3)] == [both] * 3
    searched = [t.number for t in ran.candidates()]
    audits = [*searched[:4], *searched[10::7]]
    assert all(measured[n] == both for n in audits)
    assert any(measured[n] == ["short"] for n in searched)
    blocks = [t.number for t in ran.trials if t.block is not None]
    assert blocks
    assert all(measured[n] == [REAL] for n in blocks)


@pytest.mark.slow
def test_a_level_that_is_turned_round_is_retired_and_the_study_is_as_good_as_without(
    tmp_path: Path,
) -> None:
    ran = Ran(tmp_path, inverted)
    assert "short" in ran.state.retired
    assert ran.runner._entry == REAL
    assert any("short rejects nobody any more" in note["text"] for note in ran.notes)
    assert truth(ran.winner.params) > 0.9 * BEST
    last = [t.number for t in ran.trials if t.origin is Origin.SEARCH][-1]
    assert ran.trials_run.ran[last] == [REAL]


def biased(params: Mapping[str, Any]) -> float:
    """Right for one variant, and blind for what makes the other one better."""
    return truth(params) * (0.1 if params["moe"] == "native" else 1.0)


@pytest.mark.slow
def test_what_a_level_held_climbs_once_it_is_refuted(tmp_path: Path) -> None:
    ran = Ran(tmp_path, biased, most=60)
    if ran.held():  # it may be refuted before it has held anyone
        again = {key(t.assignment or {}) for t in ran.trials if t.score is not None}
        assert {key(t.assignment or {}) for t in ran.held()} <= again
    assert truth(ran.winner.params) > 0.9 * BEST


def drifting() -> Surface:
    """Right for fifteen measurements, and turned round from then on."""
    seen = [0]

    def value(params: Mapping[str, Any]) -> float:
        seen[0] += 1
        return agreeing(params) if seen[0] <= 15 else 1e4 / truth(params)

    return value


@pytest.mark.slow
def test_a_level_that_stops_agreeing_frees_what_it_held(tmp_path: Path) -> None:
    ran = Ran(tmp_path, drifting(), most=150, sampler=CHANCE)
    assert ran.held()
    assert "short" in ran.state.retired
    scored = {key(t.assignment or {}) for t in ran.trials if t.score is not None}
    assert {key(t.assignment or {}) for t in ran.held()} <= scored
    assert any("climbs after all" in note["text"] for note in ran.notes)


def tied(params: Mapping[str, Any]) -> float:
    return 7.0


@pytest.mark.slow
def test_a_level_that_ties_all_rejects_nobody(tmp_path: Path) -> None:
    ran = Ran(tmp_path, tied, sampler=CHANCE)
    assert not ran.held()
    assert ran.state.agreement("short").standing != "agrees"


@pytest.mark.slow
def test_points_that_fail_have_their_answer(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        study = study_of(ledger, space(tmp_path))
        trials = Trials(study, agreeing, fails=lambda p: p["seqs"] == 32)
        Runner(trials).run()
        failed = [t for t in ledger.trials(study.row.id) if t.verdict == "engine_crash"]
        points = [key(t.assignment or {}) for t in failed]
        assert points
        assert len(set(points)) == len(points)  # none is tried a second time


@pytest.mark.slow
def test_the_best_that_lives_is_found_behind_favourites_that_die_on_the_real_load(
    tmp_path: Path,
) -> None:
    def heavy(params: Mapping[str, Any]) -> bool:
        return bool(params["moe"] == "native" and params["seqs"] >= 8)

    with Ledger(tmp_path, write=True) as ledger:
        study = study_of(ledger, space(tmp_path, most=72, sampler=CHANCE))
        trials = Trials(study, agreeing, falls=heavy)
        decision = Runner(trials).run()
        found = ledger.trials(study.row.id)
        climbs = Climbing(ledger, study.row.id, study.space)
        waiting = climbs.state().waiting()
        fallen = climbs.report()[0]["fallen"]
    assert decision is not None
    points = [
        (seqs, 2**i, moe)
        for seqs in (1, 2, 4, 8, 16, 32)
        for i in range(8, 14)
        for moe in ("native", "loop")
    ]
    every = [dict(zip(("seqs", "batch", "moe"), p, strict=True)) for p in points]
    best = max(truth(params) for params in every if not heavy(params))
    assert truth(found[decision.winner].params) > 0.97 * best
    assert fallen >= 3
    assert not waiting


def test_only_a_death_of_its_own_stands_against_a_point(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        study = study_of(ledger, space(tmp_path))
        for verdict, value in (("engine_crash", 0.0), ("port_taken", None), (CLEARLY_WORSE, 3.0)):
            point = {"seqs": 1, "batch": 256, "moe": verdict}
            trial = ledger.plan(
                study.row.id, origin=Origin.SEARCH, params=point, assignment=point, deployment={}
            )
            trial = ledger.advance(trial, Stage.STARTING)
            trial = ledger.advance(trial, Stage.STOPPING)
            trial = ledger.advance(trial, Stage.VERIFIED, verdict=verdict)
            ledger.advance(trial, Stage.TOLD, value=value)
        state = Climbing(ledger, study.row.id, study.space).state()
    tiers = state.tiers(REAL)
    assert [(p, t) for p, t in tiers.items() if t is Tier.INCOMPLETE and "engine_crash" in p]
    assert len(tiers) == 1
    assert len(state.results) == 3


def test_the_sampler_hears_no_score_of_a_held_point_that_failed_a_gate_on_its_level(
    tmp_path: Path,
) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        study = study_of(ledger, space(tmp_path))
        climbs = Climbing(ledger, study.row.id, study.space)
        heard = []
        for verdict, feasible in ((HELD, True), (HELD, False), ("healthy", False)):
            point = {"seqs": 1, "batch": 256, "moe": f"{verdict} {feasible}"}
            trial = ledger.plan(
                study.row.id, origin=Origin.SEARCH, params=point, assignment=point, deployment={}
            )
            trial = ledger.advance(trial, Stage.STARTING)
            said = climbs.said(trial, "short", Came(9.0, feasible), 1.0)
            ledger.note(study.row.id, EVENT, said, trial.number)
            trial = ledger.advance(trial, Stage.STOPPING)
            trial = ledger.advance(trial, Stage.VERIFIED, verdict=verdict)
            heard.append(climbs.value(ledger.advance(trial, Stage.TOLD)))
    assert heard == [9.0, 0.0, 9.0]


@pytest.mark.slow
@pytest.mark.parametrize("cheap", [agreeing, inverted, biased])
def test_a_study_that_was_stopped_goes_on_as_if_it_had_not_been(
    tmp_path: Path, cheap: Surface
) -> None:
    whole = Ran(tmp_path / "whole", cheap, most=25)
    with Ledger(tmp_path / "parts", write=True) as ledger:
        decision = None
        for stop in (3, 8, 14, 19, 1000):
            wishes = Wishes()
            study = study_of(ledger, space(tmp_path / "parts", most=25), wishes)
            trials = Trials(study, cheap)
            runner = Runner(trials)
            run = trials.run

            def until(trial: TrialRow, stop: int = stop, wishes: Wishes = wishes) -> TrialRow:
                if trial.number == stop:
                    wishes.cancelled.set()
                return run(trial)  # noqa: B023 - called within this round of the loop

            trials.run = until  # type: ignore[method-assign]
            decision = runner.run()
        found = ledger.trials(study.row.id)
    assert decision == whole.decision
    assert [(t.params, t.verdict, t.score) for t in found] == [
        (t.params, t.verdict, t.score) for t in whole.trials
    ]


@pytest.mark.slow
def test_results_of_a_level_that_asked_something_else_do_not_count(ran: Ran) -> None:
    other = LEVELS.replace("conversations: 4", "turns: 1")
    with Ledger(ran.folder, write=False) as ledger:
        row = ledger.study("climbs")
        climbs = Climbing(ledger, row.id, space(ran.folder, levels=other))
        assert not climbs.state().values("short")
        assert climbs.state().values(REAL)
    assert ran.state.values("short")


@pytest.mark.slow
def test_the_levels_are_said_with_what_they_cost_and_held(ran: Ran) -> None:
    short, real = ran.said[-1]
    assert (short["level"], real["level"]) == ("short", REAL)
    assert (short["cost"], real["cost"]) == (10.0, 100.0)
    assert short["held"] == len(ran.held())
    assert short["leaves_out"] == "long ones"
    assert short["tau"] > 0.7
    assert short["bias"] == pytest.approx(1 / (3 * 50**0.1), rel=0.3)
