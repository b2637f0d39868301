"""How many launches a study loses to memory, over a space of which half does not fit.

The engine is the tests' fake server with a memory model of its own: weights, activations that grow with
the tokens of a step, a state for each sequence, and the KV space asked for, in so many GiB in all. What
does not fit fails at its start with vLLM's own words. The tuner is told the machine's size and what the
processes hold, as it is on a real one, but not the model. Everything above is the real thing: ledger,
launcher, verdicts, margins, sampler. Chance gets the same, and makes nothing of it.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

from tests.fakes.world import World
from tuner.spec import load_space
from tuner.store.ledger import Ledger
from tuner.store.rows import Origin, TrialRow
from tuner.telemetry import watch
from tuner.telemetry.hardware import Hardware, detect_hardware
from tuner.telemetry.host import EngineTree
from tuner.telemetry.samples import DeviceSource, TreeSample
from tuner.trial import runner, session
from tuner.trial.entry import enter_study
from tuner.trial.session import work
from tuner.trial.study import MEMORY_VERDICTS
from tuner.trial.wishes import Wishes

MEMORY, WEIGHTS, STEP, SEQUENCE = 10.0, 2.0, 0.5, 0.05
"""GiB: of the machine, of the weights, of 1024 tokens of a step, of a sequence."""
SPACE = {
    "kv_space": (1, 2, 3, 4, 5, 6, 7, 8, 10, 12),
    "batch": (512, 1024, 2048, 4096, 8192),
    "seqs": (1, 4, 8, 16, 32),
}
TRIALS = 30


@dataclass(frozen=True)
class Outcome:
    """What one study came to.

    Attributes:
        strategy: How points were chosen.
        seed: The study's seed.
        launches: Points that were started.
        lost: Launches that came to nothing for lack of memory, confirmations included.
        best: The best score.
    """

    strategy: str
    seed: int
    launches: int
    lost: int
    best: float


def fits(kv_space: int, batch: int, seqs: int) -> bool:
    """Whether a point fits, by the model that the fake server has too."""
    return kv_space + WEIGHTS + STEP * batch / 1024 + SEQUENCE * seqs <= MEMORY


def unfit_share() -> float:
    """Part of the space that does not fit."""
    points = list(itertools.product(*SPACE.values()))
    return sum(not fits(*point) for point in points) / len(points)


def study(folder: Path, strategy: str, seed: int, trials: int = TRIALS) -> Outcome:
    """Run a study.

    Args:
        folder: An empty folder.
        strategy: ``tpe`` for the tuner's own search, ``random`` for chance.
        seed: The study's seed.
        trials: Its budget.
    """
    world = World(
        folder,
        _space(strategy, seed, trials),
        recipe_env={
            "FAKE_SPEED": "5",
            "FAKE_MEMORY_GIB": str(MEMORY),
            "FAKE_WEIGHTS_GIB": str(WEIGHTS),
            "FAKE_STEP_GIB": str(STEP),
            "FAKE_SEQUENCE_GIB": str(SEQUENCE),
        },
    ).make()
    with Ledger(world.state, write=True) as ledger, _inside(folder), machine():
        row = enter_study(ledger, load_space(world.space), world.space)
        work(ledger, row, watchers=[], wishes=Wishes(threading.Event()))
        found = [t for t in ledger.trials(row.id) if t.origin is not Origin.REPEAT]
    scores = [t.score for t in found if t.feasible and t.score is not None]
    return Outcome(
        strategy, seed, sum(t.attempt for t in found), _lost(found), max(scores, default=0.0)
    )


def _lost(trials: Sequence[TrialRow]) -> int:
    return sum(trial.attempt for trial in trials if trial.verdict in MEMORY_VERDICTS)


def _space(strategy: str, seed: int, trials: int) -> dict[str, Any]:
    env, flags = "VLLM_CPU_KVCACHE_SPACE", ("--max-num-batched-tokens", "--max-num-seqs")
    kv_space, batch, seqs = (list(choices) for choices in SPACE.values())
    return {
        "seed": seed,
        "parameters": {
            "kv_space": {"env": env, "choices": kv_space, "baseline": kv_space[0], "unit": "GiB"},
            "batch": {"flag": flags[0], "choices": batch, "baseline": batch[0]},
            "seqs": {"flag": flags[1], "choices": seqs, "baseline": seqs[0]},
        },
        "memory": {"host": "100%"},
        "search": {"sampler": strategy, "finalists": {"count": 0}},
        "budget": {"trials": trials},
        "workload": {
            "kind": "conversations",
            "conversations": 6,
            "turns": 2,
            "concurrency": 2,
            "system_tokens": 64,
            "turn_tokens": {"min": 20, "max": 60},
            "output_tokens": 12,
            "request_timeout": "10s",
            "time_limit": "20s",
            "warmup": {"conversations": 1},
        },
    }


class FakeTree(EngineTree):
    """The engine's processes, with the memory that the fake server says it holds."""

    def __init__(self) -> None:
        super().__init__()
        self._told: Path | None = None

    def add(self, pid: int) -> None:
        """Follow one more root."""
        super().add(pid)
        self._told = Path(f"/proc/{pid}/cwd").resolve() / "fake_memory"

    def sample(self) -> TreeSample:
        """One sample."""
        seen = super().sample()
        if self._told is None or not self._told.exists():
            return seen
        held = int(self._told.read_text() or 0)
        return replace(seen, rss=held, pss=held)


@contextmanager
def machine() -> Iterator[None]:
    """A machine of that memory, whose telemetry reads what the fake server says."""

    def hardware(source: DeviceSource) -> Hardware:
        return replace(
            detect_hardware(source), devices=(), memory_total=int(MEMORY * 2**30), numa=()
        )

    def often(*args: Any, **more: Any) -> watch.Watch:
        return watch.Watch(*args, **{**more, "rate": 20.0})  # its loads take half a second

    with (
        mock.patch.object(runner, "Watch", often),
        mock.patch.object(session, "detect_hardware", hardware),
        mock.patch.object(watch, "EngineTree", FakeTree),
    ):
        yield


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Stand in a folder: exports go where one stands."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


HEAD = f"{'search':7} {'seed':>4} {'launches':>8} {'lost to memory':>14} {'best score':>10}"


def line(found: Outcome) -> str:
    """An outcome as a row of the table."""
    return (
        f"{found.strategy:7} {found.seed:4} {found.launches:8} {found.lost:14} {found.best:10,.0f}"
    )


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    """The most and the mean of each strategy's losses."""
    lines = []
    for strategy in dict.fromkeys(each.strategy for each in outcomes):
        lost = [each.lost for each in outcomes if each.strategy == strategy]
        mean = sum(lost) / len(lost)
        lines.append(f"{strategy}: {mean:.1f} launches lost on the average, {max(lost)} at most")
    return lines
