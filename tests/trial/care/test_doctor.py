from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.devices import MIB, FakeCards, steady
from tests.fakes.ledgers import fill
from tests.trial.care.conftest import Abandon
from tuner.launch import shm
from tuner.store.ledger import LEDGER_NAME, Ledger
from tuner.store.locks import hold_study
from tuner.telemetry.detect import Detection
from tuner.trial.care.doctor import examine, look_at_leftovers, open_ledger
from tuner.trial.care.finding import Level
from tuner.trial.entry import study_folder

pytestmark = pytest.mark.xdist_group("engines")


@pytest.fixture(autouse=True)
def no_shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shm").mkdir()
    monkeypatch.setattr(shm, "SHM", tmp_path / "shm")


def test_everything_is_looked_at_and_nothing_is_made(tmp_path: Path) -> None:
    found = examine(tmp_path / "no", tmp_path / "cache", Detection(FakeCards(steady(300 * MIB))))
    assert next(each for each in found if each.check == "devices").level is Level.OK
    checks = {each.check for each in found}
    assert {"state folder", "disk", "ledger", "host memory", "memory limit", "ports"} <= checks
    assert {"engines", "docker", "shared memory"} <= checks
    assert not (tmp_path / "no").exists()


def test_a_ledger_beside_a_tuner_that_works(tmp_path: Path, ledger: Ledger) -> None:
    found = examine(ledger.folder, tmp_path / "cache", Detection(FakeCards()))
    (one,) = (each for each in found if each.check == "ledger")
    assert (one.level, one.said) == (Level.OK, "1 studies; every row is as it was written")


def test_a_ledger_that_somebody_wrote_into(tmp_path: Path) -> None:
    with Ledger(tmp_path / "state", write=True) as ledger:
        fill(ledger, "one", trials=2)
        with ledger.change() as db:
            db.execute("DROP TRIGGER trials_sum_update")
            db.execute("UPDATE trials SET score=1e9 WHERE number=1")
    opened, (found,) = open_ledger(tmp_path / "state")
    assert opened is None
    assert (found.level, "not what tuner wrote" in found.said) == (Level.BAD, True)
    assert LEDGER_NAME in str(found.mend)


def test_a_ledger_that_is_none(tmp_path: Path) -> None:
    (tmp_path / LEDGER_NAME).write_bytes(b"no ledger" * 1000)
    opened, (found,) = open_ledger(tmp_path)
    assert (opened, found.level) == (None, Level.BAD)


def test_an_engine_that_was_left(ledger: Ledger, abandon: Abandon) -> None:
    assert look_at_leftovers(None) == []
    (found,) = look_at_leftovers(ledger)
    assert found.level is Level.OK
    launch = abandon(FAKE_FORK="1")
    (found,) = look_at_leftovers(ledger)
    assert (found.level, found.mend) == (Level.BAD, "tuner clean")
    assert all(f"pid {pid}" in found.said for pid in launch.pids()[:1])
    with hold_study(study_folder(ledger, "nightly"), {"pid": 4711}):
        (found,) = look_at_leftovers(ledger)
    assert (found.level, "under process 4711" in found.said) == (Level.OK, True)
