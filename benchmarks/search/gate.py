"""How long right and wrong proxies are trusted: whole simulated studies behind the gate.

Usage: python -m benchmarks.search.gate [--studies 200]
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import numpy as np

from tests.fidelity import worlds
from tuner.fidelity.evidence import Mode

CASES: dict[str, tuple[worlds.Proxy, Mapping[str, float]]] = {
    "right but for a factor a layout and 3 %": (worlds.good, {}),
    "inverted": (worlds.inverted, {}),
    "tied throughout": (worlds.tied, {}),
    "knows the layouts' means alone": (worlds.layout_only, {}),
    "an order by chance": (worlds.shuffled, {}),
    "turned round in the best layout": (worlds.layout_biased, {}),
    "right, while one layout gains 2 % a trial": (worlds.good, {"tp2": 0.02}),
    "right, while one layout gains 5 % a trial": (worlds.good, {"tp2": 0.05}),
}


def main() -> None:
    """Print one row a proxy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=200)
    studies = parser.parse_args().studies
    print(
        "| proxy | opened | trials while ON: mean, most | still ON at the end | trials to the best |"
    )
    print("|---|---:|---:|---:|---:|")
    for name, (proxy, drift) in CASES.items():
        done = [worlds.study(worlds.World(seed, drift=drift), proxy) for seed in range(studies)]
        on = np.array([d.on for d in done])
        opened = np.mean([d.gate.opened is not None for d in done])
        still = np.mean([d.gate.mode is Mode.ON for d in done])
        best = np.mean([d.when_best for d in done])
        print(
            f"| {name} | {opened:.0%} | {on.mean():.1f}, {on.max()} | {still:.0%} | {best:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
