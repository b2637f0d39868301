from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.world import World
from tests.trial.test_study import run
from tuner.load.check import Difference, TokenCheck
from tuner.trial.counted import as_json, miscounted
from tuner.trial.events import Happening

HELD = TokenCheck(4, 8, ())
OFF = TokenCheck(4, 8, (Difference(0, 1, "output", 9, 6),))


def test_only_what_held_at_the_baseline_is_held_against_a_trial() -> None:
    now = {"talk": OFF, "curve": HELD}
    (said,) = miscounted(now, None)
    assert said.startswith("workload talk: the token counts are not those of the server's own")
    assert "turn 1: output 9, not 6" in said
    assert miscounted(now, as_json({"talk": HELD, "curve": HELD})) == (said,)
    assert miscounted(now, as_json({"talk": OFF, "curve": HELD})) == ()
    assert miscounted(now, {}) == ()  # the baseline's server could not be asked
    assert miscounted({"curve": HELD}, as_json({"curve": HELD})) == ()


CLAIMS = {
    "claims": {"env": "FAKE_EXTRA", "choices": [0, 5], "baseline": 0},
    "seqs": {"flag": "--max-num-seqs", "choices": [1, 2], "baseline": 1},
}


@pytest.mark.slow
@pytest.mark.xdist_group("engines")
@pytest.mark.timeout(120)
def test_a_trial_does_not_win_by_claiming_tokens_that_it_did_not_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    changes = {"parameters": CLAIMS, "first": [{"claims": 5}], "budget": {"trials": 2}}
    heard: list[Happening] = []
    base, trial = run(World(tmp_path, changes).make(), heard=heard)
    assert base.metrics is not None
    counts = base.metrics["token_counts"]["main"]
    assert (counts["prompts"], counts["answers"], counts["off"]) == (2, 4, 0)
    assert not [w for w in heard if w.kind == "note" and "token counts" in w.data["text"]]
    assert trial.verdict == "quality_failed"
    assert not trial.feasible
    assert trial.judgement is not None
    said = " ".join(line["text"] for line in trial.judgement["evidence"])
    assert "4 of 2 prompts and 4 answers are off" in said
    assert "output 9, not 4" in said


@pytest.mark.slow
@pytest.mark.xdist_group("engines")
@pytest.mark.timeout(120)
def test_a_baseline_that_miscounts_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    heard: list[Happening] = []
    world = World(tmp_path, {"budget": {"trials": 1}}, recipe_env={"FAKE_EXTRA": "5"}).make()
    (base,) = run(world, heard=heard)
    assert base.metrics is not None
    assert base.metrics["token_counts"]["main"]["off"] == 4
    (note,) = [w for w in heard if w.kind == "note" and "token counts" in w.data["text"]]
    assert note.number == 0
