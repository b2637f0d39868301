"""``tuner bench --find-rate`` and ``--find-concurrency``: the most load within gates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tuner.errors import UserError
from tuner.load.rate import Found, RateSearch
from tuner.load.run import LoadResult
from tuner.score.columns import from_records
from tuner.score.figures import FIGURES
from tuner.score.gates import Gate, Outcome
from tuner.score.official import PUBLISHED
from tuner.score.profile import Profile
from tuner.score.summary import summarise
from tuner.spec.workload import Workload

_SHARES = frozenset({"success_rate", "attempted_success_rate", "cache_hit_rate"})
"""Figures that leave hardly anything above their limit: they hold or do not, and steer nothing."""


def search_of(rate: str | None, concurrency: str | None, out: Path | None) -> RateSearch:
    """The search that ``LOW,HIGH`` asks for, of a rate or of a concurrency."""
    if out is not None or (rate is None) == (concurrency is None):
        raise UserError("give --gate with one of --find-rate, --find-concurrency, without --out")
    bounds, whole = rate or concurrency or "", rate is None
    try:
        low, high = map(float, bounds.split(","))
        if high == math.inf:
            raise ValueError("the upper one must be finite")  # noqa: TRY301 - all ways end alike
        return RateSearch(low, high, whole=whole)
    except (ValueError, OverflowError) as wrong:
        raise UserError(f"{bounds!r} are no bounds: {wrong}", mend="write LOW,HIGH") from None


def gated(gates: Sequence[str]) -> Profile:
    """The profile of gates that are written as ``FIGURE=LIMIT``."""
    if not gates:
        raise UserError("nothing says which load holds", mend="add --gate, as in ttft_p90_s=2")
    try:
        limits = {figure: float(limit) for figure, limit in (gate.split("=") for gate in gates)}
        return Profile("asked", PUBLISHED, tuple(_gate(*each) for each in limits.items()))
    except ValueError as wrong:
        raise UserError(f"--gate: {wrong}", mend="write FIGURE=LIMIT") from None
    except KeyError as wrong:
        raise UserError(f"--gate: there is no figure called {wrong}") from None


def _gate(figure: str, limit: float) -> Gate:
    return Gate(figure, limit, at_least=FIGURES[figure].better == "higher")


def one_of(workloads: dict[str, Workload]) -> tuple[str, Workload]:
    """The only workload of a file."""
    if len(workloads) > 1:
        raise UserError("one workload is searched at a time", mend="leave the others out")
    return next(iter(workloads.items()))


def margin(gates: Profile, result: LoadResult) -> float:
    """The worst margin of a load; ``-inf`` where it was cut, lacks a figure, or misses a share."""
    records = from_records(result.records).since(result.since)
    judged = summarise(records, gates, wall_s=result.wall_s).standing.gates
    cut = result.ended_early is not None
    if cut or any(g.gate.figure in _SHARES and g.outcome is not Outcome.PASSED for g in judged):
        return -math.inf
    rest = [g.margin for g in judged if g.gate.figure not in _SHARES]
    return min([1.0, *(-math.inf if m is None else m for m in rest)])


def found_json(found: Found) -> dict[str, Any]:
    """What was found, JSON-ready."""
    levels = [
        {"level": x.level, "outcome": x.outcome, "times": len(x.margins)} for x in found.levels
    ]
    return {"level": found.level, "missed": found.missed, "levels": levels}


def words(found: Found, search: RateSearch) -> str:
    """What was found, for people."""
    lines = [f"{x.level:10.4g}  {x.outcome}, measured {len(x.margins)} times" for x in found.levels]
    unit = "conversations at once" if search.whole else "conversations started a second"
    holds = "none of these" if found.level is None else f"up to {found.level:.4g}"
    return "\n".join([*lines, f"{unit}: {holds} held the gates"])
