from __future__ import annotations

from tuner.trial.care.finding import bad, note, ok, well


def test_a_note_is_no_illness() -> None:
    assert well([ok("a", "fine"), note("b", "worth knowing", "do this")])
    assert not well([ok("a", "fine"), bad("b", "broken", "mend it")])


def test_a_finding_as_json() -> None:
    assert bad("disk", "full", "make room").as_json() == {
        "check": "disk",
        "level": "bad",
        "said": "full",
        "mend": "make room",
    }
