from __future__ import annotations

import pytest

from tuner.spec.document import Finalists


@pytest.mark.parametrize(
    ("count", "rounds", "starts"), [(2, 6, 12), (1, 2, 8), (1, 1, 4), (3, 50, 16), (0, 6, 0)]
)
def test_the_finalists_take_at_least_the_starts_until_their_first_look(
    count: int, rounds: int, starts: int
) -> None:
    assert Finalists(count=count, rounds=rounds).least_starts == starts
