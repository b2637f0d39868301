from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.trial.climbs import CHANCE, Runner, Trials, space, study_of, truth
from tests.trial.proxies import Fake, Says, drifting, good, inverted, layout_biased, silent, tied
from tuner.fidelity.evidence import Mode
from tuner.search.sampler import key
from tuner.store.ledger import Ledger
from tuner.store.rows import Origin, TrialRow
from tuner.trial.shadow import EVENT, Shadow, in_words


def study(
    folder: Path, says: Says | None, most: int = 34
) -> tuple[list[TrialRow], Any, Shadow | None, list[Any]]:
    """A study with that proxy in the shadow, or without one."""
    with Ledger(folder, write=True) as ledger:
        own = study_of(ledger, space(folder, levels="", most=most, sampler=CHANCE))
        shadow = None if says is None else Shadow(own, Fake(says))
        runner = Runner(Trials(own, truth), shadow)
        decision = runner.run()
        row = ledger.study("climbs")
        return ledger.trials(row.id), decision, shadow, ledger.events(row.id, kinds=("note",))


@pytest.mark.slow
@pytest.mark.parametrize("says", [good, inverted, tied, layout_biased, drifting])
def test_a_proxy_in_the_shadow_changes_nothing_and_a_wrong_one_is_never_trusted_for_long(
    tmp_path: Path, says: Says
) -> None:
    plain, decision, _, _ = study(tmp_path / "plain", None)
    trials, same, shadow, notes = study(tmp_path / "shadow", says)
    assert [(t.params, t.score, t.verdict) for t in trials] == [
        (t.params, t.score, t.verdict) for t in plain
    ]
    assert same == decision
    assert shadow is not None
    gate = shadow.gate
    assert gate.deferred == ()  # nothing was put off
    told = [n.data["text"] for n in notes if "in the shadow" in n.data["text"]]
    assert len(told) == 1
    if says is good:
        assert gate.mode is Mode.ON
        assert "would have been trusted after" in told[0]
        return
    assert gate.mode is not Mode.ON
    if gate.closing is not None:
        assert gate.opened is not None
        assert gate.closing.after - gate.opened <= 12
        assert "shut out" in told[0]
    if says in {inverted, tied}:
        assert gate.opened is None


def test_predictions_come_before_what_they_predict_is_learnt_and_stand_in_the_ledger(
    tmp_path: Path,
) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        own = study_of(ledger, space(tmp_path, levels="", most=6, sampler=CHANCE))
        fake = Fake(good)
        Runner(Trials(own, truth), Shadow(own, fake)).run()
        events = ledger.events(own.row.id, kinds=(EVENT,))
        trials = {t.number: t for t in ledger.trials(own.row.id)}
    first = [t for t in trials.values() if t.origin is not Origin.REPEAT]
    assert fake.asked == [repr(sorted(t.params.items())) for t in first]
    assert [e.number for e in events] == fake.learnt
    for event in events:
        trial = trials[event.number or 0]
        assert event.data["real"] == trial.score
        assert event.data["point"] == key(trial.assignment or {})
        if trial.origin is Origin.REPEAT:
            assert "it ran before" in event.data["abstained"]
        else:
            assert event.data["said"]["value"] != trial.score
    assert not any(trials[e.number or 0].block is not None for e in events)


def test_a_resumed_study_has_the_same_gate_and_predicts_nothing_twice(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        own = study_of(ledger, space(tmp_path, levels="", most=6, sampler=CHANCE))
        before = Shadow(own, Fake(good))
        Runner(Trials(own, truth), before).run()
        count = len(ledger.events(own.row.id, kinds=(EVENT,)))
        fake = Fake(good)
        after = Shadow(own, fake)
        after.restore(ledger.trials(own.row.id))
        for trial in ledger.trials(own.row.id):
            after.observe(trial)
        assert after.gate == before.gate
        assert fake.asked == []
        assert len(ledger.events(own.row.id, kinds=(EVENT,))) == count


def test_what_the_proxy_abstains_from_is_no_evidence(tmp_path: Path) -> None:
    _, _, shadow, notes = study(tmp_path, silent, 6)
    assert shadow is not None
    assert shadow.gate.mode is Mode.OFF
    assert any("predicted 0 measured points" in n.data["text"] for n in notes)


def test_the_sentence_says_why(tmp_path: Path) -> None:
    shown = {"points": 9, "tau": 0.5, "pairs": 12, "why": "tau-b 0.5 is below 0.8"}
    found = {"assessment": shown, "would_be": "shadow"}
    assert in_words(found).endswith("would not have been trusted: tau-b 0.5 is below 0.8")
    closed = {**found, "would_be": "disabled", "closed_because": "it lied"}
    assert in_words(closed).endswith("shut out: it lied")
