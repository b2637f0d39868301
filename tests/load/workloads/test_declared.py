from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from tuner.errors import UserError
from tuner.load.plan import Closed, Open
from tuner.load.tokens import ByteTokens
from tuner.load.workloads.declared import Prepared, official_shape, prepare
from tuner.spec import workload as declared

ADAPTER: TypeAdapter[declared.Workload] = TypeAdapter(declared.Workload)
TALKS = {
    "kind": "conversations",
    "conversations": 3,
    "turns": {"min": 2, "max": 3},
    "concurrency": 2,
    "system_tokens": 200,
    "turn_tokens": {"min": 20, "max": 60},
    "output_tokens": 8,
}
CURVE = {"kind": "decode_curve", "concurrencies": (1, 4), "prompt_tokens": 64}
OFFICIAL = {"kind": "official_like", "requests": 20, "scale": 0.05, "concurrency": 4}
REPLAY = {"kind": "replay", "file": "trace.jsonl"}
DATASET = {"kind": "dataset", "file": "talks.json", "conversations": 2, "concurrency": 2}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [{"prompt_tokens": 90, "output_tokens": 4, "arrival_s": at} for at in range(5)]
    (tmp_path / "trace.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = [{"from": "human", "value": "question"}, {"from": "gpt", "value": "answer"}]
    (tmp_path / "talks.json").write_text(json.dumps([{"conversations": said}] * 3))
    return tmp_path


def prepared(values: dict[str, Any], folder: Path, **more: Any) -> Prepared:
    workload = ADAPTER.validate_python({**values, **more})
    return prepare("load", workload, tokens=ByteTokens(), folder=folder)


@pytest.mark.parametrize("values", [TALKS, CURVE, OFFICIAL, REPLAY, DATASET])
def test_every_kind_becomes_plans(values: dict[str, Any], folder: Path) -> None:
    found = prepared(values, folder)
    assert all(plan.workload.startswith("load") for plan in found.levels)
    assert found.warm_up.workload == "load-warmup"
    assert found.warm_up.requests > 0
    assert all(plan.requests > 0 for plan in found.levels)
    assert len(found.levels) == (2 if values is CURVE else 1)


KEYS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (TALKS, {"conversations": 4}),
    (TALKS, {"turns": 1}),
    (TALKS, {"concurrency": 3}),
    (TALKS, {"system_tokens": 210}),
    (TALKS, {"tools": 2}),
    (TALKS, {"tools": 2, "tools_in": "system"}),
    (TALKS, {"turn_tokens": 30}),
    (TALKS, {"growth": 2.0}),
    (TALKS, {"output_tokens": 9}),
    (TALKS, {"think_time": 1.0}),
    (CURVE, {"concurrencies": (1, 2)}),
    (CURVE, {"rounds": 3}),
    (CURVE, {"prompt_tokens": 65}),
    (CURVE, {"output_tokens": 12}),
    (OFFICIAL, {"requests": 21}),
    (OFFICIAL, {"concurrency": 2}),
    (OFFICIAL, {"prompt_tokens": {"buckets": ({"min": 500, "max": 600, "weight": 1},)}}),
    (OFFICIAL, {"output_tokens": 12}),
    (OFFICIAL, {"tools": 2}),
    (OFFICIAL, {"tool_share": 0.0}),
    (OFFICIAL, {"multi_system_share": 1.0}),
    (OFFICIAL, {"image_share": 1.0}),
    (OFFICIAL, {"max_prompt_tokens": 900}),
    (REPLAY, {"mode": "open"}),
    (REPLAY, {"concurrency": 2}),
    (REPLAY, {"mode": "open", "time_scale": 0.5}),
    (REPLAY, {"requests": 2}),
    (DATASET, {"conversations": 3}),
    (DATASET, {"turns": 1, "output_tokens": 3}),
    (DATASET, {"concurrency": 1}),
]
COMMON: list[dict[str, Any]] = [
    {"temperature": 0.5},
    {"ignore_eos": False},
    {"request_timeout": 9.0},
    {"time_limit": 99.0},
    {"seed": 5},
]
EVERY = [
    *KEYS,
    *((one, more) for one in (TALKS, CURVE, OFFICIAL, REPLAY, DATASET) for more in COMMON),
    *(
        (one, {"scale": 2.0 if one is not OFFICIAL else 0.1})
        for one in (TALKS, CURVE, OFFICIAL, REPLAY)
    ),
    (DATASET, {"scale": 2.0, "output_tokens": 4}),
]


@pytest.mark.parametrize(("values", "change"), EVERY)
def test_no_key_does_nothing(values: dict[str, Any], change: dict[str, Any], folder: Path) -> None:
    one, other = prepared(values, folder), prepared(values, folder, **change)
    assert [p.fingerprint for p in one.levels] != [p.fingerprint for p in other.levels]


@pytest.mark.parametrize(
    ("values", "warmup", "requests"),
    [
        (TALKS, {"conversations": 0}, 0),
        (CURVE, {"requests": 3}, 3),
        (OFFICIAL, {"requests": 0}, 0),
        (REPLAY, {"requests": 0}, 0),
        (REPLAY, {"requests": 2}, 2),
        (DATASET, {"conversations": 0}, 0),
    ],
)
def test_warm_ups_are_as_long_as_declared(
    values: dict[str, Any], warmup: dict[str, int], requests: int, folder: Path
) -> None:
    assert prepared(values, folder, warmup=warmup).warm_up.requests == requests


def test_pacing(folder: Path) -> None:
    assert prepared(REPLAY, folder).levels[0].pacing == Closed(1)
    assert prepared(REPLAY, folder, mode="open").levels[0].pacing == Open()
    assert prepared(REPLAY, folder, mode="open", concurrency=9).levels[0].pacing == Open(9)


def test_a_key_that_can_do_nothing_is_refused(folder: Path) -> None:
    with pytest.raises(UserError, match="scale does nothing"):
        prepared(DATASET, folder, scale=0.5)


def test_the_defaults_of_the_official_shape_are_the_published_ones() -> None:
    from tuner.load.workloads.official_like import OUTPUTS, PROMPTS

    wanted = ADAPTER.validate_python({"kind": "official_like"})
    assert isinstance(wanted, declared.OfficialLike)
    shape = official_shape("x", wanted)
    assert shape.prompt_tokens == PROMPTS
    assert shape.output_tokens == OUTPUTS
