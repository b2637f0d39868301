from __future__ import annotations

import pytest

from tuner.spec.limits import Amount
from tuner.spec.values import FileValue, ListValue, SecretValue
from tuner.spec.wording import amount, fields, fixed_value
from tuner.spec.workload import (
    Between,
    BucketTokens,
    Conversations,
    DecodeCurve,
    SkewedTokens,
    TokenBucket,
    UniformTokens,
)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("--x", True, "on"),
        ("--no-x", True, "--no-x"),
        ("--x", "text", "text"),
        ("--x", 0.9, "0.9"),
        ("--x", {"b": 1, "a": [2]}, '{"a":[2],"b":1}'),
        ("--x", FileValue(file="a.jinja"), "a.jinja"),
        ("--x", ListValue(list=(1, "b"), join="comma"), "1, b"),
        ("X", SecretValue(from_env="MINE"), "from the environment (MINE)"),
    ],
)
def test_fixed_values(name: str, value: object, said: str) -> None:
    assert fixed_value(name, value) == said


def test_amounts() -> None:
    assert amount(Amount(bytes=8 << 30)) == "8.0 GiB"
    assert amount(Amount(share=0.025)) == "2.5 % of what there is"


@pytest.mark.parametrize(
    ("length", "said"),
    [
        (7, "7"),
        (UniformTokens(min=1, max=9), "1 to 9"),
        (UniformTokens(min=1, max=9, shape="log"), "1 to 9, logarithmic"),
        (SkewedTokens(median=4, p90=8, max=20), "1 to 20, median 4, 90th percentile 8"),
        (
            BucketTokens(
                buckets=(TokenBucket(min=5, max=9, weight=1), TokenBucket(min=2, max=4, weight=1))
            ),
            "2 to 9 in 2 ranges",
        ),
    ],
)
def test_lengths(length: int | UniformTokens | SkewedTokens | BucketTokens, said: str) -> None:
    curve = DecodeCurve(kind="decode_curve", concurrencies=(1, 2), prompt_tokens=length)
    assert f"prompt_tokens {said}, output_tokens 128" in fields(curve)
    assert "concurrencies 1 2" in fields(curve)


def test_what_is_not_given_is_not_said() -> None:
    talk = Conversations(
        kind="conversations",
        conversations=4,
        turns=Between(min=1, max=3),
        concurrency=2,
        turn_tokens=5,
        output_tokens=6,
    )
    said = fields(talk, without=frozenset({"kind", "seed"}))
    assert "turns 1 to 3" in said
    assert "ignore_eos on" in said
    assert "warmup (conversations 1)" in said
    assert not {"time_limit", "kind", "seed"} & set(said.replace(",", "").split())
