from __future__ import annotations

import random

import pytest

from tuner.search.keys import key
from tuner.search.sampler import MEMORY, Sampler, Told, remembered
from tuner.spec.axes import Axis

AXES = (Axis("a", "integer", 0, 100_000), Axis("b", "ordinal", 0, 3))


def history(count: int) -> list[Told]:
    rng = random.Random(3)
    return [
        Told({"a": n, "b": n % 4}, rng.random(), {"x": rng.choice((-1.0, 0.5))})
        for n in range(count)
    ]


def test_a_short_history_is_remembered_whole() -> None:
    assert remembered(history(MEMORY)) == history(MEMORY)


def test_a_long_one_keeps_its_best_and_its_newest_in_order() -> None:
    told = history(5000)
    kept = remembered(told)
    assert MEMORY <= len(kept) < len(told) / 5
    assert kept == sorted(kept, key=lambda t: t.assignment["a"])
    best = sorted(told, key=lambda t: (t.constraints["x"] > 0, -t.value))[:100]
    assert all(one in kept for one in best)
    assert kept[-100:] == told[-100:]


@pytest.mark.slow
def test_what_is_suggested_depends_on_what_was_told_and_not_on_when_it_was_taken_up() -> None:
    told = history(1400)
    whole = Sampler(AXES, kind="tpe", seed=1, startup=5)
    for one in told:
        whole.tell(one)
    resumed = Sampler(AXES, kind="tpe", seed=1, startup=5)
    resumed.restore(told[:1111])
    for one in told[1111:]:
        resumed.tell(one)
    taken = {key(one.assignment) for one in told}
    assert whole.ask(1400, taken) == resumed.ask(1400, taken)
