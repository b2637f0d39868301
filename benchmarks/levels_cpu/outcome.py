"""What a study with levels came to, beside a grid that was measured as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tuner.fidelity.surface import Surface, key_of
from tuner.store.rows import Origin, TrialRow


def grid_seconds(surface: Surface) -> float:
    """Engine seconds of measuring each point of a grid once: its start and its real load."""
    real = surface.head.real
    return sum(point.start + point.seconds(real) for point in surface.points.values())


def outcome(
    surface: Surface,
    trials: Sequence[TrialRow],
    seconds: Mapping[int, float],
    winner: int,
    best: int | None,
    rows: Iterable[Mapping[str, Any]],
) -> dict[str, Any]:
    """The figures of a study, JSON-ready.

    Args:
        surface: The grid.
        trials: The study's trials.
        seconds: Engine seconds of each trial, by number.
        winner: Number of the trial that it declares the winner.
        best: Number of the finalist that scored best, also where it is no clear winner.
        rows: What it says of its levels.
    """
    whole = grid_seconds(surface)
    finals = {t.number for t in trials if t.origin is Origin.REPEAT and t.block is not None}
    spent = sum(seconds.values())
    search = sum(s for number, s in seconds.items() if number not in finals)
    by_number = {t.number: t for t in trials}
    return {
        "grid_engine_s": round(whole, 1),
        "study_engine_s": round(spent, 1),
        "search_engine_s": round(search, 1),
        "ratio": round(spent / whole, 3),
        "ratio_of_search": round(search / whole, 3),
        "starts": len(seconds),
        "verdicts": _counts(t.verdict for t in trials),
        "winner": _point(surface, by_number[winner]),
        "best_finalist": None if best is None else _point(surface, by_number[best]),
        "grid_best": round(surface.best, 1),
        "grid_noise": surface.sigma(surface.head.real),
        "levels": [dict(row) for row in rows],
    }


def _point(surface: Surface, trial: TrialRow) -> dict[str, Any]:
    value = surface.truth[key_of(trial.params)]
    return {
        "trial": trial.number,
        "params": trial.params,
        "grid_value": round(value, 1),
        "below_grid_best": round(1 - value / surface.best, 4),
    }


def _counts(verdicts: Iterable[str | None]) -> dict[str, int]:
    found: dict[str, int] = {}
    for verdict in verdicts:
        found[verdict or "none"] = found.get(verdict or "none", 0) + 1
    return found
