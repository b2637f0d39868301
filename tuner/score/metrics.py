"""Metrics: what a population of requests says about a deployment.

Everything is counted over the population that was planned. A request that failed, was refused or
was never sent adds no tokens and no latency, and lowers the success rate.

Three figures bear the name of output tokens a second, and are never mixed:

* ``output_tps`` is the aggregate: tokens of all successes over the wall time of the load. It is the
  term of the official score.
* ``output_tps_p10``, ``_p50``, ``_p90`` are percentiles over the requests of generated tokens over
  the request's whole time, the wait for the first token included. It is the official gate's figure.
* ``decode_tps_p10`` and so on leave the first token and the wait for it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tuner.score.distribution import Distribution
from tuner.score.goodput import Goodput


@dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics of one load. A figure that cannot be had is None, and ``unmeasured`` says why.

    Attributes:
        planned: Requests that the workload planned.
        attempted: Requests that were sent.
        succeeded: Requests that ended well and said their token counts.
        success_rate: ``succeeded / planned``.
        attempted_success_rate: ``succeeded / attempted``, the platform's "uptime".
        wall_s: Wall time of the load in seconds.
        prompt_tokens: Prompt tokens of the successes, cached ones included.
        uncached_tokens: Those of them that had to be computed.
        cached_tokens: Those of them that came from the prefix cache.
        output_tokens: Generated tokens of the successes, reasoning included.
        reasoning_tokens: Generated tokens inside the reasoning part.
        output_tps: Output tokens of all successes a second of wall time (aggregate).
        uncached_input_tps: Uncached prompt tokens a second of wall time.
        cached_tps: Cached prompt tokens a second of wall time.
        request_rps: Successes a second of wall time.
        cache_hit_rate: ``cached_tokens / prompt_tokens`` over the successes.
        ttft_s: Seconds to the first generated token.
        itl_s: Seconds between chunks; a chunk may hold several tokens.
        tpot_s: Seconds a token after the first: ``(e2e - ttft) / (output_tokens - 1)``.
        e2e_s: Seconds from the send to the end.
        request_output_tps: Output tokens over ``e2e_s``, request by request.
        request_decode_tps: ``(output_tokens - 1) / (e2e - ttft)``, request by request.
        send_lag_s: Seconds by which the client sent later than planned.
        error_classes: Failures by class.
        finish_reasons: Successes by finish reason.
        repeated_answer_rate: Share of the answers that are the same as an earlier one.
        goodput: The requests within the limits that were asked for; None where none were.
        repetition_rate: Share of the output tokens that the source counted as repetition.
        faults: What is wrong with the records themselves, by kind, with how many it touches.
        unmeasured: For each figure that is None, why.
    """

    planned: int
    attempted: int
    succeeded: int
    success_rate: float | None
    attempted_success_rate: float | None
    wall_s: float | None
    prompt_tokens: int | None
    uncached_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    output_tps: float | None
    uncached_input_tps: float | None
    cached_tps: float | None
    request_rps: float | None
    cache_hit_rate: float | None
    ttft_s: Distribution | None
    itl_s: Distribution | None
    tpot_s: Distribution | None
    e2e_s: Distribution | None
    request_output_tps: Distribution | None
    request_decode_tps: Distribution | None
    send_lag_s: Distribution | None
    error_classes: Mapping[str, int]
    finish_reasons: Mapping[str, int]
    repeated_answer_rate: float | None
    repetition_rate: float | None
    goodput: Goodput | None
    faults: Mapping[str, int]
    unmeasured: Mapping[str, str]

    @property
    def goodput_rps(self) -> float | None:
        """Requests within the limits, a second of wall time."""
        return None if self.goodput is None else self.goodput.rps

    @property
    def goodput_share(self) -> float | None:
        """Requests within the limits, as a part of those planned."""
        return None if self.goodput is None else self.goodput.share
