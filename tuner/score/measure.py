"""Records in, metrics out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tuner.load.record import Record, Since
from tuner.score.columns import Columns, Mask, from_records
from tuner.score.distribution import Distribution, Floats
from tuner.score.goodput import Limits, goodput
from tuner.score.metrics import Metrics

_NO_SUCCESS = "no request succeeded"
_NO_CACHED = (
    "no answer said how many tokens were cached "
    "(a server says it when started with --enable-prompt-tokens-details)"
)


def measure(
    records: Sequence[Record] | Columns,
    *,
    wall_s: float | None = None,
    planned: int | None = None,
    cached_reported: bool | None = None,
    since: Since = "sent",
    limits: Limits | None = None,
) -> Metrics:
    """The metrics of one load.

    Args:
        records: Every request that was planned, whatever became of it.
        wall_s: Wall time of the load. By default from when the first request was due or sent to the
            last end.
        planned: How many requests the workload planned, where the records may be fewer; those that
            are missing count as never sent. By default as many as there are records.
        cached_reported: Whether the server reports cached tokens at all. Then an answer that says
            none had none. By default true when at least one answer says a number.
        since: Where TTFT and E2E latency start, and so a request's output TPS and the goodput.
        limits: Limits for the goodput.

    Raises:
        ValueError: When ``planned`` is less than the number of records.
    """
    table = records if isinstance(records, Columns) else from_records(records)
    total = len(table) if planned is None else planned
    if total < len(table):
        raise ValueError(f"{len(table)} records of {total} planned requests")
    ok = table.ok
    succeeded = int(ok.sum())
    attempted = int((~table.not_sent).sum())
    unmeasured: dict[str, str] = {}
    tokens = _tokens(table, ok, unmeasured, cached_reported=cached_reported)
    wall = _wall(table, wall_s, unmeasured)
    timed = table.since(since)
    times = _latencies(timed, ok)
    _explain_latencies(times, table, ok, unmeasured)
    if limits is None:
        unmeasured["goodput_rps"] = unmeasured["goodput_share"] = "no limits were given"
    elif wall is None:
        unmeasured["goodput_rps"] = unmeasured["wall_s"]
    if total == 0:
        unmeasured.setdefault("goodput_share", "no request was planned")
        unmeasured["success_rate"] = "no request was planned"
    if attempted == 0:
        unmeasured["attempted_success_rate"] = "no request was sent"
    return Metrics(
        planned=total,
        attempted=attempted,
        succeeded=succeeded,
        success_rate=_ratio(succeeded, total),
        attempted_success_rate=_ratio(succeeded, attempted),
        wall_s=wall,
        prompt_tokens=tokens.prompt,
        uncached_tokens=tokens.uncached,
        cached_tokens=tokens.cached,
        output_tokens=tokens.output,
        reasoning_tokens=tokens.reasoning,
        output_tps=_ratio(tokens.output, wall),
        uncached_input_tps=_ratio(tokens.uncached, wall),
        cached_tps=_ratio(tokens.cached, wall),
        request_rps=_ratio(succeeded, wall),
        cache_hit_rate=_ratio(tokens.cached, tokens.prompt),
        error_classes=table.error.counts(~ok),
        finish_reasons=table.finish_reason.counts(ok),
        repeated_answer_rate=_repeated(table, ok, unmeasured),
        repetition_rate=_repetitive(table, ok, tokens.output, unmeasured),
        goodput=None if limits is None else goodput(timed, limits, planned=total, wall_s=wall),
        faults=_faults(table, ok),
        unmeasured=unmeasured,
        **times,
    )


def _ratio(part: float | None, whole: float | None) -> float | None:
    if part is None or whole is None or whole <= 0:
        return None
    return part / whole


@dataclass(frozen=True, slots=True)
class _Tokens:
    prompt: int | None
    cached: int | None
    uncached: int | None
    output: int | None
    reasoning: int | None


def _tokens(
    table: Columns, ok: Mask, unmeasured: dict[str, str], *, cached_reported: bool | None
) -> _Tokens:
    """Sums over the successes; a count that only some answers said is 0 for the others."""
    prompt = _sum(table, "prompt_tokens", ok)
    output = _sum(table, "output_tokens", ok)
    cached_known = np.isfinite(table.cached_tokens[ok])
    reported = bool(cached_known.any()) if cached_reported is None else cached_reported
    cached = uncached = None
    if prompt is not None and (reported or not ok.any()):
        prompts = np.nan_to_num(table.prompt_tokens[ok])
        cached_each = np.clip(np.nan_to_num(table.cached_tokens[ok]), 0, prompts)
        cached = int(cached_each.sum())
        uncached = prompt - cached
    else:
        why = _NO_CACHED if prompt is not None else "the source has no prompt tokens"
        for name in ("cached_tokens", "uncached_tokens", "cached_tps", "uncached_input_tps"):
            unmeasured[name] = why
        unmeasured["cache_hit_rate"] = why
    if output is None:
        unmeasured["output_tokens"] = unmeasured["output_tps"] = "the source has no output tokens"
    if prompt is None:
        unmeasured["prompt_tokens"] = "the source has no prompt tokens"
    if cached is not None and not prompt:
        unmeasured["cache_hit_rate"] = _NO_SUCCESS if not ok.any() else "no prompt had tokens"
    reasoning_known = bool(np.isfinite(table.reasoning_tokens[ok]).any())
    if not reasoning_known:
        unmeasured["reasoning_tokens"] = "no answer said its reasoning tokens"
    return _Tokens(
        prompt=prompt,
        cached=cached,
        uncached=uncached,
        output=output,
        reasoning=_sum(table, "reasoning_tokens", ok) if reasoning_known else None,
    )


def _sum(table: Columns, name: str, ok: Mask) -> int | None:
    if name in table.absent and ok.any():
        return None
    values: Floats = getattr(table, name)[ok]
    return int(np.clip(np.nan_to_num(values), 0, None).sum())


def _wall(table: Columns, given: float | None, unmeasured: dict[str, str]) -> float | None:
    """The wall time: what was given, or from the first start to the last end."""
    wall, why = given, "the wall time that was given is not positive"
    if given is None:
        sound = ~table.clock_faults
        starts = np.fmin(table.scheduled, table.sent)[sound]
        ends = table.end[sound]
        starts, ends = starts[np.isfinite(starts)], ends[np.isfinite(ends)]
        wall = float(ends.max() - starts.min()) if starts.size and ends.size else None
        why = "no wall time was given and the records have no times to take it from"
        if len(table) and not sound.any():
            why = "the clock of every record ran backwards"
    if wall is not None and np.isfinite(wall) and wall > 0:
        return wall
    for name in ("wall_s", "output_tps", "uncached_input_tps", "cached_tps", "request_rps"):
        unmeasured[name] = why
    return None


def _latencies(table: Columns, ok: Mask) -> dict[str, Distribution | None]:
    """Distributions over the successes whose clock ran forwards."""
    good = ok & ~table.clock_faults
    lag = table.sent - table.scheduled
    ttft, e2e, output = table.ttft_s[good], table.e2e_s[good], table.output_tokens[good]
    decode = e2e - ttft
    with np.errstate(divide="ignore", invalid="ignore"):
        after_first = np.where(output > 1, output - 1, np.nan)
        tpot = decode / after_first
        decode_tps = after_first / np.where(decode > 0, decode, np.nan)
        request_tps = output / np.where(e2e > 0, e2e, np.nan)
    return {
        "ttft_s": Distribution.of(ttft),
        "itl_s": table.itl.distribution(),
        "tpot_s": Distribution.of(tpot),
        "e2e_s": Distribution.of(e2e),
        "request_output_tps": Distribution.of(request_tps),
        "request_decode_tps": Distribution.of(decode_tps),
        "send_lag_s": Distribution.of(lag),
    }


_LACKING = {
    "ttft_s": "no success says when its first token came",
    "itl_s": "no success has times of its chunks",
    "tpot_s": "no success of two tokens or more says when its first token came",
    "e2e_s": "no success says how long it took",
    "request_output_tps": "no success says its output tokens and how long it took",
    "request_decode_tps": "no success of two tokens or more says when its first token came",
    "send_lag_s": "no request says when it was due and when it was sent",
}


def _explain_latencies(
    times: dict[str, Distribution | None], table: Columns, ok: Mask, unmeasured: dict[str, str]
) -> None:
    """Say why a latency has no figure."""
    for name, found in times.items():
        if found is not None:
            continue
        if name == "send_lag_s":
            unmeasured[name] = _LACKING[name]
        elif not ok.any():
            unmeasured[name] = _NO_SUCCESS
        elif bool(table.clock_faults[ok].all()):
            unmeasured[name] = "the clock of every success ran backwards"
        else:
            unmeasured[name] = _LACKING[name]


def _repeated(table: Columns, ok: Mask, unmeasured: dict[str, str]) -> float | None:
    """Share of the answers with a digest that an earlier answer had."""
    digests = table.digest[ok]
    digests = digests[digests != 0]
    if digests.size == 0:
        unmeasured["repeated_answer_rate"] = "no success has a digest of its answer"
        return None
    return 1 - np.unique(digests).size / int(digests.size)


def _repetitive(
    table: Columns, ok: Mask, output: int | None, unmeasured: dict[str, str]
) -> float | None:
    counted = "repetitive_tokens" not in table.absent
    rate = _ratio(_sum(table, "repetitive_tokens", ok), output) if counted else None
    if rate is None:
        unmeasured["repetition_rate"] = "the source did not count repetition"
    return rate


def _faults(table: Columns, ok: Mask) -> dict[str, int]:
    """What is wrong with the records themselves: kinds that occur, with their numbers."""
    prompt, cached = table.prompt_tokens, table.cached_tokens
    output = table.output_tokens
    no_counts = np.zeros(len(table), dtype=np.bool_)
    for name in ("prompt_tokens", "output_tokens"):
        if name not in table.absent:
            no_counts |= ~np.isfinite(getattr(table, name))
    no_first = ok & ~np.isfinite(table.ttft_s) & (output > 0)
    if "first_token" in table.absent:
        no_first[:] = False
    kinds = {
        "clock_backwards": table.clock_faults,
        "cached_over_prompt": cached > prompt,
        "negative_tokens": (prompt < 0) | (cached < 0) | (output < 0),
        "success_without_token_counts": ok & no_counts,
        "success_without_first_token": no_first,
    }
    return {name: int(mask.sum()) for name, mask in kinds.items() if mask.any()}
