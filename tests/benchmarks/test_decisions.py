from __future__ import annotations

import pytest

from benchmarks.decisions import simulate
from tuner.spec.document import Search

pytestmark = pytest.mark.slow

TUNER = simulate.tuner_plan(Search())


@pytest.mark.parametrize("engine", [name for name in simulate.SCENARIOS if "nothing" in name])
def test_with_the_settings_as_they_come_what_is_no_gain_does_not_win(engine: str) -> None:
    found = simulate.simulate(TUNER, *simulate.SCENARIOS[engine], studies=200, seed=1)
    assert (found.true, found.false <= 0.05) == (0, True)


@pytest.mark.parametrize(
    "engine",
    ["5 % among 29 as good as the baseline", "5 % among 29 up to 30 % worse", "5 %, heavy tails"],
)
def test_with_the_settings_as_they_come_five_percent_are_found(engine: str) -> None:
    found = simulate.simulate(TUNER, *simulate.SCENARIOS[engine], studies=200, seed=1)
    fixed = simulate.simulate(
        simulate.PLANS["6 runs each, corrected t test"],
        *simulate.SCENARIOS[engine],
        studies=20,
        seed=1,
    )
    assert found.true >= 0.9
    assert found.false <= 0.01
    assert found.runs < fixed.runs


def test_every_search_space_that_comes_with_it_has_a_line() -> None:
    lines = list(simulate.shipped(studies=2, seed=1))[2:]
    names = [line.strip("|").split("|")[0].strip() for line in lines]
    assert names == sorted(path.stem for path in simulate.SPACES.glob("*.yaml"))
