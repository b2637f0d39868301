"""The two loops that end a study: rivals until the finalists are known, finalists until the answer is clear.

Everything is read from the trials each time, so a study that was stopped goes on with what is missing
and decides as if it had never been stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tuner.spec.document import Search
from tuner.store.rows import Origin, TrialRow
from tuner.trial.decision import standings
from tuner.trial.finalists import Repeat, outstanding, schedule
from tuner.trial.repeats import standing


@dataclass(frozen=True, slots=True)
class Hands:
    """What the loops need of a study.

    Attributes:
        trials: All its trials as they are now.
        again: Measures a trial again.
        say: Says what happens, as :meth:`tuner.trial.events.Voice.say`.
        stopped: Whether no further trial is to be started.
    """

    trials: Callable[[], Sequence[TrialRow]]
    again: Callable[[Repeat], None]
    say: Callable[..., None]
    stopped: Callable[[], bool]


def contend(search: Search, hands: Hands) -> None:
    """Measure rivals again while that can still change which trials become finalists."""
    while (found := standing(hands.trials(), search)).again:
        hands.say("contenders", **found.as_json(), again=list(found.again))
        for number in found.again:
            if hands.stopped():
                return
            hands.again(Repeat(number, None))
    hands.say("contenders", **found.as_json(), again=[])


def confirm(search: Search, hands: Hands, finalists: Sequence[int]) -> None:
    """Measure the finalists again, round by round, until each answer is clear or rounds end."""
    if not finalists:
        return
    base = next(t for t in hands.trials() if t.origin is Origin.BASELINE)
    rounds = search.finalists.rounds
    starts = len(schedule(base.number, finalists, 1))
    hands.say("finalists", numbers=list(finalists), starts=starts, rounds=rounds)
    for turn in range(1, rounds + 1):
        going = [s.number for s in standings(hands.trials(), finalists, rounds) if s.open]
        for repeat in outstanding(schedule(base.number, going, turn), hands.trials()):
            if hands.stopped():
                return
            hands.again(repeat)
