"""A summary as plain text for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tuner.score.buckets import Bucket
from tuner.score.figures import FIGURES
from tuner.score.gates import GateResult, Outcome
from tuner.score.rank import Tier
from tuner.score.summary import Summary

SHOWN = (
    *("weighted", "module_score", "output_tps", "uncached_input_tps", "cached_tps"),
    *("cache_hit_rate", "request_rps", "goodput_rps", "wall_s"),
    *("output_tps_p10", "output_tps_p50", "output_tps_p90"),
    *("decode_tps_p10", "decode_tps_p50"),
    *("ttft_p50_s", "ttft_p90_s", "ttft_p99_s"),
    *("tpot_p50_s", "tpot_p90_s", "itl_p50_s", "itl_p99_s"),
    *("e2e_p50_s", "e2e_p90_s", "e2e_p99_s", "send_lag_p99_s"),
    *("repeated_answer_rate", "repetition_rate"),
)
"""The figures that the table shows; JSON has all of them."""


def table(summary: Summary) -> str:
    """The summary as text: standing, gates with margins, figures, buckets, attribution."""
    parts = [
        _population(summary),
        _gates(summary.standing.gates),
        _figures(summary),
        _missing(summary),
        _buckets(summary.buckets),
        _attribution(summary),
    ]
    return "\n\n".join("\n".join(lines) for lines in map(list, parts) if lines)


def number(value: float | None) -> str:
    """A figure with four significant digits; a dash where there is none."""
    if value is None:
        return "-"
    if value == 0 or 0.001 <= abs(value) < 1e9:
        digits = (
            0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2 if abs(value) >= 10 else 3
        )
        return f"{value:,.{digits}f}"
    return f"{value:.3g}"


def percent(part: float | None) -> str:
    """A part as percent with its sign; a dash where there is none."""
    return "-" if part is None else f"{100 * part:+.1f} %"


def columns(rows: Sequence[Sequence[str]], left: int = 1) -> Iterator[str]:
    """Rows as aligned text, the first ``left`` columns to the left and the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = (
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield f"  {'  '.join(cells)}".rstrip()


def _population(summary: Summary) -> Iterator[str]:
    metrics, standing = summary.metrics, summary.standing
    yield (
        f"{metrics.planned} requests planned, {metrics.attempted} sent, "
        f"{metrics.succeeded} succeeded ({100 * standing.success_rate:.1f} %)"
    )
    score = "no score" if standing.score is None else f"weighted score {number(standing.score)}"
    yield f"{score}, {_why(summary)}"
    for what, counts in (
        ("failed", metrics.error_classes),
        ("ended by", metrics.finish_reasons),
        ("records at fault", metrics.faults),
    ):
        if counts:
            yield f"  {what}: {', '.join(f'{name} {count}' for name, count in counts.items())}"


def _why(summary: Summary) -> str:
    standing = summary.standing
    if standing.tier is Tier.INCOMPLETE:
        return (
            "which does not count: the population is incomplete "
            f"(complete from {100 * standing.complete_at:g} % on)"
        )
    missed = [r.gate.figure for r in standing.gates if r.outcome is not Outcome.PASSED]
    if missed:
        return f"which does not count: {', '.join(missed)}"
    return f"every gate of profile {summary.profile.name} passed" if standing.gates else "no gates"


def _gates(results: Sequence[GateResult]) -> Iterator[str]:
    if not results:
        return
    rows = [("gate", "value", "limit", "margin", "")]
    for result in results:
        sign = ">=" if result.gate.at_least else "<="
        limit = f"{sign} {number(result.gate.limit)}"
        margin = percent(result.margin)
        rows.append((result.gate.figure, number(result.value), limit, margin, result.outcome.value))
    yield from columns(rows)


def _figures(summary: Summary) -> Iterator[str]:
    found = summary.standing.figures
    rows = [
        (FIGURES[name].label, name, number(found[name]), FIGURES[name].unit.ljust(5))
        for name in SHOWN
        if found[name] is not None
    ]
    if rows:
        yield from columns(rows, left=2)


def _missing(summary: Summary) -> Iterator[str]:
    """The figures that could not be had, those with one reason together."""
    reasons: dict[str, list[str]] = {}
    for name in SHOWN:
        if name in summary.missing and not name.startswith("goodput"):
            reasons.setdefault(summary.missing[name], []).append(name)
    if reasons:
        yield "not computed:"
    for reason, names in reasons.items():
        yield f"  {', '.join(names)}: {reason}"


def _buckets(buckets: Iterable[Bucket]) -> Iterator[str]:
    filled = [bucket for bucket in buckets if bucket.count]
    if not filled:
        return
    rows = [
        (
            "prompt tokens",
            "n",
            "TTFT P50 s",
            "TTFT P90 s",
            "tok/s P10",
            "hit rate",
            "of the P90 tail",
        )
    ]
    for b in filled:
        tail = "-" if b.tail_share is None else f"{100 * b.tail_share:.0f} %"
        rows.append(
            (
                b.label,
                str(b.count),
                number(b.ttft_s.p50 if b.ttft_s else None),
                number(b.ttft_s.p90 if b.ttft_s else None),
                number(b.request_output_tps.p10 if b.request_output_tps else None),
                number(b.cache_hit_rate),
                tail,
            )
        )
    yield from columns(rows)


def _attribution(summary: Summary) -> Iterator[str]:
    parts, time, more = summary.shares, summary.wall_time, summary.gains
    if parts is not None:
        yield (
            f"score: {100 * parts.output:.1f} % output, {100 * parts.uncached_input:.1f} % uncached "
            f"input, {100 * parts.cached:.1f} % cached"
        )
    if time is not None:
        yield (
            f"wall time: {100 * time.prefill:.1f} % before first tokens, {100 * time.decode:.1f} % "
            f"after, {100 * time.lost:.1f} % in requests without one, {100 * time.idle:.1f} % idle"
        )
    if more is not None:
        yield (
            f"{100 * more.gain:.0f} % more would change the score by: prefill speed "
            f"{percent(more.prefill)}, decode speed {percent(more.decode)}, cached tokens "
            f"{percent(more.cache)} (estimate)"
        )
