"""Rounds of samples: how many, and what they are when a driver does not answer."""

from __future__ import annotations

import time

from tests.fakes.devices import FakeCards, steady
from tuner.telemetry.samples import DeviceSample
from tuner.trial.sampling import Pace, Sampling

SLOW = 0.05


class SlowCards(FakeCards):
    """Cards whose driver takes longer than anybody has patience for."""

    def __init__(self) -> None:
        super().__init__(steady(1 << 20))

    def sample(self) -> list[DeviceSample]:
        time.sleep(SLOW)
        return super().sample()


def test_two_samples_are_taken_however_slow_the_driver_is() -> None:
    sampling = Sampling(SlowCards(), Pace(patience=SLOW / 5, step=0.0))
    assert len(sampling.rounds(lambda _: False)) == 2
    assert sampling.lost == ()


def test_one_is_enough_where_it_says_enough() -> None:
    assert len(Sampling(SlowCards(), Pace()).rounds(bool)) == 1


def test_it_goes_on_until_it_is_enough() -> None:
    sampling = Sampling(FakeCards(steady(1 << 20)), Pace(step=0.0))
    assert len(sampling.rounds(lambda rounds: len(rounds) == 7)) == 7
