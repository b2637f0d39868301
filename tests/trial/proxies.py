"""Proxies that are right, and that are wrong in all the ways that a gate has to notice."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.trial.climbs import CHANCE, SPACE, truth
from tuner.fidelity.evidence import Predicted
from tuner.spec import SearchSpace, parse_space
from tuner.spec.deployment import Deployment
from tuner.spec.flags import STEP_FLAG
from tuner.store.rows import TrialRow

Says = Callable[[Mapping[str, Any], int], float]


@dataclass
class Fake:
    """A proxy that says what it is told to say."""

    says: Says
    ready: bool = True
    learnt: list[int] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def speaks(self, _: Deployment) -> bool:
        return True

    def learn(self, trial: TrialRow) -> None:
        self.learnt.append(trial.number)

    def predict(self, params: Mapping[str, Any], _: Deployment) -> Predicted | str:
        self.asked.append(repr(sorted(params.items())))
        value = self.says(params, len(self.learnt) + 1)
        return Predicted(layout=params["moe"], value=value) if value > 0 else "it cannot know"


def silent(params: Mapping[str, Any], number: int) -> float:
    return 0.0


def good(params: Mapping[str, Any], number: int) -> float:
    chance = random.Random(f"{sorted(params.items())} {number}")
    return 7 * truth(params) * math.exp(chance.gauss(0, 0.02))


def inverted(params: Mapping[str, Any], number: int) -> float:
    return 1 / truth(params)


def tied(params: Mapping[str, Any], number: int) -> float:
    return 1.0


def layout_biased(params: Mapping[str, Any], number: int) -> float:
    """Right for one layout, and turned round for the other, which holds the best."""
    return 1e4 / truth(params) if params["moe"] == "native" else truth(params)


def drifting(params: Mapping[str, Any], number: int) -> float:
    return good(params, number) if number <= 12 else inverted(params, number)


def hiding(params: Mapping[str, Any], number: int) -> float:
    """Right but for the best points, which it holds for the worst."""
    near = params["seqs"] in {8, 16} and params["batch"] in {1024, 2048, 4096}
    hidden = near and params["moe"] == "native"
    return good(params, number) / (50 if hidden else 1)


GRID = "sampler: grid"
_ENGINE = "model: {make: tiny-hybrid}"


def acting_space(
    folder: Path,
    *,
    most: int,
    seed: int = 1,
    sampler: str = CHANCE,
    proxy: str = "on",
    name: str = "climbs",
    levels: str = "",
) -> SearchSpace:
    """The space of :mod:`tests.trial.climbs`, in which a proxy may act."""
    text = SPACE.format(
        seed=seed, most=most, levels=levels, climb="", sampler=f"{sampler}, proxy: {proxy}"
    )
    text = text.replace("study: climbs", f"study: {name}")
    if sampler == GRID:
        text = text.replace(f"seed: {seed}\n", "")
    flagged = text.replace(_ENGINE, f"{_ENGINE}, flags: {{{STEP_FLAG}: true}}")
    return parse_space(flagged, folder / "space.yaml")
