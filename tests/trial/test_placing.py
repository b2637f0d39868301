from __future__ import annotations

import pytest

from tests.fakes.devices import GIB, FakeCards, steady
from tuner.errors import TelemetryLost
from tuner.trial.placing import Only


def test_only_the_chosen_cards_are_shown() -> None:
    cards = FakeCards(steady(GIB), steady(2 * GIB))
    only = Only(cards, {"GPU-1", "GPU-9"})
    assert [d.key for d in only.devices()] == ["GPU-1"]
    assert [s.memory_used for s in only.sample()] == [2 * GIB]
    assert only.kind == "fake"


def test_an_engine_without_devices_asks_no_driver() -> None:
    cards = FakeCards(steady(GIB))
    cards.lost_from = 0
    assert Only(cards, ()).sample() == []
    assert cards.asked == 0
    with pytest.raises(TelemetryLost):
        Only(cards, {"GPU-0"}).sample()
