from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tuner.spec.workload import (
    Between,
    BucketTokens,
    Conversations,
    DecodeCurve,
    OfficialLike,
    SkewedTokens,
    UniformTokens,
    Workload,
    highest,
    longest,
    lowest,
    scaled,
)

ANY: TypeAdapter[Any] = TypeAdapter(Workload)
TALK = {
    "kind": "conversations",
    "conversations": 8,
    "turns": 4,
    "concurrency": 4,
    "turn_tokens": {"min": 200, "max": 1600},
    "output_tokens": 48,
}


def test_conversations_say_what_they_come_to_at_most() -> None:
    found = ANY.validate_python(TALK)
    assert isinstance(found, Conversations)
    assert found.facts() == {
        "concurrency": 4,
        "conversations": 8,
        "turns": 4,
        "tools": 0,
        "system_tokens": 600,
        "turn_tokens": 1600,
        "output_tokens": 48,
        "total_tokens": 600 + 4 * (1600 + 48),
    }


def test_scale_and_growth_change_the_lengths() -> None:
    found = ANY.validate_python(
        {**TALK, "scale": 0.5, "growth": 2.0, "turns": {"min": 1, "max": 3}, "turn_tokens": 100}
    )
    facts = found.facts()
    assert facts["system_tokens"] == 300
    assert facts["output_tokens"] == 24
    assert facts["turn_tokens"] == 200, "the last turn is the longest: 50, 100, 200"
    assert facts["total_tokens"] == 300 + (50 + 100 + 200) + 3 * 24
    shrinking = ANY.validate_python({**TALK, "growth": 0.5, "turn_tokens": 100})
    assert shrinking.facts()["turn_tokens"] == 100, "the first turn is the longest"


def test_a_decode_curve_counts_its_largest_concurrency() -> None:
    found = ANY.validate_python({"kind": "decode_curve", "concurrencies": (1, 4, 2)})
    assert isinstance(found, DecodeCurve)
    assert found.facts() == {
        "concurrency": 4,
        "prompt_tokens": 32,
        "output_tokens": 128,
        "total_tokens": 160,
    }


def test_the_official_shape_is_the_published_one() -> None:
    found = ANY.validate_python({"kind": "official_like"})
    assert isinstance(found, OfficialLike)
    assert found.requests == 881
    buckets = found.prompt_tokens.buckets
    assert sum(bucket.weight for bucket in buckets) == 881
    assert [bucket.weight for bucket in buckets] == [95, 1, 219, 222, 115, 110, 114, 5]
    assert [bucket.reuse for bucket in buckets] == [0.33, 0.01, 0.89, 0.58, 0.60, 0.66, 0.69, 0.23]
    assert buckets[-1].max == 234_436
    assert all(one.max + 1 == two.min for one, two in pairwise(buckets))
    assert found.facts()["total_tokens"] == 234_436 + 10_732


def test_the_official_answers_have_the_logged_percentiles() -> None:
    """Run 694: P10 58, P50 197, P75 368, P90 1600, P99 4640, largest 10732 tokens."""
    outputs = OfficialLike(kind="official_like").output_tokens
    assert isinstance(outputs, BucketTokens)
    share = 0.0
    seen = {}
    for bucket in outputs.buckets:
        share += bucket.weight
        seen[bucket.max] = share
    assert seen == {58: 10, 197: 50, 368: 75, 1600: 90, 4640: 99, 10732: 100}


def test_long_official_prompts_can_be_left_out() -> None:
    found = ANY.validate_python({"kind": "official_like", "max_prompt_tokens": 30_000})
    assert found.facts()["prompt_tokens"] == 30_000


@pytest.mark.parametrize(
    ("fields", "facts"),
    [
        ({"kind": "replay", "file": "a.csv"}, {"concurrency": 1}),
        ({"kind": "replay", "file": "a.csv", "mode": "open"}, {}),
        ({"kind": "replay", "file": "a.csv", "mode": "open", "concurrency": 7}, {"concurrency": 7}),
        (
            {"kind": "replay", "file": "a.jsonl", "requests": 9, "concurrency": 3},
            {"concurrency": 3, "requests": 9},
        ),
        (
            {"kind": "dataset", "file": "a.json", "conversations": 2, "concurrency": 1, "turns": 3},
            {"concurrency": 1, "conversations": 2, "turns": 3},
        ),
    ],
)
def test_what_a_file_brings_is_not_known(fields: dict[str, Any], facts: dict[str, int]) -> None:
    assert ANY.validate_python(fields).facts() == facts


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({**TALK, "turn_tokens": {"min": 5, "max": 1}}, "exchange the two"),
        ({**TALK, "turns": 0}, "greater than or equal to 1"),
        ({**TALK, "turns": True}, "is no count"),
        ({**TALK, "temperature": -1}, "greater than or equal to 0"),
        ({**TALK, "request_timeout": "soon"}, "is not a duration"),
        ({**TALK, "warmup": {"requests": 1}}, "Extra inputs are not permitted"),
        ({"kind": "decode_curve", "concurrencies": (2, 2)}, "names a number twice"),
        ({"kind": "decode_curve", "concurrencies": ()}, "at least 1 item"),
        ({"kind": "decode_curve", "concurrencies": (1,), "prompt_tokens": "x"}, "is no length"),
        ({"kind": "replay", "file": "a.txt"}, "must end in .jsonl or .csv"),
        ({"kind": "replay", "file": "a.csv", "time_scale": 2.0}, "does nothing in closed mode"),
        ({"kind": "dataset", "file": "a.csv", "conversations": 1, "concurrency": 1}, ".json"),
        ({"kind": "official_like", "output_tokens": {"median": 9, "p90": 5, "max": 10}}, "rise"),
        ({"kind": "official_like", "prompt_tokens": {"buckets": ()}}, "at least 1 item"),
        (
            {
                "kind": "official_like",
                "prompt_tokens": {"buckets": ({"min": 2, "max": 1, "weight": 1},)},
            },
            "exchange the two",
        ),
        ({"kind": "official_like", "tool_share": 1.5}, "less than or equal to 1"),
    ],
)
def test_workloads_that_make_no_sense(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        ANY.validate_python(fields)
    assert said in str(caught.value)


def test_lengths_know_their_largest() -> None:
    assert longest(7) == 7
    assert longest(UniformTokens(min=1, max=9, shape="log")) == 9
    assert longest(SkewedTokens(median=5, p90=8, max=20)) == 20
    assert (lowest(3), highest(3)) == (3, 3)
    assert (lowest(Between(min=2, max=5)), highest(Between(min=2, max=5))) == (2, 5)


@given(st.integers(1, 10**6), st.floats(0.001, 100))
def test_no_length_is_scaled_away(tokens: int, scale: float) -> None:
    assert scaled(tokens, scale) >= 1
    assert abs(scaled(tokens, scale) - tokens * scale) <= 1
