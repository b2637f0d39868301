"""What is measured again before the finalists are chosen: the baseline for its noise, rivals to tell them apart.

All of it is read from the ledger, so a study that was stopped goes on with what is missing. These
repeats belong to no block: each has prompts of its own, as two trials of the search have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.score.contenders import Selection, contenders
from tuner.score.noise import Noise, logs, pooled_noise
from tuner.spec.document import Search
from tuner.store.rows import Origin, TrialRow
from tuner.trial.finalists import Repeat


@dataclass(frozen=True, slots=True)
class Standing:
    """What the search came to, before anything is confirmed.

    Attributes:
        finalists: Numbers of the trials that are to be confirmed, the best first.
        again: Those that are to be run once more first; empty when more would change nothing.
        dropped: Why a trial is out, by its number.
        noise: The study's own noise; None while no deployment was measured twice.
    """

    finalists: tuple[int, ...]
    again: tuple[int, ...]
    dropped: Mapping[int, str]
    noise: Noise | None

    def as_json(self) -> dict[str, Any]:
        """The standing as JSON-ready data."""
        return {
            "finalists": list(self.finalists),
            "dropped": {str(number): why for number, why in self.dropped.items()},
            "noise": None if self.noise is None else noise_json(self.noise),
        }


def noise_json(noise: Noise) -> dict[str, Any]:
    """Noise as JSON-ready data, with the interval that its few degrees of freedom leave."""
    low, high = noise.interval()
    return {
        "sigma": noise.sigma,
        "df": noise.df,
        "low": low,
        "high": high if math.isfinite(high) else None,
    }


def baseline_repeats(trials: Sequence[TrialRow], starts: int) -> list[Repeat]:
    """The A/A runs of the baseline that are still to be made.

    Args:
        trials: All trials of the study.
        starts: How often the baseline is to be measured before the search, its own trial included.
    """
    base = next(t for t in trials if t.origin is Origin.BASELINE)
    made = sum(t.repeats == base.number and t.block is None for t in trials if _is_repeat(t))
    return [Repeat(base.number, None)] * max(0, starts - 1 - made)


def runs_of(trials: Sequence[TrialRow]) -> dict[int, list[float]]:
    """The scores of each trial of the search: its own, and those of its repeats outside blocks."""
    found: dict[int, list[float]] = {}
    for trial in trials:
        repeat = _is_repeat(trial)
        if trial.origin is Origin.SIMPLER or (repeat and trial.block is not None):
            continue
        if not trial.feasible or not trial.score:
            continue
        of = trial.repeats if repeat and trial.repeats is not None else trial.number
        if trial.score > 0:
            found.setdefault(of, []).append(trial.score)
    return found


def study_noise(trials: Sequence[TrialRow], *, blocks: bool = False) -> Noise | None:
    """The noise between starts, pooled over all deployments that were measured more than once.

    Args:
        trials: All trials of the study.
        blocks: Whether the finalists' runs count too. They do in a report, and not where something
            is decided: what was decided must come out the same when a study is resumed after them.

    Returns:
        The noise; None where nothing was measured twice.
    """
    groups: dict[int, list[float]] = {}
    for trial in trials:
        if trial.feasible and trial.score is not None and trial.score > 0:
            repeat = _is_repeat(trial)
            if blocks or not repeat or trial.block is None:
                of = trial.repeats if repeat and trial.repeats is not None else trial.number
                groups.setdefault(of, []).append(trial.score)
    try:
        return pooled_noise(groups.values())
    except ValueError:
        return None


def standing(trials: Sequence[TrialRow], search: Search) -> Standing:
    """Who would be confirmed now, and who must be measured again to know.

    Args:
        trials: All trials of the study.
        search: How the search space wants finalists chosen.
    """
    runs = runs_of(trials)
    noise = study_noise(trials)
    base = next(t for t in trials if t.origin is Origin.BASELINE)
    floor = _level(runs.get(base.number))
    rivals = {
        number: values
        for number, values in runs.items()
        if number != base.number and _level(values) > floor and not _broken(trials, number)
    }
    count = search.finalists.count
    if noise is None or base.number not in runs or count == 0:
        best = sorted(rivals, key=lambda n: -_level(rivals[n]))
        return Standing(tuple(best[:count]), (), {}, noise)
    selection = Selection(
        finalists=count, worthwhile=search.repeats.worthwhile, most=search.repeats.each
    )
    found = contenders({str(n): v for n, v in rivals.items()}, runs[base.number], noise, selection)
    left = _left(trials, base.number, search.repeats.starts)
    finalists = tuple(map(int, found.finalists))
    again = tuple(map(int, found.repeat))[:left]
    if runs.keys() - {base.number, *finalists} and _moved_on(trials, base.number, search):
        again = (base.number,)
    return Standing(
        finalists=finalists,
        again=again,
        dropped={int(number): why for number, why in found.dropped.items()},
        noise=noise,
    )


def _level(values: Sequence[float] | None) -> float:
    """The mean of a deployment's scores on the log scale; below all others where there are none."""
    return float(logs(values).mean()) if values else -math.inf


_SEARCHED = frozenset({Origin.FIRST, Origin.SEARCH})


def _moved_on(trials: Sequence[TrialRow], base: int, search: Search) -> bool:
    """Whether the baseline is still to be measured once more after the search, before rivals are.

    Where a machine drifts, a trial of the end of the search looks better or worse than the baseline of
    its beginning. One more run brings the baseline's level nearer, and the drift into the noise, so
    that less is taken for clearly no gain.
    """
    if search.repeats.each == 1 or search.repeats.starts == 0:
        return False
    last = max((t.number for t in trials if t.origin in _SEARCHED), default=0)
    return not any(t.repeats == base and t.block is None and t.number > last for t in trials)


def _left(trials: Sequence[TrialRow], base: int, starts: int) -> int:
    """Starts that may still go into rivals."""
    made = sum(_is_repeat(t) and t.block is None and t.repeats != base for t in trials)
    return max(0, starts - made)


def _broken(trials: Sequence[TrialRow], number: int) -> bool:
    """Whether a repeat of a trial outside blocks failed, or missed a gate."""
    return any(
        _is_repeat(t) and t.repeats == number and t.block is None and t.feasible is False
        for t in trials
    )


def _is_repeat(trial: TrialRow) -> bool:
    return trial.origin is Origin.REPEAT
