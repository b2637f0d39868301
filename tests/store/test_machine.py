"""The ledger against a model of it, with kills and reopenings at any moment."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.store.samples import copy, new_study, new_trial
from tuner.errors import LedgerCorrupt
from tuner.store.ledger import Ledger
from tuner.store.rows import BaselineRow
from tuner.store.stages import Stage, is_running, may_follow

OPEN = {"intended", "started", "quarantined"}
DEVICES = st.sampled_from(["host", "GPU-1", "GPU-2"])


class LedgerMachine(RuleBasedStateMachine):
    """Trials, engines, devices and events; after each step all of them are as the model says."""

    @initialize()
    def begin(self) -> None:
        self.temp = tempfile.TemporaryDirectory()
        self.lives = 0
        self.ledger = Ledger(self.folder, write=True)
        self.study = new_study(self.ledger)
        self.stages: dict[int, list[Stage]] = {}
        self.launches: dict[int, tuple[int, str, dict[str, int]]] = {}
        self.quarantined: dict[str, str] = {}
        self.baselines: dict[str, int] = {}
        self.notes: list[int] = []

    @property
    def folder(self) -> Path:
        return Path(self.temp.name) / str(self.lives)

    @rule()
    def plan(self) -> None:
        trial = new_trial(self.ledger, self.study)
        assert trial.number == len(self.stages)
        self.stages[trial.number] = [Stage.PLANNED]

    @precondition(lambda self: self.stages)
    @rule(data=st.data(), stage=st.sampled_from(Stage))
    def advance(self, data: st.DataObject, stage: Stage) -> None:
        number = data.draw(st.sampled_from(sorted(self.stages)))
        trial = self.ledger.trial(self.study, number)
        if may_follow(self.stages[number][-1], stage):
            self.ledger.advance(trial, stage)
            self.stages[number].append(stage)
        else:
            with pytest.raises(LedgerCorrupt):
                self.ledger.advance(trial, stage)

    @precondition(lambda self: any(is_running(s[-1]) for s in self.stages.values()))
    @rule(data=st.data(), pid=st.integers(0, 9))
    def intend(self, data: st.DataObject, pid: int) -> None:
        running = sorted(n for n, s in self.stages.items() if is_running(s[-1]))
        number = data.draw(st.sampled_from(running))
        trial = self.ledger.trial(self.study, number)
        launch = self.ledger.launch_intended(trial, "process", {"pid": pid})
        self.launches[launch] = (number, "intended", {"pid": pid})

    @precondition(lambda self: self.launches)
    @rule(data=st.data(), pid=st.integers(0, 9))
    def see(self, data: st.DataObject, pid: int) -> None:
        launch = data.draw(st.sampled_from(sorted(self.launches)))
        self.ledger.launch_seen(launch, {"pid": pid})
        self.launches[launch] = (self.launches[launch][0], "started", {"pid": pid})

    @precondition(lambda self: self.launches)
    @rule(data=st.data(), status=st.sampled_from(["gone", "quarantined"]))
    def end(self, data: st.DataObject, status: str) -> None:
        launch = data.draw(st.sampled_from(sorted(self.launches)))
        self.ledger.launch_over(launch, status, {"ladder": []})
        number, _, identity = self.launches[launch]
        self.launches[launch] = (number, status, identity)

    @rule(device=DEVICES, reason=st.text(max_size=5))
    def quarantine(self, device: str, reason: str) -> None:
        self.ledger.quarantine(device, reason)
        self.quarantined[device] = reason

    @rule(device=DEVICES)
    def release(self, device: str) -> None:
        self.ledger.release(device)
        self.quarantined.pop(device, None)

    @rule(device=DEVICES, used=st.integers(0, 2**40))
    def measure_at_rest(self, device: str, used: int) -> None:
        self.ledger.keep_baseline(BaselineRow(device, "boot", "card", used, 2**40))
        self.baselines[device] = used

    @rule(number=st.integers(0, 99))
    def note(self, number: int) -> None:
        self.ledger.note(self.study, "note", {"n": number})
        self.notes.append(number)

    @rule()
    def fail_half_way(self) -> None:
        """A change that raises when it has changed something already."""
        with pytest.raises(ZeroDivisionError):
            self.change_and_fail()

    def change_and_fail(self) -> None:
        with self.ledger._db.change() as db:
            db.execute("UPDATE studies SET status = 'failed'")
            db.execute("DELETE FROM events")
            raise ZeroDivisionError

    @rule()
    def reopen(self) -> None:
        self.ledger.close()
        self.ledger = Ledger(self.folder, write=True)

    @rule()
    def be_killed(self) -> None:
        """What a kill leaves is the files as they are at this moment."""
        old = self.folder
        self.lives += 1
        copy(old, self.folder)
        self.ledger.close()
        self.ledger = Ledger(self.folder, write=True)

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "ledger"):
            return
        for ledger in (self.ledger, reader := Ledger(self.folder, write=False)):
            self.compare(ledger)
        reader.close()

    def compare(self, ledger: Ledger) -> None:
        trials = ledger.trials(self.study)
        assert [t.number for t in trials] == sorted(self.stages)
        for trial in trials:
            stages = self.stages[trial.number]
            assert trial.stage is stages[-1]
            assert [t.stage for t in ledger.transitions(self.study, trial.number)] == stages
            assert stages.count(Stage.TOLD) <= 1
            assert trial.attempt == stages.count(Stage.STARTING)
        assert {r.id: (r.number, r.status, r.identity) for r in ledger.open_launches()} == {
            id_: row for id_, row in self.launches.items() if row[1] in OPEN
        }
        assert ledger.quarantined() == self.quarantined
        assert {d: b.used for d, b in ledger.baselines("boot").items()} == self.baselines
        assert ledger.baselines("another boot") == {}
        assert [e.data["n"] for e in ledger.events(self.study, kinds=["note"])] == self.notes
        assert ledger.study("s").status == "running"

    def teardown(self) -> None:
        if hasattr(self, "ledger"):
            self.ledger.close()
            self.temp.cleanup()


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)
