"""A state folder that grew too large: what lost is thinned, proof stays."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.fakes.ledgers import fill
from tuner.load.record import Record
from tuner.load.store import read_records, write_records
from tuner.store.ledger import Ledger
from tuner.store.rows import Origin
from tuner.store.stages import Stage
from tuner.trial.entry import attempt_folder, study_folder
from tuner.trial.thinning import KEPT_BEST, folder_size, thin

TRIALS = 20
RECORDS = [
    Record(
        workload="main", session=n, turn=0, scheduled=n / 4, sent=n / 4, first_token=None, end=None
    )
    for n in range(100)
]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A study whose trials each left a log, telemetry and records."""
    with Ledger(tmp_path / "state", write=True) as made:
        fill(made, "one", trials=TRIALS)
        for number in range(TRIALS):
            folder = attempt_folder(study_folder(made, "one"), number, 1)
            folder.mkdir(parents=True)
            (folder / "engine.log").write_text(f"trial {number}\n" * 800)
            (folder / "telemetry.jsonl").write_text('{"at": 1.0}\n' * 2000)
            write_records(folder / "measure-main.jsonl", RECORDS)
            write_records(folder / "warm-main.jsonl", RECORDS)
    return Ledger(tmp_path / "state", write=False)


def names(ledger: Ledger, number: int) -> set[str]:
    folder = attempt_folder(study_folder(ledger, "one"), number, 1)
    return {path.name for path in folder.iterdir()}


WHOLE = {"engine.log", "telemetry.jsonl", "measure-main.jsonl", "warm-main.jsonl"}


def kept(ledger: Ledger) -> set[int]:
    trials = [t for t in ledger.trials(1) if t.feasible and t.score is not None]
    best = sorted(trials, key=lambda t: -(t.score or 0.0))[:KEPT_BEST]
    return {0} | {t.number for t in best}


def test_a_folder_that_is_small_enough_is_left_alone(ledger: Ledger) -> None:
    with ledger:
        size = folder_size(ledger.folder)
        done = thin(ledger, size)
        assert (done.before, done.after, done.packed, done.removed) == (size, size, 0, 0)
        assert all(names(ledger, number) == WHOLE for number in range(TRIALS))


def test_telemetry_of_the_oldest_losers_is_packed_first(ledger: Ledger) -> None:
    with ledger:
        size = folder_size(ledger.folder)
        done = thin(ledger, size - 60_000)
        assert done.after == folder_size(ledger.folder) <= size - 60_000
        losers = [n for n in range(TRIALS) if n not in kept(ledger)]
        packed = [n for n in range(TRIALS) if "telemetry.jsonl.gz" in names(ledger, n)]
        assert packed == losers[: len(packed)]
        assert done.packed == len(packed)
        assert done.removed == 0
        folder = attempt_folder(study_folder(ledger, "one"), packed[0], 1)
        assert gzip.decompress((folder / "telemetry.jsonl.gz").read_bytes()).count(b"\n") == 2000


def test_in_the_end_the_logs_of_losers_and_all_of_the_best_are_left(ledger: Ledger) -> None:
    with ledger:
        done = thin(ledger, 1)
        assert done.after == folder_size(ledger.folder) > 1
        best = kept(ledger)
        for number in range(TRIALS):
            assert names(ledger, number) == (WHOLE if number in best else {"engine.log.gz"})
            log = attempt_folder(study_folder(ledger, "one"), number, 1) / "engine.log.gz"
            if number not in best:
                assert gzip.decompress(log.read_bytes()) == f"trial {number}\n".encode() * 800
        again = thin(ledger, 1)
        assert (again.packed, again.removed) == (0, 0)


def test_packed_records_are_read_as_they_were(ledger: Ledger) -> None:
    with ledger:
        loser = next(n for n in range(TRIALS) if n not in kept(ledger))
        folder = attempt_folder(study_folder(ledger, "one"), loser, 1)
        limit = folder_size(ledger.folder)
        while "measure-main.jsonl" in names(ledger, loser):
            limit -= 5_000
            assert limit > 0
            thin(ledger, limit)
        assert "measure-main.jsonl.gz" in names(ledger, loser)
        assert list(read_records(folder / "measure-main.jsonl")) == RECORDS


def test_a_trial_that_is_not_over_is_not_touched(ledger: Ledger) -> None:
    with ledger:
        state = ledger.folder
    with Ledger(state, write=True) as writer:
        trial = writer.plan(1, origin=Origin.SEARCH, params={}, assignment=None, deployment={})
        writer.advance(trial, Stage.STARTING)
        folder = attempt_folder(study_folder(writer, "one"), trial.number, 1)
        folder.mkdir(parents=True)
        (folder / "telemetry.jsonl").write_text("x" * 100_000)
        thin(writer, 1)
        assert (folder / "telemetry.jsonl").is_file()
