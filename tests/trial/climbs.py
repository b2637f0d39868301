"""Studies with levels without engines: trials that come to what a surface says, in a real ledger."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuner.build.engine import Engine, Fingerprint
from tuner.spec import Context, Hardware, SearchSpace, parse_space
from tuner.spec.levels import REAL
from tuner.store.ledger import Ledger
from tuner.store.rows import StudyRow, TrialRow
from tuner.store.stages import Stage
from tuner.telemetry.hardware import detect_hardware
from tuner.telemetry.samples import NoDevices
from tuner.trial.climbing import EVENT, HELD, Came, Climbing
from tuner.trial.context import Study
from tuner.trial.early import CLEARLY_WORSE
from tuner.trial.events import Voice
from tuner.trial.shadow import Shadow
from tuner.trial.study import StudyRunner
from tuner.trial.wishes import Wishes

SPACE = """\
version: 1
study: climbs
seed: {seed}
engine: {{recipe: cpu, model: {{make: tiny-hybrid}}}}
parameters:
  seqs: {{flag: --max-num-seqs, choices: [1, 2, 4, 8, 16, 32], baseline: 1}}
  batch: {{flag: --max-num-batched-tokens, choices: [256, 512, 1024, 2048, 4096, 8192], baseline: 512}}
  moe: {{env: ENGINEX_MOE_TINY_IMPL, choices: [native, loop], baseline: loop}}
budget: {{trials: {most}}}
workload: {{kind: conversations, conversations: 8, turns: 2, concurrency: 4, turn_tokens: 100, output_tokens: 8}}
search: {{{sampler}, repeats: {{baseline: 3, each: 1}}, finalists: {{count: 1, rounds: 2}}{climb}}}
{levels}"""
CHANCE = "sampler: random"
"""A sampler that costs no time, for tests that are not about what is tried."""
LEVELS = "levels: [{name: short, leaves_out: long ones, workload: {conversations: 4}}]\n"

Surface = Callable[[Mapping[str, Any]], float]


def truth(params: Mapping[str, Any]) -> float:
    """A smooth surface with a factor of about six from end to end."""
    seqs, batch = math.log2(params["seqs"]), math.log2(params["batch"]) - 8
    value = 100 * math.exp(-(((seqs - 3.2) / 3.5) ** 2) - ((batch - 2.6) / 5) ** 2)
    return value * (1.4 if params["moe"] == "native" else 1.0)


def inverted(params: Mapping[str, Any]) -> float:
    return 1e4 / truth(params)


@dataclass
class Trials:
    """Runs trials in no time: a study's runner uses it in place of the one that starts engines.

    Attributes:
        climbs: The study's levels.
        cheap: What a point comes to on the short level.
        ends: What a point lies below that is ended early as clearly worse; None for any other.
        falls: Which points crash on the real load, after the cheaper ones.
        keeps: Which points keep the gates of the real load.
        seconds: What a load takes, by level; a start takes 20.
        ran: The levels on which each trial was measured, by number.
    """

    study: Study
    cheap: Surface
    sigma: float = 0.01
    seconds: Mapping[str, float] = field(default_factory=lambda: {"short": 10.0, REAL: 100.0})
    fails: Callable[[Mapping[str, Any]], bool] = lambda _: False
    ends: Callable[[Mapping[str, Any]], float | None] = lambda _: None
    falls: Callable[[Mapping[str, Any]], bool] = lambda _: False
    keeps: Callable[[Mapping[str, Any]], bool] = lambda _: True
    ran: dict[int, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        study = self.study
        self.climbs = Climbing(study.ledger, study.row.id, study.space)

    def run(self, trial: TrialRow) -> TrialRow:
        """Take a planned trial to its proof."""
        ledger = self.study.ledger
        trial = ledger.advance(trial, Stage.STARTING)
        chance = random.Random(trial.number)
        self.ran[trial.number] = []
        if self.fails(trial.params):
            return self._over(trial, verdict="engine_crash", judgement=_judged("engine_crash"))
        bound = self.ends(trial.params)
        if bound is not None:
            more = {"estimate": 0.9 * bound, "bound": bound, "failed": True}
            found_worse = {**_judged(CLEARLY_WORSE), **more}
            return self._over(trial, verdict=CLEARLY_WORSE, judgement=found_worse)
        found: dict[str, Came] = {}
        for level in self.climbs.levels(trial):
            value = self.cheap(trial.params) * math.exp(chance.gauss(0, self.sigma))
            found[level] = Came(value)
            self._measure(trial, level, found[level])
            held = self.climbs.held(trial, found)
            if held is not None:
                return self._over(trial, verdict=HELD, judgement=held.as_json())
        if self.falls(trial.params):
            self.ran[trial.number].append(REAL)
            return self._over(trial, verdict="engine_crash", judgement=_judged("engine_crash"))
        score = truth(trial.params) * math.exp(chance.gauss(0, self.sigma))
        self._measure(trial, REAL, Came(score))
        for stage in (Stage.READY, Stage.PROBED, Stage.WARMED, Stage.MEASURED):
            trial = ledger.advance(trial, stage)
        gates = dict.fromkeys(("start", "population", "memory"), -1.0)
        kept = self.keeps(trial.params)
        gates |= {} if kept else {"ttft": 1.0}
        return self._over(
            trial,
            verdict="healthy",
            judgement=_judged("healthy"),
            score=score,
            feasible=kept,
            metrics={"workloads": {}},
            constraints=gates,
        )

    def _measure(self, trial: TrialRow, level: str, came: Came) -> None:
        self.ran[trial.number].append(level)
        if self.climbs.any and trial.block is None:
            said = self.climbs.said(trial, level, came, self.seconds[level])
            self.study.ledger.note(self.study.row.id, EVENT, said, trial.number)

    def _over(self, trial: TrialRow, **found: Any) -> TrialRow:
        trial = self.study.ledger.advance(trial, Stage.STOPPING)
        return self.study.ledger.advance(trial, Stage.VERIFIED, **found)

    def engine(self, *, blocks: bool = False) -> float:
        """Seconds that the trials would have taken, those in blocks left out unless wanted."""
        ledger = self.study.ledger
        wanted = {t.number for t in ledger.trials(self.study.row.id) if blocks or t.block is None}
        return sum(
            20 + sum(self.seconds[level] for level in levels)
            for number, levels in self.ran.items()
            if number in wanted
        )


def _judged(verdict: str) -> dict[str, Any]:
    return {
        "verdict": verdict,
        "failed": verdict != "healthy",
        "teaches": True,
        "violation": None,
        "retry": "none",
    }


class Runner(StudyRunner):
    """A study's runner with trials that take no time.

    Args:
        trials: What runs trials.
        shadow: A proxy and its gate, if it is not the step simulator.
    """

    def __init__(self, trials: Trials, shadow: Shadow | None = None) -> None:
        super().__init__(trials.study, shadow)
        self._runner = trials  # type: ignore[assignment] # the part of a runner that is used

    def _objection(self, _: TrialRow) -> dict[str, Any] | None:
        return None


def space(
    folder: Path,
    *,
    most: int = 40,
    levels: str = LEVELS,
    seed: int = 1,
    climb: str = "",
    sampler: str = "startup: 6",
) -> SearchSpace:
    """The search space of such a study."""
    text = SPACE.format(seed=seed, most=most, levels=levels, climb=climb, sampler=sampler)
    return parse_space(text, folder / "space.yaml")


def enter(ledger: Ledger, of: SearchSpace) -> StudyRow:
    """The study in the ledger; the one that is there already when it is resumed."""
    known = {row.name: row for row in ledger.studies()}
    return known.get(of.study) or ledger.create_study(
        name=of.study, fingerprint=of.fingerprint, space=of.text, origin="/space.yaml"
    )


def engine_of(name: str) -> Engine:
    """An engine of which nothing exists but what it is known by."""
    return Engine(
        recipe=name,
        digest=hashlib.sha256(name.encode()).hexdigest(),
        kind="existing",
        root=Path("/nowhere"),
        python=Path("/nowhere/bin/python"),
        server=("vllm",),
        env=(),
        fingerprint=Fingerprint("3.11.0", "0.32.0", "2.13.0", (), "a processor", ()),
    )


def study_of(ledger: Ledger, of: SearchSpace, wishes: Wishes | None = None) -> Study:
    """All that such a study has at hand: engines and models by name alone, and no device."""
    row = enter(ledger, of)
    return Study(
        ledger=ledger,
        row=row,
        space=of,
        context=Context.of(of, Hardware(0, 8, 64 << 30, 0)),
        folder=ledger.folder,
        engines={one.name: engine_of(one.name) for one in of.engines},
        models={model.name: Path() for model in of.models},
        launcher=None,  # type: ignore[arg-type] # nothing is started
        hardware=detect_hardware(NoDevices()),
        devices=None,  # type: ignore[arg-type]
        gates=(),
        weights=None,  # type: ignore[arg-type]
        voice=Voice(ledger, row.id),
        wishes=wishes or Wishes(),
    )
