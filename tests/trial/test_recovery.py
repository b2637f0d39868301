from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.ledgers import fill
from tuner.errors import ResidueFound
from tuner.store.ledger import Ledger
from tuner.store.rows import Origin
from tuner.trial.recovery import end_leftovers


def test_an_engine_that_cannot_be_ended_is_told_once_as_a_quarantine_of_the_host(
    tmp_path: Path,
) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        study = fill(ledger, "one", trials=1).id
        trial = ledger.plan(
            study, origin=Origin.SEARCH, params={}, assignment={}, deployment={"launch": "rocket"}
        )
        ledger.launch_intended(trial, "rocket", {})
        for _ in range(2):
            with pytest.raises(ResidueFound, match="a launch of kind rocket"):
                end_leftovers(ledger, {}, study)
        (event,) = ledger.events(study, kinds=["quarantine"])
        assert event.number == trial.number
        assert event.data["device"] == "host"
        assert "a launch of kind rocket" in event.data["reason"]
        assert ledger.quarantined()["host"] == event.data["reason"]
