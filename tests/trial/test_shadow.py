from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.trial.climbs import CHANCE, Runner, Trials, space, study_of, truth
from tests.trial.proxies import (
    Fake,
    Says,
    acting_space,
    drifting,
    good,
    inverted,
    layout_biased,
    silent,
    tied,
)
from tuner.fidelity.evidence import Mode
from tuner.search.keys import key
from tuner.spec import parse_space
from tuner.store.ledger import Ledger
from tuner.store.rows import Origin, TrialRow
from tuner.store.stages import Stage
from tuner.telemetry.samples import DeviceInfo
from tuner.trial.early import CLEARLY_WORSE
from tuner.trial.gatelog import GATE
from tuner.trial.ordering import Ordering
from tuner.trial.shadow import EVENT, Shadow, gate_key, in_words


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


def test_what_fails_a_gate_is_learnt_and_no_value_to_reach(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        own = study_of(ledger, space(tmp_path, levels="", most=6, sampler=CHANCE))
        fake = Fake(good)
        shadow = Shadow(own, fake)
        runner = Trials(own, truth, keeps=lambda params: params["seqs"] < 8)
        Runner(runner, shadow).run()
        trials = {t.number: t for t in ledger.trials(own.row.id) if t.block is None}
        events = ledger.events(own.row.id, kinds=(EVENT,))
        again, other = Fake(good), Shadow(own, Fake(good))
        other.proxy = again
        other.restore(list(trials.values()))
    failing = [t for t in trials.values() if not t.feasible]
    assert failing
    assert len(failing) < len(trials)
    assert all(t.score is not None for t in failing)
    assert {e.number for e in events if e.data["real"] is None} == {t.number for t in failing}
    assert fake.learnt == again.learnt == list(trials)
    assert shadow.gate.incumbent == max(t.score or 0 for t in trials.values() if t.feasible)
    assert shadow.gate.assessment().points <= len(
        {name_of(t) for t in trials.values() if t.feasible}
    )
    assert other.gate == shadow.gate


def key_of(own: Any, **changed: Any) -> str:
    return gate_key(replace(own, **changed)).digest


def test_the_gate_knows_a_stack_by_what_it_is_made_of(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        own = study_of(ledger, space(tmp_path, levels=""))
    name, engine = next(iter(own.engines.items()))

    def known(**changed: Any) -> str:
        return key_of(own, engines={name: replace(engine, **changed)})

    same = key_of(own)
    # Built once more, in another folder: what closed it has closed it for good.
    assert known(built_in_s=99.0, size=7, root=Path("/elsewhere")) == same
    assert known(digest="f" * 64) != same
    assert known(fingerprint=replace(engine.fingerprint, torch="2.14.0")) != same


@pytest.mark.parametrize("more", ["flags: {--dtype: float16}", "env: {A: b}", "launch: docker"])
def test_another_setting_is_another_stack(tmp_path: Path, more: str) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        own = study_of(ledger, space(tmp_path, levels=""))
    text = own.space.text.replace("{recipe: cpu, ", f"{{recipe: cpu, {more}, ")
    other = parse_space(text, tmp_path / "space.yaml")
    assert key_of(own, space=other) != key_of(own)


def test_another_driver_is_another_stack(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        own = study_of(ledger, space(tmp_path, levels=""))

    def key_on(driver: str) -> str:
        card = DeviceInfo(0, "GPU-1", None, "a card", 1 << 30, driver)
        return key_of(own, hardware=replace(own.hardware, devices=(card,)))

    assert key_on("580.1") == key_on("580.1") != key_on("580.2")


def test_the_sentence_says_why(tmp_path: Path) -> None:
    shown = {"points": 9, "tau": 0.5, "pairs": 12, "why": "tau-b 0.5 is below 0.8"}
    found = {"assessment": shown, "would_be": "shadow"}
    assert in_words(found).endswith("would not have been trusted: tau-b 0.5 is below 0.8")
    closed = {**found, "would_be": "disabled", "closed_because": "it lied"}
    assert in_words(closed).endswith("would have been shut out: it lied")
    acted = {
        **found, "acts": True, "mode": "on", "opened_after": 8, "audits": 2, "deferred": 9,
        "deferred_never_run": 4,
    }  # fmt: skip
    assert in_words(acted).endswith("4 of which never ran; 2 audits; it was trusted to the end")
    shut = {**acted, "mode": "disabled", "closed_because": "it lied"}
    assert in_words(shut).endswith("2 audits; it was shut out: it lied")
    never = {**acted, "mode": "shadow", "opened_after": None}
    assert in_words(never).endswith("pairs; it was not trusted: tau-b 0.5 is below 0.8")


def name_of(trial: TrialRow) -> str:
    return key(trial.assignment or {})


def acting(folder: Path, ledger: Ledger, **asked: Any) -> Any:
    return study_of(ledger, acting_space(folder, **{"most": 30, "sampler": CHANCE, **asked}))


@pytest.mark.slow
def test_what_was_seen_on_another_stack_does_not_count(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        own = acting(tmp_path, ledger)
        before = Shadow(own, Fake(good))
        Runner(Trials(own, truth), before).run()
        assert before.gate.opened is not None
        own.models = {"another": tmp_path}
        fake = Fake(good)
        after = Shadow(own, fake)
        after.restore(ledger.trials(own.row.id))
        assert after.gate.mode is Mode.OFF
        assert after.gate.observations == ()
        assert fake.learnt == []


@pytest.mark.slow
def test_after_a_changed_search_space_points_have_the_names_that_they_have_there(
    tmp_path: Path,
) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        own = acting(tmp_path, ledger)
        before = Shadow(own, Fake(good))
        Runner(Trials(own, truth), before).run()
        assert before.gate.deferred
        trials = ledger.trials(own.row.id)
        gone = [t for t in trials if t.params["batch"] == 256]
        moved = [
            replace(t, assignment={**(t.assignment or {}), "batch": t.assignment["batch"] - 1})
            for t in trials
            if t not in gone and t.assignment is not None
        ]
        ledger.note(own.row.id, "migrated", {})
        after = Shadow(own, Fake(good))
        after.restore(moved)
        ordering = Ordering(own, after)
        ordering.restore()
        told = ledger.events(own.row.id, kinds=(GATE,))
    names = {key(t.assignment or {}) for t in moved}
    assert {seen.point for seen in after.gate.observations} <= names
    assert set(after.gate.predictions) <= names
    assert after.gate.deferred == ()  # these were points in other terms
    assert ordering._waiting(set()) == {}
    # It was trusted by more trials than count now, so it has that to earn anew, and may.
    assert before.gate.mode is Mode.ON
    assert (after.gate.mode, after.gate.opened) == (Mode.SHADOW, None)
    assert after.gate.record(name_of(moved[0]), moved[0].score).mode is Mode.ON
    assert not any(e.data["what"] == "closed" for e in told)


def test_off_it_is_not_even_asked(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        own = acting(tmp_path, ledger, most=4, proxy="off")
        fake = Fake(good)
        Runner(Trials(own, truth), Shadow(own, fake)).run()
        assert (fake.asked, fake.learnt) == ([], [])
        assert ledger.events(own.row.id, kinds=(EVENT, GATE, "proxy_report")) == []


@pytest.mark.slow
def test_a_trial_that_failed_counts_as_a_turn_of_the_gate_and_as_no_evidence(
    tmp_path: Path,
) -> None:
    def fails(params: Mapping[str, Any]) -> bool:
        return bool(params["seqs"] == 8)

    with Ledger(tmp_path, write=True) as ledger:
        own = acting(tmp_path, ledger, most=40)
        shadow = Shadow(own, Fake(good))
        Runner(Trials(own, truth, sigma=0.001, fails=fails), shadow).run()
        trials = {t.number: t for t in ledger.trials(own.row.id)}
        events = ledger.events(own.row.id, kinds=(EVENT,))
        again = Shadow(own, Fake(good))
        again.restore(list(trials.values()))
    failed = [e for e in events if trials[e.number or 0].verdict != "healthy"]
    assert failed
    assert all(e.data["real"] is None and e.data["role"] != "plain" for e in failed)
    gate = shadow.gate
    assert gate.mode is Mode.ON
    assert again.gate == gate.foretell({})
    roles = [seen.role for seen in gate.observations[gate.opened or 0 :]]
    audits = [n for n, role in enumerate(roles, 1) if role == "audit"]
    assert audits[:-1] == [7 * (n + 1) for n in range(len(audits) - 1)]


@pytest.mark.slow
def test_a_winner_that_was_put_off_closes_the_gate(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        own = acting(tmp_path, ledger)
        shadow = Shadow(own, Fake(good))
        Runner(Trials(own, truth, sigma=0.001), shadow).run()
        trusted = [shadow.trusted]
        late = next(
            t for t in ledger.trials(own.row.id) if key(t.assignment or {}) in shadow.gate.deferred
        )
        shadow.conclude(late)
        trusted.append(shadow.trusted)
        assert trusted == [True, False]
        closed = ledger.events(own.row.id, kinds=(GATE,))[-1]
        assert closed.data["why"] == f"trial {late.number}, which it had deferred, was found best"
        after = Shadow(own, Fake(good))
        after.restore(ledger.trials(own.row.id))
        assert after.gate.closing == shadow.gate.closing


@pytest.mark.slow
def test_trials_that_were_ended_early_count_against_a_proxy_that_praised_them(
    tmp_path: Path,
) -> None:
    def ends(params: Mapping[str, Any]) -> float | None:
        return 40.0 if params["batch"] >= 2048 else None

    def praises(params: Mapping[str, Any], number: int) -> float:
        """Right of all that runs to its end, and full of praise for what does not."""
        return good(params, number) * (20 if ends(params) else 1)

    with Ledger(tmp_path, write=True) as ledger:
        own = acting(tmp_path, ledger, most=40)
        shadow = Shadow(own, Fake(praises))
        Runner(Trials(own, truth, sigma=0.001, ends=ends), shadow).run()
        trials = {t.number: t for t in ledger.trials(own.row.id)}
        events = ledger.events(own.row.id, kinds=(EVENT,))
        again = Shadow(own, Fake(praises))
        again.restore(list(trials.values()))
    ended = [e for e in events if trials[e.number or 0].verdict == CLEARLY_WORSE]
    assert ended
    assert all((e.data["real"], e.data["below"]) == (None, 40.0) for e in ended)
    assert all(e.data["said"] is not None for e in ended)
    assert shadow.gate.mode is not Mode.ON
    assert shadow.gate.assessment().tau < 0.8
    assert again.gate == shadow.gate


def test_who_takes_up_only_some_trials_tells_the_others_with_all_that_is_known(
    tmp_path: Path,
) -> None:
    """As a command does that compares or profiles, after a kill between a trial's proof and its telling."""
    with Ledger(tmp_path, write=True) as ledger:
        own = study_of(ledger, space(tmp_path, levels="", most=8, sampler=CHANCE))
        before = Shadow(own, Fake(good))
        Runner(Trials(own, truth), before).run()
        events = {e.number: e for e in ledger.events(own.row.id, kinds=(EVENT,))}
        last = max(number or 0 for number in events)
        for lost in (False, True):
            with ledger.change() as db:
                db.execute("UPDATE trials SET stage='verified' WHERE number=?", (last,))
                db.execute("DELETE FROM transitions WHERE number=? AND stage='told'", (last,))
                if lost:  # killed before that was written, too
                    db.execute("DELETE FROM events WHERE id=?", (events[last].id,))
            fake = Fake(good)
            after = Shadow(own, fake)
            Runner(Trials(own, truth), after).take_up(lambda _: False)
            assert ledger.trial(own.row.id, last).stage is Stage.TOLD
            (event,) = [e for e in ledger.events(own.row.id, kinds=(EVENT,)) if e.number == last]
            assert event.data == events[last].data
            assert fake.learnt == [number for number in events if number != last] + [last]
            assert after.gate == before.gate


def test_an_event_of_an_earlier_version_is_of_another_stack_and_the_first_of_two_stands(
    tmp_path: Path,
) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        own = study_of(ledger, space(tmp_path, levels="", most=6, sampler=CHANCE))
        before = Shadow(own, Fake(good))
        Runner(Trials(own, truth), before).run()
        first = ledger.events(own.row.id, kinds=(EVENT,))[0]
        ledger.note(own.row.id, EVENT, {**first.data, "real": 9e9}, first.number)
        bare = {name: first.data[name] for name in ("point", "said", "abstained", "real")}
        ledger.note(own.row.id, EVENT, bare, 77)
        after = Shadow(own, Fake(good))
        after.restore(ledger.trials(own.row.id))
    assert after.gate == before.gate
