from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tuner.store.redact import Redactor
from tuner.trial import scrub

CANARY = Redactor({"TOKEN": "canary-canary-canary"})


def test_a_file_that_cannot_be_opened_leaves_nothing_beside_it(tmp_path: Path) -> None:
    before = psutil.Process().num_fds()
    with pytest.raises(FileNotFoundError):
        scrub._scrub(tmp_path / "gone", CANARY)
    assert psutil.Process().num_fds() == before
    assert not list(tmp_path.iterdir())


def test_only_what_holds_a_secret_is_rewritten(tmp_path: Path) -> None:
    plain, spoken = tmp_path / "plain", tmp_path / "spoken"
    plain.write_text("nothing here")
    spoken.write_text("it is canary-canary-canary")
    number = plain.stat().st_ino
    assert scrub.scrub(tmp_path, CANARY) == [spoken]
    assert "canary" not in spoken.read_text()
    assert (plain.stat().st_ino, plain.read_text()) == (number, "nothing here")
