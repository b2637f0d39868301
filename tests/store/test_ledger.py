from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.store.samples import content, fill, new_study, new_trial
from tuner.errors import LedgerClosed, LedgerCorrupt, StateUnusable, StudyConflict, StudyNotFound
from tuner.store import schema
from tuner.store.ledger import Ledger
from tuner.store.locks import hold_folder
from tuner.store.stages import Stage


def test_what_was_written_is_there_after_reopening(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        study = new_study(ledger)
        trial = new_trial(ledger, study, a=1, b=None, c="ü")
        trial = ledger.advance(trial, Stage.STARTING, detail={"why": "test"})
        ledger.launch_intended(trial, "process", {"pid": 0})
    with Ledger(tmp_path, write=True) as ledger:
        again = ledger.trial(study, 0)
        assert again == trial
        assert again.params == {"a": 1, "b": None, "c": "ü"}
        assert again.attempt == 1
        assert [t.stage for t in ledger.transitions(study)] == [Stage.PLANNED, Stage.STARTING]
        assert [row.identity for row in ledger.open_launches()] == [{"pid": 0}]


@pytest.mark.parametrize("write", [False, True])
def test_what_is_asked_after_the_end_is_no_damage(tmp_path: Path, *, write: bool) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        study = new_study(ledger)
    closed = Ledger(tmp_path, write=write)
    closed.close()
    asked: list[Callable[[], object]] = [closed.studies, lambda: closed.trial(study, 0)]
    if write:
        asked.append(lambda: closed.note(study, "note", {"text": "too late"}))
    for ask in asked:
        with pytest.raises(
            LedgerClosed, match=r"was closed before it was asked: .* is ending"
        ) as said:
            ask()
        assert "move" not in str(said.value)
    closed.close()
    with Ledger(tmp_path, write=False) as reader:
        assert [s.id for s in reader.studies()] == [study]


def test_two_tuners_do_not_share_a_state_folder(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        new_study(ledger)
        with pytest.raises(StateUnusable, match="another tuner"):
            Ledger(tmp_path, write=True)
        with Ledger(tmp_path, write=False) as reader:
            assert [s.name for s in reader.studies()] == ["s"]


_OTHER = """
import sys
from pathlib import Path
from tuner.store.ledger import Ledger
with Ledger(Path(sys.argv[1]), write=True):
    print("mine", flush=True)
    sys.stdin.readline()
"""


_WORKER = """
import sys
from pathlib import Path
from tuner.store.ledger import Ledger
with Ledger(Path(sys.argv[1]), write=True, hold=False) as ledger:
    for n in range(40):
        ledger.note(1, "note", {"who": sys.argv[2], "n": n})
"""


def other_tuner(folder: Path) -> subprocess.Popen[str]:
    other = subprocess.Popen(
        [sys.executable, "-c", _OTHER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert other.stdout is not None
    other.stdout.readline()
    return other


@pytest.mark.slow
def test_another_process_that_came_first_is_not_disturbed(tmp_path: Path) -> None:
    other = other_tuner(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    for way in (tmp_path, tmp_path / "link"):
        with pytest.raises(StateUnusable, match="another tuner works with this state folder"):
            Ledger(way, write=True)
    other.communicate("\n")
    assert other.returncode == 0
    with Ledger(tmp_path, write=True) as ledger:
        new_study(ledger)


def test_another_process_that_comes_later_is_refused(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        new_study(ledger)
        other = other_tuner(tmp_path)
        _, said = other.communicate("\n")
        assert other.returncode != 0
        assert "another tuner works with this state folder" in said
        ledger.set_status(1, "finished")


@pytest.mark.parametrize("name", ["ledger.lock", "ledger.sqlite"])
@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_tuner_whose_files_were_taken_away_stops(tmp_path: Path, name: str, how: str) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        new_study(ledger)
        (tmp_path / name).rename(tmp_path / "taken")
        if how == "replaced":
            (tmp_path / name).touch()
        with pytest.raises(StateUnusable, match=f"{name} was removed or replaced"):
            ledger.set_status(1, "finished")


def test_what_raises_inside_of_a_change_undoes_all_of_it(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        trial = new_trial(ledger, new_study(ledger))
        before = content(ledger)
        with pytest.raises(ValueError, match="JSON"):
            ledger.advance(trial, Stage.STARTING, detail={"x": float("inf")})
        assert content(ledger) == before
        ledger.advance(trial, Stage.STARTING)


def test_a_clock_that_runs_back_changes_no_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(10**9, 0, -100_000))
    monkeypatch.setattr(time, "time", lambda: float(next(clock)))
    with Ledger(tmp_path, write=True) as ledger:
        fill(ledger)
        before = content(ledger)
        steps = ledger.transitions(1, 0)
        assert [t.stage for t in steps] == [Stage.PLANNED, Stage.VERIFIED, Stage.TOLD]
        assert [t.at for t in steps] == sorted((t.at for t in steps), reverse=True)
        assert [t.clock for t in steps] == sorted(t.clock for t in steps)
    with Ledger(tmp_path, write=True) as ledger:
        assert content(ledger) == before


def first_form(folder: Path) -> None:
    """A ledger as the first tuner wrote it."""
    db = sqlite3.connect(folder / "ledger.sqlite")
    db.executescript(f"{schema._FIRST} PRAGMA user_version = 1;")
    with db:
        db.execute(
            "INSERT INTO studies(name, fingerprint, space, origin, status, facts, created)"
            " VALUES ('old','f','x: 1','s.yaml','running','{}',5.0)"
        )
        db.execute(
            "INSERT INTO trials(study, number, origin, params, deployment, stage, created)"
            " VALUES (1,0,'search','{\"a\": 1}','{}','planned',6.0)"
        )
    db.close()


def test_a_ledger_of_the_first_form_is_brought_up_to_date(tmp_path: Path) -> None:
    first_form(tmp_path)
    with Ledger(tmp_path, write=False) as reader:
        assert reader.trial(1, 0).params == {"a": 1}
    with Ledger(tmp_path, write=True) as ledger:
        trial = ledger.trial(ledger.study("old").id, 0)
        assert (trial.params, trial.history) == ({"a": 1}, None)
        ledger.advance(trial, Stage.STARTING)
    with Ledger(tmp_path, write=False) as reader:
        assert reader.trial(1, 0).stage is Stage.STARTING


def test_a_reader_leaves_an_older_ledger_alone_while_its_tuner_works(tmp_path: Path) -> None:
    first_form(tmp_path)
    before = (tmp_path / "ledger.sqlite").read_bytes()
    with hold_folder(tmp_path), pytest.raises(StateUnusable, match="another tuner works"):
        Ledger(tmp_path, write=False)
    assert (tmp_path / "ledger.sqlite").read_bytes() == before


def test_several_writers_under_one_holder_lose_nothing(tmp_path: Path) -> None:
    """A daemon and its workers write one ledger at the same time."""
    with Ledger(tmp_path, write=True) as ledger:
        study = new_study(ledger)
        workers = [
            subprocess.Popen([sys.executable, "-c", _WORKER, str(tmp_path), str(n)])
            for n in range(3)
        ]
        for n in range(40):
            ledger.note(study, "note", {"who": "daemon", "n": n})
        assert [w.wait(30) for w in workers] == [0, 0, 0]
    with Ledger(tmp_path, write=True) as ledger:
        said = [(e.data["who"], e.data["n"]) for e in ledger.events(study, kinds=["note"])]
        assert len(said) == len(set(said)) == 160
        assert ledger.db._seal.read() is not None


def test_a_ledger_of_a_newer_form_and_another_programs_are_refused(tmp_path: Path) -> None:
    for version, error, words in (
        (99, StateUnusable, r"a newer tuner wrote this ledger \(form 99"),
        (0, LedgerCorrupt, "another program"),
    ):
        folder = tmp_path / str(version)
        folder.mkdir()
        db = sqlite3.connect(folder / "ledger.sqlite")
        db.executescript(f"CREATE TABLE songs (name); PRAGMA user_version = {version};")
        db.close()
        before = (folder / "ledger.sqlite").read_bytes()
        with pytest.raises(error, match=words):
            Ledger(folder, write=True)
        assert (folder / "ledger.sqlite").read_bytes() == before


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    with Ledger(tmp_path / "state", write=True) as ledger:
        new_study(ledger)
        modes = {p.name: p.stat().st_mode & 0o077 for p in (tmp_path / "state").iterdir()}
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0
    assert {name for name, mode in modes.items() if mode} <= {"ledger.lock"}
    assert "ledger.seal" in modes


def test_a_reader_cannot_change_anything(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        new_study(ledger)
    with Ledger(tmp_path, write=False) as reader, pytest.raises(StateUnusable, match="readonly"):
        reader.set_status(1, "finished")


def test_a_ledger_that_is_being_made_holds_no_study_yet(tmp_path: Path) -> None:
    (tmp_path / "ledger.sqlite").touch()
    with pytest.raises(StudyNotFound, match="no study"):
        Ledger(tmp_path, write=False)


def test_an_unwritable_folder_is_a_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateUnusable, match="cannot be written"):
        Ledger(tmp_path / "file" / "state", write=True)


def test_names_are_unique_and_missing_ones_are_said(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        new_study(ledger, "one")
        with pytest.raises(StudyConflict):
            new_study(ledger, "one")
        with pytest.raises(StudyNotFound, match="studies here: one"):
            ledger.study("two")
        with pytest.raises(StudyNotFound):
            ledger.trial(1, 5)


def test_a_trial_is_told_once(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        trial = new_trial(ledger, new_study(ledger))
        trial = ledger.advance(trial, Stage.VERIFIED)
        trial = ledger.advance(
            trial, Stage.TOLD, score=1.5, feasible=True, constraints={"a": -1.0}, value=1.5
        )
        assert (trial.score, trial.feasible, trial.constraints) == (1.5, True, {"a": -1.0})
        with pytest.raises(LedgerCorrupt):
            ledger.advance(trial, Stage.TOLD)


def test_no_other_column_can_be_set(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        trial = new_trial(ledger, new_study(ledger))
        with pytest.raises(TypeError, match="params"):
            ledger.advance(trial, Stage.STARTING, params={})
        assert ledger.trial(trial.study, 0).stage is Stage.PLANNED


def test_nan_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        trial = new_trial(ledger, new_study(ledger))
        with pytest.raises(ValueError, match="JSON"):
            ledger.advance(trial, Stage.STARTING, metrics={"x": float("nan")})
        assert ledger.trial(trial.study, 0).stage is Stage.PLANNED


@pytest.mark.slow
def test_a_reader_in_the_writers_process_does_not_drop_its_locks(tmp_path: Path) -> None:
    """Else another process that closes its connection takes itself for the last and removes the log."""
    with Ledger(tmp_path, write=True) as ledger:
        study = new_study(ledger)
        for n in range(5):
            Ledger(tmp_path, write=False).close()
            ledger.note(study, "note", {"n": n})
            worker = [sys.executable, "-c", _WORKER, str(tmp_path), str(n)]
            subprocess.run(worker, check=True)
        assert (tmp_path / "ledger.sqlite-wal").exists()
    with Ledger(tmp_path, write=True) as ledger:
        assert len(ledger.events(study, kinds=["note"])) == 5 * 41


CLOSED_UNDER_A_QUESTION = """
import sys, threading
from pathlib import Path
from tuner.store.ledger import Ledger

slow = (
    "WITH RECURSIVE n(i) AS (SELECT 1 + begun() UNION ALL SELECT i + 1 FROM n WHERE i < 200000)"
    " SELECT max(i) FROM n"
)
for _ in range(8):
    ledger = Ledger(Path(sys.argv[1]), write=False)
    begun, found = threading.Event(), []
    ledger.db._db.create_function("begun", 0, lambda: begun.set() or 0)
    asking = threading.Thread(target=lambda: found.append(ledger.db.rows(slow)[0][0]))
    asking.start()
    assert begun.wait(20)
    ledger.close()
    asking.join()
    assert found == [200000], found
"""


def test_a_ledger_is_not_closed_under_a_question(tmp_path: Path) -> None:
    """In a process of its own: without that, it would end by a signal."""
    Ledger(tmp_path, write=True).close()
    argv = [sys.executable, "-c", CLOSED_UNDER_A_QUESTION, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
