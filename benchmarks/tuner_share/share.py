"""The tuner's own share of a trial: everything but the engine's start, the probes, the warm-up and the load.

Reads the ledger of a study that ran on a real engine and adds up, for each trial that was measured,
the time from the end of the trial before to its own end, less the time that the engine took to
start, to answer the functional probes and the oracle's questions, and that the warm-up and the load
took. What is left is planning, asking the sampler and the engine's parser, stopping, proving and
telling. The probes are requests to the engine, as the load is; what they took stands beside it. The
first trial waits for the process that holds the engine's parser, once in a session.

    python benchmarks/tuner_share/share.py STATE STUDY
"""

from __future__ import annotations

import itertools
import statistics
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from tuner.store.ledger import Ledger
from tuner.store.rows import Transition
from tuner.store.stages import Stage

ENGINE = {
    (Stage.STARTING, Stage.READY): "start",
    (Stage.READY, Stage.PROBED): "probes",
    (Stage.PROBED, Stage.WARMED): "warm-up",
    (Stage.WARMED, Stage.MEASURED): "load",
}


@dataclass
class Share:
    """Seconds of one trial.

    Attributes:
        number: The trial.
        own: The tuner's, by step.
        engine: The engine's, by what it did.
    """

    number: int
    own: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    engine: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    @property
    def whole(self) -> float:
        """All of the tuner's."""
        return sum(self.own.values())


def shares(steps: list[Transition]) -> list[Share]:
    """The shares of each measured trial."""
    measured = {s.number for s in steps if s.stage is Stage.MEASURED}
    found = []
    share = Share(0)
    for before, after in itertools.pairwise(steps):
        seconds = after.clock - before.clock
        if before.boot != after.boot:
            share = Share(0)
        elif name := ENGINE.get((before.stage, after.stage)):
            share.engine[name] += seconds
        else:
            share.own[f"{before.stage} to {after.stage}"] += seconds
        if after.stage is Stage.TOLD:
            if after.number in measured:
                share.number = after.number
                found.append(share)
            share = Share(0)
    return found


def main(state: str, study: str) -> None:
    """Print the table."""
    with Ledger(Path(state), write=False) as ledger:
        found = shares(ledger.transitions(ledger.study(study).id))
    names = sorted({name for share in found for name in share.own})
    head = ["trial", "tuner's share, s", *names, *(f"*{name}*" for name in ENGINE.values())]
    print(f"| {' | '.join(head)} |")
    print(f"|{'---:|' * len(head)}")
    for share in found:
        seconds = [share.whole, *(share.own[n] for n in names)]
        seconds += [share.engine[n] for n in ENGINE.values()]
        print(f"| {share.number} | " + " | ".join(f"{s:.2f}" for s in seconds) + " |")
    totals = [share.whole for share in found]
    print(
        f"\nmedian {statistics.median(totals):.2f} s, most {max(totals):.2f} s, over {len(totals)} trials"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
