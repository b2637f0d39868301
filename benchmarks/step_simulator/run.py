"""How much processor time the step simulator takes for one configuration and a load of 200 requests.

Usage: python -m benchmarks.step_simulator.run [--repeats 15]
"""

from __future__ import annotations

import argparse
import random
import statistics
import time

from tuner.fidelity.asked import Asked, AskedTurn, Stretch
from tuner.fidelity.simulate import Scheduler, simulate
from tuner.fidelity.simulator import coarsened
from tuner.fidelity.steptime import Setting, StepModel

MODEL = StepModel(
    Setting("any"),
    {
        "decode step": 0.010,
        "mixed step": 0.012,
        "prefill tokens": 2e-5,
        "decode sequences": 1e-4,
        "KV tokens read": 1e-8,
        "prefill attention": 1e-9,
    },
)


def load(
    sessions: int, turns: int, shared: int, user: tuple[int, int], output: int, concurrency: int
) -> Asked:
    rng = random.Random(1)
    node, made = 1, []
    for _ in range(sessions):
        done = []
        for turn in range(turns):
            node += 2
            added = (Stretch(node, rng.randint(*user)),)
            first = (Stretch(1, shared),) if turn == 0 and shared else ()
            done.append(AskedTurn((*first, *added), output, node + 1, 0.0, None))
        made.append(tuple(done))
    return Asked("w", tuple(made), concurrency, threaded=True)


CASES = {
    "50 x 4 turns of 200 to 1,600, 4 at a time": (
        load(50, 4, 600, (200, 1600), 48, 4),
        Scheduler(4, 2048, 4000),
    ),
    "the same one at a time": (load(50, 4, 600, (200, 1600), 48, 1), Scheduler(1, 512, 4000)),
    "the same 32 at a time, answers of 128": (
        load(50, 4, 600, (200, 1600), 128, 32),
        Scheduler(32, 2048, 8000),
    ),
    "200 prompts of 4,096, 32 at a time": (
        load(200, 1, 0, (4000, 4192), 128, 32),
        Scheduler(32, 2048, 20_000),
    ),
    "the same prompts with KV for four of them": (
        load(200, 1, 0, (4000, 4192), 128, 32),
        Scheduler(32, 2048, 1200),
    ),
    "40 x 5 turns up to 54,000 tokens, 8 at a time": (
        load(40, 5, 20_000, (2000, 8000), 429, 8),
        Scheduler(8, 8192, 40_000),
    ),
    "the same with KV for four of them": (
        load(40, 5, 20_000, (2000, 8000), 429, 8),
        Scheduler(8, 8192, 13_000),
    ),
}


def main() -> None:
    """Print one row a load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    print(
        "| load of 200 requests | median CPU ms | slowest | steps | preemptions | every step alone |"
    )
    print("|---|---:|---:|---:|---:|---:|")
    for name, (asked, scheduler) in CASES.items():
        seconds = []
        for _ in range(repeats):
            began = time.process_time()
            found = simulate(asked, coarsened(asked, scheduler), MODEL)
            seconds.append(time.process_time() - began)
        began = time.process_time()
        simulate(asked, scheduler, MODEL, one_by_one=True)
        plain = time.process_time() - began
        steps = sum(step.count for step in found.steps)
        print(
            f"| {name} | {1000 * statistics.median(seconds):.0f} | {1000 * max(seconds):.0f} "
            f"| {steps:,} | {found.preemptions} | {1000 * plain:.0f} |"
        )


if __name__ == "__main__":
    main()
