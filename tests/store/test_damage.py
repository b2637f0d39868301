"""Whatever is done to the ledger's files: it goes on with all of it, or it is refused and left alone."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.store.samples import FILES, content, copy, fill, new_study, raw
from tuner.errors import LedgerCorrupt, NoSpaceLeft, TunerError
from tuner.store.ledger import Ledger
from tuner.store.seal import SEAL_NAME

MAIN, WAL, SEAL = FILES


@dataclass(frozen=True)
class Sample:
    """A ledger at rest, and the same one as a kill leaves it."""

    closed: Path
    crashed: Path
    expected: dict[str, Any]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    folder = tmp_path_factory.mktemp("sample")
    Ledger(folder / "state", write=True).close()  # the tables are in the main file
    with Ledger(folder / "state", write=True) as ledger:
        fill(ledger)
        crashed = copy(folder / "state", folder / "crashed")
        expected = content(ledger)
    return Sample(folder / "state", crashed, expected)


def outcome(folder: Path, expected: dict[str, Any]) -> str:
    """What becomes of a damaged ledger: ``whole``, ``refused``, or what is wrong."""
    before = raw(folder)
    try:
        with Ledger(folder, write=False) as reader:
            if content(reader) != expected:
                return "a reader was given something else"
    except TunerError:
        pass
    try:
        with Ledger(folder, write=True) as ledger:
            return "whole" if content(ledger) == expected else "silently wrong"
    except LedgerCorrupt as error:
        if raw(folder) != before:
            return "refused, and touched"
        return "refused" if str(folder) in str(error) and "ove" in str(error) else str(error)


def cut(source: Path, target: Path, name: str, size: int) -> Path:
    copy(source, target)
    os.truncate(target / name, size)
    return target


def steps(size: int, every: int) -> list[int]:
    """Places in a file: all near the borders of pages and frames, and one in so many elsewhere."""
    near = {b + d for b in range(0, size, 2048) for d in (-1, 0, 1)}
    return sorted(n for n in {*near, *range(0, size, every), size - 1} if 0 <= n < size)


EVERY = int(os.environ.get("TUNER_TEST_EVERY", "61"))
"""How dense the slow tests are; 1 tries each byte, which takes the better part of an hour."""


@pytest.fixture(
    params=[
        pytest.param(1999, id="sampled"),
        pytest.param(EVERY, id="dense", marks=pytest.mark.slow),
    ]
)
def every(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("state", "name"), [("closed", MAIN), ("crashed", MAIN), ("crashed", WAL)])
def test_a_file_that_was_cut_anywhere(
    sample: Sample, tmp_path: Path, every: int, state: str, name: str
) -> None:
    source: Path = getattr(sample, state)
    places = steps((source / name).stat().st_size, every)
    found = {n: outcome(cut(source, tmp_path / str(n), name, n), sample.expected) for n in places}
    assert set(found.values()) <= {"whole", "refused"}, found
    print(f"{len(places)} cuts of {name}: {sum(v == 'refused' for v in found.values())} refused")


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("state", "name"), [("closed", MAIN), ("crashed", MAIN), ("crashed", WAL)])
def test_a_file_that_was_torn_anywhere(
    sample: Sample, tmp_path: Path, every: int, state: str, name: str
) -> None:
    """A sector that was never written: zeros, or what was there before."""
    source: Path = getattr(sample, state)
    chance = random.Random(7)
    places = steps((source / name).stat().st_size, every)[:: 5 if every > 100 else 1]
    found = {}
    for place in places:
        folder = copy(source, tmp_path / str(place))
        with (folder / name).open("r+b") as file:
            file.seek(place)
            size = chance.choice([1, 16, 200, 512])
            file.write(chance.choice([bytes(size), chance.randbytes(size)]))
        found[place] = outcome(folder, sample.expected)
    assert set(found.values()) <= {"whole", "refused"}, found
    print(f"{len(places)} tears of {name}: {sum(v == 'refused' for v in found.values())} refused")


def test_every_cut_of_the_seal_is_whole_or_refused(sample: Sample, tmp_path: Path) -> None:
    size = (sample.closed / SEAL).stat().st_size
    for n in range(size + 1):
        found = outcome(cut(sample.closed, tmp_path / str(n), SEAL, n), sample.expected)
        assert found in {"whole", "refused"}
        assert n < 32 or found == "whole"


@pytest.mark.parametrize("name", [MAIN, WAL])
def test_a_file_that_is_gone_is_missed(sample: Sample, tmp_path: Path, name: str) -> None:
    folder = copy(sample.crashed, tmp_path / "x")
    (folder / name).unlink()
    with pytest.raises(LedgerCorrupt, match=r"missing|cut to pieces"):
        Ledger(folder, write=True)
    assert name not in raw(folder)


def test_without_its_seal_a_ledger_is_taken_as_it_is(sample: Sample, tmp_path: Path) -> None:
    folder = cut(sample.crashed, tmp_path / "x", WAL, 9000)
    with pytest.raises(LedgerCorrupt, match=f"move {SEAL_NAME} away"):
        Ledger(folder, write=True)
    (folder / SEAL).rename(folder / "old.seal")
    with Ledger(folder, write=True) as ledger:
        assert len(content(ledger)) < len(sample.expected) or content(ledger) != sample.expected


def test_an_older_copy_of_the_ledger_is_not_taken_for_the_newest(tmp_path: Path) -> None:
    with Ledger(tmp_path / "state", write=True) as ledger:
        new_study(ledger)
    old = (tmp_path / "state" / MAIN).read_bytes()
    with Ledger(tmp_path / "state", write=True) as ledger:
        fill_more(ledger)
    (tmp_path / "state" / MAIN).write_bytes(old)
    with pytest.raises(LedgerCorrupt, match="the last 1 of 2 changes are missing"):
        Ledger(tmp_path / "state", write=True)


def fill_more(ledger: Ledger) -> None:
    ledger.note(1, "note", {"text": "later"})


def test_a_row_that_was_edited_by_hand_is_refused(sample: Sample, tmp_path: Path) -> None:
    folder = copy(sample.closed, tmp_path / "x")
    with sqlite3.connect(folder / MAIN) as db:
        db.execute("DROP TRIGGER trials_sum_update")
        db.execute("UPDATE trials SET score = 99")
    db.close()
    with pytest.raises(LedgerCorrupt, match="a row of trials is not what tuner wrote"):
        Ledger(folder, write=True)


_WRITER = """
import os, resource, signal, sys
from pathlib import Path
from tests.store.samples import new_study
from tuner.errors import TunerError
from tuner.store.ledger import Ledger
folder, room = Path(sys.argv[1]), int(sys.argv[2])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with Ledger(folder, write=True) as ledger:
    study = new_study(ledger)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    done = 0
    try:
        while done < 4000:
            ledger.note(study, "note", {"text": "x" * 200})
            done += 1
    except TunerError as error:
        print(done, type(error).__name__, error)
os._exit(0)
"""


@pytest.mark.parametrize("room", [300_000, 300_123, 327_680])
def test_a_disk_that_refuses_a_write_loses_nothing(tmp_path: Path, room: int) -> None:
    """A file that may not grow: SQLite is told of an input and output error, as by a failing disk."""
    done = subprocess.run(
        [sys.executable, "-c", _WRITER, str(tmp_path), str(room)],
        capture_output=True,
        text=True,
        check=True,
    )
    count, kind, words = done.stdout.split(maxsplit=2)
    assert kind in {"StateUnusable", "NoSpaceLeft"}
    assert str(tmp_path) in words
    with Ledger(tmp_path, write=True) as ledger:
        assert len(ledger.events(1, kinds=["note"])) == int(count) > 0
        ledger.note(1, "note", {"text": "more"})


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.getuid() != 0:
        pytest.skip("only root can mount")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("a file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_said_and_what_was_written_stays(small_disk: Path) -> None:
    written = 0

    def write_until_it_fails(ledger: Ledger) -> None:
        nonlocal written
        while True:
            ledger.note(1, "note", {"text": "x" * 500})
            written += 1

    with Ledger(small_disk / "state", write=True) as ledger:
        new_study(ledger)
        with pytest.raises(NoSpaceLeft, match=r"the disk is full.*tuner resume"):
            write_until_it_fails(ledger)
        assert len(ledger.events(1, kinds=["note"])) == written > 0
        with pytest.raises(NoSpaceLeft):
            ledger.note(1, "note", {"text": "x" * 50000})
    with Ledger(small_disk / "state", write=False) as reader:
        assert len(reader.events(1)) == written
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    with Ledger(small_disk / "state", write=True) as ledger:
        ledger.note(1, "note", {"text": "there is room again"})
        assert len(ledger.events(1)) == written + 1


def test_a_kill_while_writing_leaves_a_ledger_that_goes_on(tmp_path: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(tmp_path), str(2**30)], stdout=subprocess.DEVNULL
    )
    while not (tmp_path / MAIN).exists() or (tmp_path / MAIN).stat().st_size == 0:
        assert writer.poll() is None
    time.sleep(0.3)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    with Ledger(tmp_path, write=True) as ledger:
        known = ledger.studies()
        texts = [e.data["text"] for e in ledger.events(1)]
        assert texts == ["x" * 200] * len(texts)
        assert known or not texts
        if known:
            ledger.note(1, "note", {"text": "more"})
