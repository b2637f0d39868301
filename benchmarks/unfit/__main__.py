"""Launches lost to memory, the tuner's search beside chance: ``python -m benchmarks.unfit``."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from benchmarks.unfit.run import HEAD, TRIALS, Outcome, line, study, summary, unfit_share


def main() -> None:
    """Print a line for each study, and what they come to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=TRIALS)
    asked = parser.parse_args()
    print(f"{unfit_share():.0%} of the space does not fit; {asked.trials} trials a study")
    print(HEAD)
    found: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="unfit-") as folder:
        os.environ["TUNER_CACHE"] = str(Path(folder) / "cache")
        for seed in range(1, asked.seeds + 1):
            for strategy in ("tpe", "random"):
                place = Path(folder) / f"{strategy}-{seed}"
                place.mkdir()
                found.append(study(place, strategy, seed, asked.trials))
                print(line(found[-1]), flush=True)
    print("\n".join(summary(found)))


if __name__ == "__main__":
    main()
