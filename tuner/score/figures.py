"""Every figure of a load by its name, which is how gates, tables and reports speak of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tuner.score.distribution import Distribution
from tuner.score.metrics import Metrics
from tuner.score.official import PUBLISHED, Weights, module_score, weighted

Better = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True)
class Figure:
    """What a figure is.

    Attributes:
        unit: Its unit, empty for a ratio.
        better: Which way is better.
        label: What people call it.
    """

    unit: str
    better: Better
    label: str


_SCALARS = {
    "weighted": Figure("", "higher", "weighted score"),
    "module_score": Figure("", "higher", "module score"),
    "success_rate": Figure("", "higher", "success rate"),
    "attempted_success_rate": Figure("", "higher", "success rate of those sent"),
    "cache_hit_rate": Figure("", "higher", "cache hit rate"),
    "output_tps": Figure("tok/s", "higher", "output TPS, aggregate"),
    "uncached_input_tps": Figure("tok/s", "higher", "uncached input TPS"),
    "cached_tps": Figure("tok/s", "higher", "cached TPS"),
    "request_rps": Figure("req/s", "higher", "successes a second"),
    "goodput_rps": Figure("req/s", "higher", "goodput"),
    "goodput_share": Figure("", "higher", "requests within limits"),
    "wall_s": Figure("s", "lower", "wall time"),
    "repeated_answer_rate": Figure("", "lower", "repeated answers"),
    "repetition_rate": Figure("", "lower", "repetition"),
}
_SECONDS = {
    "ttft": ("ttft_s", "TTFT"),
    "itl": ("itl_s", "ITL"),
    "tpot": ("tpot_s", "TPOT"),
    "e2e": ("e2e_s", "E2E latency"),
    "send_lag": ("send_lag_s", "client's send lag"),
}
_RATES = {
    "output_tps": ("request_output_tps", "output TPS of a request, TTFT included"),
    "decode_tps": ("request_decode_tps", "decode TPS of a request, TTFT left out"),
}
_STATISTICS = {
    "mean": "mean",
    "p10": "p10",
    "p50": "p50",
    "p90": "p90",
    "p99": "p99",
    "max": "maximum",
    "min": "minimum",
}


def _catalogue() -> dict[str, Figure]:
    figures = dict(_SCALARS)
    for statistic in _STATISTICS:
        said = statistic.upper() if statistic.startswith("p") else statistic
        for prefix, (_, label) in _SECONDS.items():
            figures[f"{prefix}_{statistic}_s"] = Figure("s", "lower", f"{label} {said}")
        for prefix, (_, label) in _RATES.items():
            figures[f"{prefix}_{statistic}"] = Figure("tok/s", "higher", f"{label}, {said}")
    return figures


FIGURES: Mapping[str, Figure] = _catalogue()
"""Every figure that :func:`figures` tells, by name."""


def figures(metrics: Metrics, weights: Weights = PUBLISHED) -> dict[str, float | None]:
    """Every figure of a load by name, in the order of :data:`FIGURES`.

    Args:
        metrics: The load's metrics.
        weights: The weights of ``weighted``.
    """
    found: dict[str, float | None] = {
        "weighted": weighted(metrics, weights),
        "module_score": module_score(metrics),
    }
    for name in _SCALARS:
        if name not in found:
            found[name] = getattr(metrics, name)
    for statistic, attribute in _STATISTICS.items():
        for prefix, (field, _) in _SECONDS.items():
            found[f"{prefix}_{statistic}_s"] = _pick(getattr(metrics, field), attribute)
        for prefix, (field, _) in _RATES.items():
            found[f"{prefix}_{statistic}"] = _pick(getattr(metrics, field), attribute)
    return {name: found[name] for name in FIGURES}


def _pick(distribution: Distribution | None, attribute: str) -> float | None:
    if distribution is None:
        return None
    value = float(getattr(distribution, attribute))
    return value if math.isfinite(value) else None


def why_missing(name: str, metrics: Metrics) -> str:
    """Why a figure has no value."""
    if name in metrics.unmeasured:
        return metrics.unmeasured[name]
    if name in {"weighted", "module_score"}:
        for rate in ("output_tps", "uncached_input_tps", "cached_tps"):
            if rate in metrics.unmeasured:
                return f"{rate}: {metrics.unmeasured[rate]}"
    prefix = name.removesuffix("_s").rpartition("_")[0]
    field = (_SECONDS.get(prefix) or _RATES.get(prefix) or (name, ""))[0]
    return metrics.unmeasured.get(field, "it was not measured")
