"""Kill the tuner and its engine at random moments: ``python -m benchmarks.kills --runs 20``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.kills.run import HEAD, Kill, demonstrate, line, summary


def main() -> int:
    """Print a line for each run, and what all of them come to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--recipe", help="a recipe, or the folder of one, in place of cpu")
    asked = parser.parse_args()
    kills: list[Kill] = []
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        print(HEAD)
        for kill in demonstrate(Path(folder), asked.runs, recipe=asked.recipe, seed=asked.seed):
            kills.append(kill)
            print(line(len(kills), kill), flush=True)
    print(summary(kills))
    return 1 if any(kill.left for kill in kills) else 0


if __name__ == "__main__":
    sys.exit(main())
