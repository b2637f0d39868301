from __future__ import annotations

from pathlib import Path

from tests.fakes.ledgers import fill
from tuner.daemon.view import Views, trial_detail
from tuner.search.keys import key
from tuner.store.ledger import Ledger, Said
from tuner.store.overview import briefs
from tuner.store.rows import Origin
from tuner.store.stages import Stage


def test_levels_are_shown_and_a_held_trial_says_its_level(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        row = fill(ledger, "s", trials=3)
        rows = [{"level": "short", "standing": "agrees"}]
        ledger.note(row.id, "levels", {"rows": []})
        ledger.note(row.id, "levels", {"rows": rows})
        trial = ledger.plan(row.id, origin=Origin.SEARCH, params={}, assignment={}, deployment={})
        judgement = {"verdict": "held_on_level", "failed": True, "level": "short"}
        trial = ledger.advance(
            trial, Stage.VERIFIED, verdict="held_on_level", judgement=judgement, feasible=False
        )
        ledger.advance(trial, Stage.TOLD)
        assert Views(ledger, None).detail(row).levels == rows
        shown = briefs(ledger, row.id)
        assert [brief["level"] for brief in shown] == [None, None, None, "short"]
        assert shown[-1]["score"] is None


def test_starts_of_the_finals_are_known_once_they_have_begun(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        row = fill(ledger, "s", trials=3)
        views = Views(ledger, None)
        assert views.detail(row).finals is None
        ledger.note(row.id, "finalists", {"numbers": [1], "starts": 0, "rounds": 1})
        assert views.detail(row).finals == 0
        ledger.set_status(row.id, "running")
        assert views.detail(row).finals is None


def test_a_trial_says_what_the_gate_of_a_proxy_did_with_it(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        row = fill(ledger, "s", trials=1)
        points = [{"seqs": 0}, {"seqs": 1}, {"seqs": 2}]
        audit = {"what": "audit", "text": "an audit", "point": key(points[0]), "key": "k"}
        off = {"what": "deferred", "text": "puts off", "points": [key(points[1])], "key": "k"}
        beside: dict[int, list[Said]] = {0: [("gate", audit), ("gate", off)]}
        for place, point in enumerate(points):
            ledger.plan(
                row.id,
                origin=Origin.SEARCH,
                params={},
                assignment=point,
                deployment={"argv": [], "env": {}},
                beside=beside.get(place, ()),
            )
        said = [trial_detail(ledger, row, ledger.trial(row.id, n)).proxy for n in (1, 2, 3)]
        assert said == [["an audit"], ["the proxy had put it off when trial 1 was chosen"], []]
