"""How often the interval of a paired comparison misses on one side, where there is no effect.

Usage: python benchmarks/decisions/intervals.py [--studies 20000]
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from tuner.score.paired import ABBA, Arm, Run, compare

MACHINES = {
    "2 % noise": (0.02, 0.02, 0.0, 0.0),
    "2 % noise, drift of 1 % a run": (0.02, 0.02, 0.01, 0.0),
    "2 % noise, wandering by 1 % a run": (0.02, 0.02, 0.0, 0.01),
    "1 % and 5 % noise": (0.01, 0.05, 0.0, 0.0),
}
BLOCKS = (2, 3, 6)


def missed(
    machine: tuple[float, float, float, float], blocks: int, confidence: float, studies: int
) -> float:
    """Share of comparisons without an effect whose interval lies above 1."""
    baseline, candidate, drift, wander = machine
    generator = np.random.default_rng(blocks)
    order = ABBA * blocks
    sigma = np.array([baseline if arm is Arm.BASELINE else candidate for arm in order])
    level = drift * np.arange(len(order))
    count = 0
    for _ in range(studies):
        walk = np.cumsum(wander * generator.standard_normal(len(order)))
        values = level + walk + sigma * generator.standard_normal(len(order))
        runs = [Run(arm, math.exp(value)) for arm, value in zip(order, values, strict=True)]
        count += compare(runs, confidence=confidence).low > 1
    return count / studies


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--studies", type=int, default=20_000)
    studies = parser.parse_args().studies
    print("| machine                           | blocks | at 95 % | at 99.33 % |")
    print("|-----------------------------------|--------|---------|------------|")
    for name, machine in MACHINES.items():
        for blocks in BLOCKS:
            plain, strict = (missed(machine, blocks, c, studies) for c in (0.95, 1 - 0.02 / 3))
            print(f"| {name:33} | {blocks:6} | {100 * plain:5.2f} % | {100 * strict:8.2f} % |")
    print(f"\n{studies} comparisons a line; exact would be 2.50 % and 0.33 %")


if __name__ == "__main__":
    main()
