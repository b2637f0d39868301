"""The tuner's own share of a trial: everything but the engine's start, the warm-up and the load.

Reads the ledger of a study that ran on a real engine and adds up, for each trial that was measured,
the time from the end of the trial before to its own end, less the time that the engine took to
start and that the warm-up and the load took. What is left is planning, asking the sampler and the
engine's parser, reading back, probing, stopping, proving and telling.

    python benchmarks/tuner_share/share.py STATE STUDY
"""

from __future__ import annotations

import itertools
import statistics
import sys
from pathlib import Path

from tuner.store.ledger import Ledger
from tuner.store.rows import Transition
from tuner.store.stages import Stage

ENGINE = {
    (Stage.STARTING, Stage.READY): "start",
    (Stage.PROBED, Stage.WARMED): "warm-up",
    (Stage.WARMED, Stage.MEASURED): "load",
}


def shares(steps: list[Transition]) -> list[tuple[int, float, dict[str, float]]]:
    """For each measured trial: its number, the tuner's share in seconds, and the share by step."""
    found = []
    own: dict[str, float] = {}
    for before, after in itertools.pairwise(steps):
        seconds = after.clock - before.clock
        if before.boot != after.boot:
            own = {}
        elif (before.stage, after.stage) not in ENGINE:
            name = f"{before.stage} to {after.stage}"
            own[name] = own.get(name, 0.0) + seconds
        if after.stage is Stage.TOLD:
            measured = any(s.number == after.number and s.stage is Stage.MEASURED for s in steps)
            if measured:
                found.append((after.number, sum(own.values()), own))
            own = {}
    return found


def main(state: str, study: str) -> None:
    """Print the table."""
    with Ledger(Path(state), write=False) as ledger:
        found = shares(ledger.transitions(ledger.study(study).id))
    names = sorted({name for _, _, own in found for name in own})
    print("| trial | tuner's share, s | " + " | ".join(names) + " |")
    print("|---:|---:|" + "---:|" * len(names))
    for number, total, own in found:
        print(
            f"| {number} | {total:.2f} | "
            + " | ".join(f"{own.get(n, 0.0):.2f}" for n in names)
            + " |"
        )
    totals = [total for _, total, _ in found]
    print(
        f"\nmedian {statistics.median(totals):.2f} s, most {max(totals):.2f} s, over {len(totals)} trials"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
