"""Prints what the numeric watch and the step records cost a step of the engine.

Runs inside the engine's environment, where torch is::

    <engine>/bin/python benchmarks/engine_watch/run.py [--step-ms 5.2]

The instruments are driven as the engine drives them, around a model that does nothing, with layers' outputs of the size
of the served model's. What a step costs more with them is set against the length of a real step: ``--step-ms`` is that
of the tiny model with its 4 layers (by default as measured where the project was made, one sequence decoding), and a
model of more layers is taken to need as much for each. Times are processor time of all threads, the one that writes
included: that is what the instruments take from the engine, and other work on the machine does not add to it.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from enginex.observe.records import StepRecords
from enginex.observe.runner import Observer, StepTimer
from enginex.observe.watch import FIRST, NumericWatch
from enginex.vllm_observe import distinct

EVERY = 64
STEPS = FIRST + 20 * EVERY
REPEATS = 7
TINY_LAYERS = 4


class Block(nn.Module):
    """A block whose output is there already."""

    def __init__(self, out: Tensor) -> None:
        super().__init__()
        self.out = out

    def forward(self) -> Tensor:
        """Return it."""
        return self.out


def plan(sequences: int) -> tuple[Any, Any]:
    """Make a scheduler's plan for a step of decoding, and the runner that it is for."""
    names = [f"request-{i}" for i in range(sequences)]
    planned = SimpleNamespace(
        scheduled_new_reqs=[],
        scheduled_cached_reqs=SimpleNamespace(req_ids=names, num_computed_tokens=[900] * sequences),
        num_scheduled_tokens=dict.fromkeys(names, 1),
        total_num_scheduled_tokens=sequences,
    )
    runner = SimpleNamespace(
        requests={name: SimpleNamespace(num_prompt_tokens=800) for name in names},
        execute_model_state=SimpleNamespace(logits=None),
    )
    return planned, runner


def seconds(
    observers: list[Observer], blocks: list[Block], sequences: int, *, timed: bool
) -> float:
    """Mean processor time of a step, the first ones left out."""
    planned, runner = plan(sequences)
    timer = StepTimer(observers)
    ids = torch.randint(0, 256, (sequences, 8))

    def step() -> None:
        if timed:
            timer.begin()
            timer.forward()
            if timer.wants_experts and any(isinstance(o, StepRecords) for o in observers):
                timer.routed(distinct(ids))
        for block in blocks:
            block()
        if timed:
            timer.planned(runner, planned)
            timer.sampled("tokens")

    for _ in range(FIRST):
        step()
    began = time.process_time()
    for _ in range(STEPS - FIRST):
        step()
    return (time.process_time() - began) / (STEPS - FIRST)


def cost(make: Callable[[], list[Observer]], blocks: list[Block], sequences: int) -> float:
    """Median of what a step costs more, over pairs with and without."""
    more = []
    for _ in range(REPEATS):
        bare = seconds([], blocks, sequences, timed=False)
        observers = make()
        more.append(seconds(observers, blocks, sequences, timed=True) - bare)
        for observer in observers:
            if isinstance(observer, StepRecords):
                observer.close()
    return statistics.median(more)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--step-ms", type=float, default=5.2)
    options = parser.parse_args()
    print(
        "| layers | width | sequences | watch, us a step | records, us a step | of a step: watch | records |"
    )
    print("|---|---|---|---|---|---|---|")
    for layers, width, sequences in ((4, 256, 1), (4, 256, 4), (40, 2048, 1), (40, 2048, 4)):
        out = torch.randn(sequences, width).bfloat16()
        blocks = [Block(out) for _ in range(2 * layers)]

        def watch(blocks: list[Block] = blocks) -> list[Observer]:
            watching = NumericWatch(EVERY, lambda _: None)
            watching.attach([(f"block.{i}", block) for i, block in enumerate(blocks)], "layers")
            return [watching]

        watched = cost(watch, blocks, sequences)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "steps.jsonl"
            recorded = cost(lambda path=path: [StepRecords(path)], blocks, sequences)  # type: ignore[misc] - bound now
        step_s = options.step_ms * 1e-3 * layers / TINY_LAYERS
        shares = [f"{x / step_s:.2%}" for x in (watched, recorded)]
        micros = [f"{x * 1e6:.1f}" for x in (watched, recorded)]
        print(
            f"| {layers} | {width} | {sequences} | {micros[0]} | {micros[1]} | {shares[0]} | {shares[1]} |"
        )


if __name__ == "__main__":
    main()
