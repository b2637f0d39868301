from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tuner.spec.limits import Amount
from tuner.trial.context import Study
from tuner.trial.margins import Margins

GIB = 2**30


def margins(devices: tuple[object, ...] = ()) -> Margins:
    host = Amount(share=0.5)
    study = SimpleNamespace(
        hardware=SimpleNamespace(devices=devices, memory_total=20 * GIB),
        space=SimpleNamespace(memory=SimpleNamespace(host=host)),
    )
    return Margins(cast(Study, study))


def seen(high: float | None, name: str = "tree_pss") -> dict[str, Any]:
    found: dict[str, Any] = {"tree_pss": None, "tree_rss": None}
    return found | {name: None if high is None else {"high": high * GIB}}


@pytest.mark.parametrize(
    ("held", "violation"), [(0, -1.0), (2.5, -0.75), (9.9, -0.01), (10, 0.0), (12, 0.0)]
)
def test_what_was_held_is_a_share_of_the_limit(held: float, violation: float) -> None:
    assert margins().measured(seen(held)) == pytest.approx(violation)


def test_resident_pages_serve_where_shares_were_not_read() -> None:
    assert margins().measured(seen(5, "tree_rss")) == pytest.approx(-0.5)


def test_nothing_is_measured_where_nobody_looked_or_devices_are_what_counts() -> None:
    assert margins().measured(seen(None)) is None
    assert margins(devices=("GPU-0",)).measured(seen(5)) is None
