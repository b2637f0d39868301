"""A study on the fake server whose search a proxy orders: everything above the engine is the real thing.

But for the score: what a point comes to is said here, so that no machine's speed decides what is found.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.world import WORKLOAD, World
from tuner.cli.live import PlainLines, wide_console
from tuner.cli.view import StudyView
from tuner.daemon.view import trial_detail
from tuner.fidelity.evidence import Predicted
from tuner.launch.base import Launch
from tuner.load.endpoint import Endpoint
from tuner.spec import load_space
from tuner.spec.deployment import Deployment
from tuner.spec.flags import STEP_FLAG
from tuner.store.ledger import Ledger
from tuner.store.rows import Event, TrialRow
from tuner.trial import runner
from tuner.trial import study as module
from tuner.trial.entry import enter_study, study_folder
from tuner.trial.evidence import Ending
from tuner.trial.loads import Loads
from tuner.trial.outcome import Measured
from tuner.trial.session import work
from tuner.trial.wishes import Wishes

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("engines"), pytest.mark.timeout(300)]

SLOW = {"native": 1.0, "bmm": 1.2, "loop": 1.8}
"""What kernels take for a token."""
CHANGES: dict[str, Any] = {
    "engine": {
        "recipe": "recipe",
        "model": {"path": "model"},
        "flags": {"--enable-prompt-tokens-details": True, STEP_FLAG: True, "--max-num-batched-tokens": 512},
        "deadlines": {"start": "30s", "silence": "15s", "stop": "5s"},
    },
    "parameters": {
        "seqs": {"flag": "--max-num-seqs", "choices": [1, 2, 4, 8], "baseline": 1},
        "moe": {"env": "ENGINEX_MOE_TINY_IMPL", "choices": [*SLOW], "baseline": "loop"},
    },
    "search": {
        "sampler": "random", "proxy": "on", "repeats": {"baseline": 2, "each": 1},
        "finalists": {"count": 1, "rounds": 1},
    },
    "budget": {"trials": 12},
    "workload": {**WORKLOAD, "conversations": 8, "concurrency": 8, "turns": 1, "output_tokens": 12},
}  # fmt: skip


def worth(params: Mapping[str, Any]) -> float:
    """What a point comes to, but for the noise."""
    return float(params["seqs"] / SLOW[params["moe"]])


class Scored(Loads):
    """Loads that are really sent, and come to what is said here."""

    def measure(
        self, trial: TrialRow, endpoint: Endpoint, launch: Launch, ending: Ending
    ) -> Measured | None:
        found = super().measure(trial, endpoint, launch, ending)
        if found is None:
            return None
        value = worth(trial.params) * math.exp(random.Random(trial.number).gauss(0, 0.01))
        said = {
            name: replace(standing, figures={**standing.figures, standing.objective: value})
            for name, standing in found.standings.items()
        }
        return replace(found, standings=said)


@dataclass
class Knows:
    """A proxy that knows what points come to.

    Attributes:
        power: 1, or -1 for one that has it turned round.
    """

    power: int
    ready: bool = True

    def speaks(self, deployment: Deployment) -> bool:
        return STEP_FLAG in deployment.argv

    def learn(self, trial: TrialRow) -> None:
        assert trial.score

    def predict(self, params: Mapping[str, Any], _: Deployment) -> Predicted | str:
        return Predicted(layout="tp1", value=worth(params) ** self.power)


@dataclass
class Ran:
    trials: list[TrialRow]
    gate: list[Event]
    shown: dict[int, list[str]]
    lines: str
    report: str

    @property
    def best(self) -> Mapping[str, Any]:
        found = [t for t in self.trials if t.repeats is None and t.feasible]
        return max(found, key=lambda t: t.score or 0.0).params


Run = Callable[[int], Ran]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)

    def run(power: int) -> Ran:
        monkeypatch.setattr(module, "StepProxy", lambda _: Knows(power))
        monkeypatch.setattr(runner, "Loads", Scored)
        file = World(tmp_path, CHANGES).make().space
        with Ledger(tmp_path / "state", write=True) as ledger:
            row = enter_study(ledger, load_space(file), file)
            lines = PlainLines(StudyView("fake", budget={"trials": 12.0}), wide_console())
            work(ledger, row, watchers=[lines.hear], wishes=Wishes())
            trials = ledger.trials(row.id)
            return Ran(
                trials,
                ledger.events(row.id, kinds=("gate",)),
                {t.number: trial_detail(ledger, row, t).proxy for t in trials},
                capsys.readouterr().out,
                (study_folder(ledger, row.name) / "report.md").read_text(),
            )

    return run


def test_a_right_proxy_orders_what_is_left(run: Run) -> None:
    done = run(1)
    opened = done.gate[0]
    assert opened.data["what"] == "opened"
    assert f"  {opened.data['text']}" in done.lines
    chosen = {e.number: e.data for e in done.gate if "point" in e.data}
    after = [t.number for t in done.trials if t.repeats is None and t.number > (opened.number or 0)]
    assert list(chosen) == after
    for number in after:
        data = chosen[number]
        assert data["text"] in done.shown[number]
        assert f"  trial {number}: {data['text']}" in done.lines
    assert any(e.data["what"] == "deferred" for e in done.gate)
    assert "A proxy that may order the search" in done.report
    assert done.best == {"seqs": 8, "moe": "native"}
    assert len({(t.params["seqs"], t.params["moe"]) for t in done.trials}) == 12


def test_one_that_is_turned_round_never_does(run: Run) -> None:
    done = run(-1)
    assert done.gate == []
    assert not any(done.shown.values())
    assert "it was never trusted" in done.report
    assert done.best == {"seqs": 8, "moe": "native"}
