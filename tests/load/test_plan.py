from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.load.conftest import plan_of, turn
from tuner.load.plan import Closed, Open, Session, Tool, Turn


def test_the_fingerprint_is_of_all_that_is_sent() -> None:
    plan = plan_of([turn("a"), turn("b")])
    assert plan.fingerprint == plan_of([turn("a"), turn("b")]).fingerprint
    tool = Tool("f", "d", "{}")
    changes: list[dict[str, Any]] = [
        {"workload": "other"},
        {"seed": 1},
        {"pacing": Closed(5)},
        {"thread_answers": False},
        {"salt_words": 0},
        {"salt_each": True},
        {"request_timeout_s": 1.0},
        {"load_timeout_s": 1.0},
        {"sessions": (Session((turn("a"),)), Session((turn("b"),)))},
        {"sessions": (Session((turn("a"), turn("b")), tools=(tool,)),)},
        {"sessions": (Session((turn("a"), turn("c"))),)},
        {"sessions": (Session((turn("a"), replace(turn("b"), max_tokens=9))),)},
        {"sessions": (Session((turn("a"), replace(turn("b"), think_s=9))),)},
    ]
    seen = [plan.fingerprint, *(replace(plan, **change).fingerprint for change in changes)]
    assert len(set(seen)) == len(seen)


def test_plans_that_cannot_run() -> None:
    with pytest.raises(ValueError, match="concurrency"):
        plan_of([turn()], concurrency=0)
    with pytest.raises(ValueError, match="limit"):
        replace(plan_of(), pacing=Open(0))
    arrived = Session((Turn((), arrival_s=0.0),))
    with pytest.raises(ValueError, match="session 1"):
        replace(plan_of(), sessions=(arrived, Session((turn(),))), pacing=Open())


def test_requests_are_counted() -> None:
    assert plan_of([turn(), turn()], [turn()]).requests == 3
