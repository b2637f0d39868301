from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tuner.load.record import ErrorClass, Record
from tuner.score.buckets import by_prompt_length
from tuner.score.columns import from_records

Make = Callable[..., Record]


@pytest.mark.parametrize("name", ["655", "694"])
def test_platform_buckets(
    name: str,
    platform_runs: dict[str, dict[str, Any]],
    platform_requests: dict[str, list[Record]],
) -> None:
    records = platform_requests[name]
    if name == "694":  # the platform ended while request 682 was under way
        records = [
            replace(r, error=ErrorClass.CANCELLED) if r.session == 682 else r for r in records
        ]
    found = {b.label: b.count for b in by_prompt_length(records)}
    assert found == platform_runs[name]["bucket_counts"] | {">=256k": 0}


def test_what_makes_the_p90(make_record: Make) -> None:
    short = [make_record(prompt=1000, ttft=0.5) for _ in range(8)]
    long = [make_record(prompt=20_000, ttft=9.0 + i, cached=10_000) for i in range(2)]
    small, large = by_prompt_length([*short, *long], edges=[4096])
    assert (small.count, small.share, small.tail_share) == (8, 0.8, 0.0)
    assert (large.count, large.share, large.tail_share) == (2, 0.2, 1.0)
    assert large.ttft_s is not None
    assert large.ttft_s.p90 == pytest.approx(9.9)
    assert (small.cache_hit_rate, large.cache_hit_rate) == (0.2, 0.5)
    assert (small.label, large.label) == ("<4k", ">=4k")


def test_empty_buckets_are_told() -> None:
    found = by_prompt_length([])
    assert [b.count for b in found] == [0] * 7
    assert all(b.ttft_s is None and b.tail_share is None for b in found)
    assert [b.label for b in found][:2] == ["<6k", "6k-16k"]


@pytest.mark.parametrize("edges", [[], [0, 5], [5, 5], [9, 5]])
def test_edges_that_do_not_ascend_are_refused(edges: list[int]) -> None:
    with pytest.raises(ValueError, match="edges"):
        by_prompt_length([], edges=edges)


def test_buckets_of_an_open_loop_start_when_requests_were_due(make_record: Make) -> None:
    late = make_record(5.0, ttft=1.0, scheduled=2.0, prompt=1000)
    (bucket, *_) = by_prompt_length(from_records([late]).since("scheduled"))
    assert bucket.ttft_s is not None
    assert bucket.ttft_s.p50 == pytest.approx(4.0)
    assert bucket.e2e_s is not None
    assert bucket.e2e_s.p50 == pytest.approx(5.0)
