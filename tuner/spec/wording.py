"""Values of a search space as lines for people show them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from tuner.quantity import format_bytes
from tuner.spec.limits import Amount
from tuner.spec.values import FileValue, ListValue, SecretValue, json_text, text_of
from tuner.spec.workload import Between, BucketTokens, SkewedTokens, UniformTokens


def fixed_value(name: str, value: object) -> str:
    """The fixed value of a flag or a variable."""
    if value is True:
        return name if name.startswith("--no-") else "on"
    if isinstance(value, FileValue):
        return value.file
    if isinstance(value, SecretValue):
        return f"from the environment ({value.from_env})"
    if isinstance(value, ListValue):
        return ", ".join(str(item) for item in value.list)
    return text_of(value) if isinstance(value, str | int | float) else json_text(value)


def amount(value: Amount) -> str:
    """A size, or a share."""
    if value.bytes is not None:
        return format_bytes(value.bytes)
    return f"{(value.share or 0.0) * 100:g} % of what there is"


def fields(model: BaseModel, *, without: frozenset[str] = frozenset()) -> str:
    """The fields of a model with their values; those that are not given are left out."""
    named = [(name, getattr(model, name)) for name in type(model).model_fields]
    kept = [(n, v) for n, v in named if n not in without and v is not None]
    return ", ".join(f"{name} {_field(value)}" for name, value in kept)


def _field(value: Any) -> str:
    match value:
        case bool():
            return "on" if value else "off"
        case int() | float():
            return f"{value:g}" if isinstance(value, float) else f"{value}"
        case Between() | UniformTokens() | SkewedTokens() | BucketTokens():
            return _drawn(value)
        case tuple():
            return " ".join(_field(item) for item in value)
        case BaseModel():
            return f"({fields(value)})"
    return str(value)


def _drawn(value: Between | UniformTokens | SkewedTokens | BucketTokens) -> str:
    match value:
        case BucketTokens():
            low = min(bucket.min for bucket in value.buckets)
            high = max(bucket.max for bucket in value.buckets)
            return f"{low} to {high} in {len(value.buckets)} ranges"
        case SkewedTokens():
            return f"{value.min} to {value.max}, median {value.median}, 90th percentile {value.p90}"
        case UniformTokens(shape="log"):
            return f"{value.min} to {value.max}, logarithmic"
    return f"{value.min} to {value.max}"
