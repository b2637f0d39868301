"""A space of which half does not fit costs the tuner's search three launches at most."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.unfit.run import SPACE, TRIALS, fits, line, study, unfit_share

pytestmark = pytest.mark.xdist_group("engines")


def test_about_half_of_the_space_does_not_fit() -> None:
    assert 0.4 < unfit_share() < 0.6
    assert fits(*(choices[0] for choices in SPACE.values()))
    assert not fits(*(choices[-1] for choices in SPACE.values()))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_at_most_three_launches_are_lost_to_memory(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "chance").mkdir()
    ours = study(tmp_path / "ours", "tpe", seed=1)
    chance = study(tmp_path / "chance", "random", seed=1, trials=10)
    print(line(ours), line(chance), sep="\n")
    assert ours.launches >= TRIALS
    assert ours.lost <= 3
    assert chance.lost / chance.launches > ours.lost / ours.launches
