"""What operator sums and the step-conditioned simulator say of every cell, before and after anchors."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fidelity_cpu.measure import phases
from benchmarks.fidelity_cpu.setup import RANKS, TOKENS, Cell, cells, plans
from tuner.fidelity.asked import Asked, asked
from tuner.fidelity.simulate import Scheduler, Simulated, StepTime, simulate
from tuner.fidelity.simulator import coverage
from tuner.fidelity.steplog import steps_of_log
from tuner.fidelity.steptime import Batch, Setting, StepModel, StepRecord, fit_steps
from tuner.load.store import read_records
from tuner.score.measure import measure
from tuner.score.official import weighted

ANCHOR = 4  # the cell of each layout whose real value scales that layout's predictions
STEPS = 8  # the cell of each layout whose engine logged its steps
METHODS = ("operator sums", "steps", "steps and gaps")
_POOL = re.compile(r"KV cache size: ([\d,]+) tokens")
_BLOCK = re.compile(r"Setting attention block size to (\d+) tokens")


@dataclass(frozen=True)
class Predicted:
    """What one method says of a cell.

    Attributes:
        value: The weighted score.
        ttft_s: Mean seconds to the first token.
        tpot_s: Mean seconds between tokens.
        wall_s: Seconds of the load.
        coverage: Part of the step time in states that the method has seen.
    """

    value: float
    ttft_s: float
    tpot_s: float
    wall_s: float
    coverage: float


class OperatorSum:
    """A step time added up from operators that were timed alone.

    Args:
        profile: What ``inside/operators.py`` printed for one rank.
    """

    def __init__(self, profile: Mapping[str, Any]) -> None:
        by_tokens = {int(n): sum(found.values()) for n, found in profile["by_tokens"].items()}
        reduce = {int(n): seconds for n, seconds in profile["all_reduce"].items()}
        self._tokens = np.array(sorted(by_tokens))
        self._seconds = np.array([by_tokens[n] + reduce[n] for n in self._tokens])
        decode = profile["decode_attention"]
        self._decode = _line({int(n): s for n, s in decode.items()})
        prefill = {int(n) * (int(n) + 1) / 2: s for n, s in profile["prefill_attention"].items()}
        self._prefill = _line(prefill)

    def step(self, batch: Batch) -> float:
        """Seconds of one step."""
        tokens = float(np.interp(batch.tokens, self._tokens, self._seconds))
        base, each = self._decode
        attention = batch.decode_seqs * base + each * batch.kv_tokens
        if batch.prefill_tokens:
            base, each = self._prefill
            attention += base + each * batch.prefill_work
        return tokens + attention

    def growth(self, batch: Batch) -> float:
        """Seconds by which the next step of the same decode sequences is longer."""
        return self._decode[1] * batch.decode_seqs


class WithGaps:
    """A step time with what passes between two steps, while the server and the client have the word.

    Args:
        inner: The step time.
        gap_s: Seconds between two steps.
    """

    def __init__(self, inner: StepTime, gap_s: float) -> None:
        self._inner = inner
        self.gap_s = gap_s

    def step(self, batch: Batch) -> float:
        """Seconds of one step and of the gap after it."""
        return self._inner.step(batch) + self.gap_s

    def growth(self, batch: Batch) -> float:
        """Seconds by which the next step of the same decode sequences is longer."""
        return self._inner.growth(batch)


def gap_of(folder: Path, steps: Sequence[StepRecord]) -> float:
    """Mean seconds between two steps of a profiled run, whose load never lets the engine idle."""
    wall = json.loads((folder / "result.json").read_text())["wall_s"]
    return max(0.0, float(wall) - sum(step.seconds for step in steps)) / len(steps)


def _line(points: Mapping[float, float]) -> tuple[float, float]:
    """Base and slope, neither below 0, of a line through points."""
    x, y = np.array(list(points)), np.array(list(points.values()))
    slope = max(0.0, float(np.polyfit(x, y, 1)[0]))
    return max(0.0, float((y - slope * x).mean())), slope


@dataclass(frozen=True)
class Engine:
    """What a layout's own log says of its engine."""

    block_tokens: int
    pool_tokens: int

    def scheduler(self, cell: Cell) -> Scheduler:
        """The scheduler of a cell."""
        return Scheduler(
            cell.mns,
            TOKENS,
            self.pool_tokens // self.block_tokens,
            block_tokens=self.block_tokens,
            state_tokens=128,
        )


def engine_of(log: Path) -> Engine:
    """Read a layout's block and pool from its log."""
    text = log.read_text(errors="replace")
    pool, block = _POOL.search(text), _BLOCK.search(text)
    if pool is None or block is None:
        raise SystemExit(f"{log} does not say the size of the KV cache")
    return Engine(int(block[1]), int(pool[1].replace(",", "")))


def step_records(folder: Path, engine: Engine) -> list[StepRecord]:
    """The steps of a profiled run's load."""
    mark = json.loads((folder / "result.json").read_text())["log_from"]
    text = (folder / "engine.log").read_bytes()[mark:].decode(errors="replace")
    return steps_of_log(text.splitlines(), pool_tokens=engine.pool_tokens)


def template_tokens(folder: Path) -> int:
    """Tokens that the chat template adds to a message, from what the engine counted."""
    _, load = plans()
    counted = [r.prompt_tokens or 0 for r in read_records(folder / "records.jsonl") if r.turn == 0]
    expected = [session.turns[0].expect_prompt_tokens or 0 for session in load.sessions]
    # System prompt, user and the head of the answer.
    return round((sum(counted) - sum(expected)) / len(expected) / 3)


def predictions(out: Path) -> dict[str, dict[Cell, Predicted]]:
    """What each method says of every cell, from the profiles under a folder."""
    found: dict[str, dict[Cell, Predicted]] = {name: {} for name in METHODS}
    for ranks in RANKS:
        folder = out / "steps" / Cell(ranks, STEPS).name
        engine = engine_of(folder / "engine.log")
        load = asked(plans()[1], template=template_tokens(folder), verbatim=False)
        steps = step_records(folder, engine)
        model = fit_steps(Setting(f"tp{ranks}", eager=True), steps)
        profile = json.loads((out / f"operators-tp{ranks}.json").read_text())
        gaps = WithGaps(model, gap_of(folder, steps))
        times: tuple[StepTime, ...] = (OperatorSum(profile), model, gaps)
        for name, step_time in zip(METHODS, times, strict=True):
            for cell in cells():
                if cell.tp == ranks:
                    seen = None if name == METHODS[0] else model
                    found[name][cell] = _predicted(load, engine.scheduler(cell), step_time, seen)
    return found


def _predicted(
    load: Asked, scheduler: Scheduler, step_time: StepTime, model: StepModel | None
) -> Predicted:
    result: Simulated = simulate(load, scheduler, step_time)
    value = weighted(measure(result.records, wall_s=result.wall_s))
    assert value is not None
    return Predicted(
        value=value,
        wall_s=result.wall_s,
        coverage=1.0 if model is None else coverage(result, model),
        **phases(result.records),
    )


def anchored(
    predicted: Mapping[Cell, float], real: Mapping[Cell, Sequence[float]]
) -> dict[Cell, float]:
    """The same with each layout scaled to the real mean of its anchor."""
    scale = {
        ranks: float(np.mean(real[Cell(ranks, ANCHOR)])) / predicted[Cell(ranks, ANCHOR)]
        for ranks in RANKS
    }
    return {cell: value * scale[cell.tp] for cell, value in predicted.items()}
