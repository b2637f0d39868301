"""What it costs to find a good configuration: the tuner's search against common ones.

Searches are replayed on recorded surfaces with resampled noise. Printed are, over many seeds: engine
seconds until the best that was measured so far is truly within 5 % and 2 % of the best there is,
launches that came to nothing, and how far the declared winner is below the best.

Usage: python -m benchmarks.search.run [--seeds 50] [--launches 40] [--surface FILE ...]
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.search.bench import Bench, crossed
from benchmarks.search.strategies import STRATEGIES, Strategy, by_chance
from tuner.fidelity.surface import Surface, read_surface

HERE = Path(__file__).parent / "surfaces"
PATIENCE = 3
RANDOM, FAIL = list(STRATEGIES)[:2]


@dataclass(frozen=True)
class Row:
    """What one way to search came to over all seeds: one entry a seed in each column.

    Attributes:
        to_5: Engine seconds to within 5 % of the best.
        to_2: Engine seconds to within 2 %.
        spent: Engine seconds of all launches and of what the winner's confirmation took.
        lost: Part of the launches that came to nothing.
        regret: How far the declared winner is below the best.
    """

    to_5: np.ndarray
    to_2: np.ndarray
    spent: np.ndarray
    lost: np.ndarray
    regret: np.ndarray


def searched(strategy: Strategy, surface: Surface, seeds: int, launches: int) -> Row:
    """Search with every seed, to the budget for the winner and far beyond it for the times."""
    rows = []
    for seed in range(seeds):
        bench, longer = Bench(surface, seed), Bench(surface, seed)
        winner = strategy(bench, launches)
        patience = len(surface.points) if strategy is by_chance else PATIENCE * launches
        strategy(longer, min(len(surface.points), patience))
        rows.append(
            (
                longer.seconds_to(0.05),
                longer.seconds_to(0.02),
                bench.seconds,
                bench.lost / max(1, bench.launches),
                bench.regret(winner),
            )
        )
    return Row(*(np.array(column) for column in zip(*rows, strict=True)))


def middle(values: np.ndarray) -> float:
    """The median; infinite where half of the searches never got there."""
    return float(np.quantile(values, 0.5, method="higher"))


def spread(values: np.ndarray) -> str:
    """The median with the quartiles, and how often it was reached where that is not always."""
    low, high = (float(np.quantile(values, q, method="higher")) for q in (0.25, 0.75))
    text = " / ".join(
        "never" if math.isinf(v) else f"{v:,.0f}" for v in (low, middle(values), high)
    )
    reached = float(np.isfinite(values).mean())
    return text if reached == 1 else f"{text} ({reached:.0%})"


def ratio(mine: np.ndarray, theirs: np.ndarray) -> str:
    """The median of mine over the median of theirs."""
    a, b = middle(mine), middle(theirs)
    return "-" if math.isinf(a) or math.isinf(b) else f"{a / b:.2f}"


def table(surface: Surface, seeds: int, launches: int) -> None:
    """Print the table of one surface."""
    head = surface.head
    bad = sum(head.real not in p.levels for p in surface.points.values())
    print(f"\n### {head.surface}{'' if head.recorded else ' (not recorded as a whole)'}\n")
    print(f"{head.what}\n")
    print(
        f"{len(surface.points)} points, {bad} of which do not run; noise "
        f"{surface.sigma(head.real) or 0:.1%} a measurement; {seeds} seeds. Winners after {launches} "
        "launches; times are quartiles, from searches that went on.\n"
    )
    print(
        "| | engine s to 5 % | engine s to 2 % | to 2 %, over random | over TPE + FAIL "
        "| launches lost | winner's regret: mean, p90 | engine s in all |"
    )
    print("|---|---|---|---:|---:|---:|---|---:|")
    done: dict[str, Row] = {}
    for name, strategy in STRATEGIES.items():
        row = done[name] = searched(strategy, surface, seeds, launches)
        cells = (
            name,
            spread(row.to_5),
            spread(row.to_2),
            *(ratio(row.to_2, done.get(other, row).to_2) for other in (RANDOM, FAIL)),
            f"{row.lost.mean():.1%}",
            f"{row.regret.mean():.1%}, {np.quantile(row.regret, 0.9):.1%}",
            f"{np.median(row.spent):,.0f}",
        )
        print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print a table for each surface."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--launches", type=int, default=40)
    parser.add_argument("--surface", type=Path, nargs="*", default=sorted(HERE.glob("*.jsonl")))
    options = parser.parse_args()
    began = time.perf_counter()
    for path in options.surface:
        surface = read_surface(path)
        table(surface, options.seeds, options.launches)
        if all(surface.head.real in p.levels for p in surface.points.values()):
            table(crossed(surface), options.seeds, options.launches)
    print(f"\n{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
