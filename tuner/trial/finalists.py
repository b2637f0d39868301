"""Measuring the best again, in turns with the baseline, so that luck cannot win.

The trial that scored best of many was also lucky, and the machine drifts. So the search's own
scores decide only who is measured again. Each round runs A B C C B A with a restart between any
two: what drifts evenly through a round meets all alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.store.rows import Origin, TrialRow


@dataclass(frozen=True, slots=True)
class Repeat:
    """One measurement that is to be made again.

    Attributes:
        of: Number of the trial that is measured again.
        block: The half round that it belongs to; a pair is compared within one. None for a
            measurement that stands for itself.
    """

    of: int
    block: int | None


def schedule(baseline: int, finalists: Sequence[int], rounds: int) -> list[Repeat]:
    """All repeats of a study, in the order in which they run.

    Args:
        baseline: Number of the baseline's trial.
        finalists: Numbers of the trials that are to be measured again.
        rounds: How many times there and back.
    """
    if not finalists:
        return []
    there = [baseline, *finalists]
    plan = []
    for turn in range(rounds):
        plan += [Repeat(of, 2 * turn) for of in there]
        plan += [Repeat(of, 2 * turn + 1) for of in reversed(there)]
    return plan


def outstanding(plan: Sequence[Repeat], trials: Sequence[TrialRow]) -> list[Repeat]:
    """What of a schedule was not entered in the ledger yet, in order."""
    done = {(t.repeats, t.block) for t in trials if t.origin is Origin.REPEAT}
    return [r for r in plan if (r.of, r.block) not in done]
