from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trial.factory import trial
from tuner.spec.document import Finalists, Repeats, Search
from tuner.store.rows import Origin, TrialRow
from tuner.trial.contest import Hands, confirm, contend
from tuner.trial.decision import Decision, decide
from tuner.trial.finalists import Repeat
from tuner.trial.repeats import standing

SIGMA = 0.02


class Study:
    """A study after its search, whose engines measure what is true of a trial, and noise."""

    def __init__(self, effects: Sequence[float], seed: int, search: Search | None = None) -> None:
        self.search = Search() if search is None else search
        self.effects = [0.0, *effects]
        self.seed = seed
        self.left = math.inf
        self.said: list[tuple[str, dict[str, object]]] = []
        origins = [Origin.BASELINE, *[Origin.SEARCH] * len(effects)]
        self.rows: list[TrialRow] = []
        for number, origin in enumerate(origins):
            self._measure(number, origin=origin)

    def _measure(self, of: int, **fields: object) -> None:
        # What a run measures hangs on its place in the study alone, as after a crash.
        error = np.random.default_rng((self.seed, len(self.rows))).standard_normal()
        score = 100 * math.exp(self.effects[of] + SIGMA * error)
        self.rows.append(trial(len(self.rows), score=score, **fields))

    def again(self, repeat: Repeat) -> None:
        self.left -= 1
        self._measure(repeat.of, origin=Origin.REPEAT, repeats=repeat.of, block=repeat.block)

    def hands(self) -> Hands:
        return Hands(
            lambda: self.rows,
            self.again,
            lambda kind, **data: self.said.append((kind, data)),
            lambda: self.left <= 0,
        )

    def contend(self) -> tuple[int, ...]:
        contend(self.search, self.hands())
        return standing(self.rows, self.search).finalists

    def confirm(self, finalists: Sequence[int]) -> Decision:
        confirm(self.search, self.hands(), finalists)
        return decide(self.rows, finalists, self.search.finalists.rounds)

    def order(self) -> list[int | None]:
        return [t.repeats for t in self.rows if t.block is not None]


def shares(effect: float, studies: int = 200) -> tuple[float, float]:
    """Share of studies with two finalists, one of the effect, that name a winner; and mean starts."""
    done = [Study([effect, 0.0], seed) for seed in range(studies)]
    clear = sum(study.confirm([1, 2]).clear for study in done)
    return clear / studies, sum(len(study.order()) for study in done) / studies


def test_by_default_five_percent_in_two_percent_noise_is_found() -> None:
    found, _ = shares(math.log(1.05))
    assert found >= 0.9


def test_by_default_what_is_no_gain_does_not_win() -> None:
    false, starts = shares(0.0)
    assert false <= 0.05
    assert starts < 6 * 6 * 0.6  # hopeless ones are given up


def test_a_clear_answer_ends_it_after_two_rounds_in_the_order_there_and_back() -> None:
    study = Study([math.log(1.5)], seed=1)
    assert study.confirm([1]).winner == 1
    assert study.order() == [0, 1, 1, 0] * 2
    assert study.said == [("finalists", {"numbers": [1], "starts": 4, "rounds": 6})]


def test_only_the_finalist_that_is_still_open_goes_on() -> None:
    study = Study([math.log(1.5), 0.019], seed=3)
    study.confirm([1, 2])
    assert study.order()[:12] == [0, 1, 2, 2, 1, 0] * 2
    rest = study.order()[12:]
    assert rest
    assert rest == [0, 2, 2, 0] * (len(rest) // 4)


def test_without_finalists_nothing_is_said_or_run() -> None:
    study = Study([0.0], seed=1)
    assert not study.confirm([]).clear
    assert (study.order(), study.said) == ([], [])


@pytest.mark.parametrize("rounds", [1, 2])
def test_no_more_rounds_than_were_allowed(rounds: int) -> None:
    study = Study([0.0], 4, Search(finalists=Finalists(count=1, rounds=rounds)))
    study.confirm([1])
    assert len(study.order()) == 4 * rounds


@given(
    st.integers(0, 2**32),
    st.lists(st.sampled_from([0.0, 0.02, 0.05, 0.3]), min_size=1, max_size=4),
    st.lists(st.integers(1, 9), max_size=12),
)
def test_a_study_that_is_stopped_anywhere_runs_and_decides_as_if_it_were_not(
    seed: int, effects: list[float], pieces: list[int]
) -> None:
    search = Search(repeats=Repeats(starts=4))
    whole, broken = Study(effects, seed, search), Study(effects, seed, search)
    expected = whole.confirm(whole.contend())
    for piece in pieces:
        broken.left = piece
        finalists = broken.contend()
        if broken.left > 0:
            broken.confirm(finalists)
    broken.left = math.inf
    found = broken.confirm(broken.contend())
    assert [(t.repeats, t.block, t.score) for t in broken.rows] == [
        (t.repeats, t.block, t.score) for t in whole.rows
    ]
    assert found == expected
