"""How the search went: the scores, the parameters, and what each of them did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tuner.report.blocks import (
    Block,
    Bullets,
    Heading,
    Picture,
    code,
    paragraph,
    table,
    words,
)
from tuner.report.material import Material
from tuner.report.pictures.bars import importance
from tuner.report.pictures.scores import pareto, scores
from tuner.report.sections.say import label, number
from tuner.report.text import changes, one_line, value
from tuner.score.figures import FIGURES
from tuner.score.inert import ParameterEffect, parameter_effect
from tuner.score.noise import Noise, pooled_noise
from tuner.store.rows import TrialRow


def search(material: Material) -> Iterator[Block]:
    """The way of the search, in pictures and a table of its parameters."""
    yield Heading("How the search went")
    picture = scores(material)
    if picture is None:
        yield paragraph("Nothing was measured yet.")
    else:
        says = "Scores over the trials with the best so far; failures stand at the bottom."
        yield Picture("scores", picture, says)
    picture = pareto(material)
    if picture is not None:
        pair = material.objective.pair
        says = "Output throughput against TTFT P90."
        if pair is not None:
            says = f"{FIGURES[pair.first].label} against {FIGURES[pair.second].label}."
        yield Picture("pareto", picture, says)
    yield from _objectives(material)
    yield from _parameters(material)


def _objectives(material: Material) -> Iterator[Block]:
    """The front of two objectives, and what the rule takes of it."""
    front, pair = material.front, material.objective.pair
    if front is None or pair is None:
        return
    yield Heading("Two objectives", 3)
    yield paragraph(
        f"The score is {material.objective.words}. These trials passed every gate, and none is beaten "
        "in both objectives, as measured in the search; the finalists' repeats decide."
    )
    rows = []
    for one in front["trials"]:
        trial = material.trial(one["trial"])
        point = "" if trial is None else changes(trial.params, material.base_params)
        mark = ", chosen" if one["trial"] == front["chosen"] else ""
        kept = "" if one["kept"] else ", over the limit"
        values = [number(one["figures"][name]) for name in pair.figures]
        rows.append([f"{one['trial']}{mark}{kept}", *values, number(one["score"]), point])
    if rows:
        head = ("trial", *(label(name) for name in pair.figures), "score", "point")
        yield table(head, rows, numeric=(1, 2, 3))


def _parameters(material: Material) -> Iterator[Block]:
    if not material.base_params:
        return
    yield Heading("Parameters", 3)
    picture = importance(material.importance)
    if picture is not None:
        yield Picture(
            "importance", picture, "Share of each parameter in what the best have in common."
        )
        yield paragraph(
            "Importance by PED-ANOVA: how far the values of the best trials differ from those of "
            "all. It shows where to look, not what causes what."
        )
    else:
        yield paragraph("Too few trials were told to say which parameters matter.")
    of = study_noise(material)
    best = material.best
    rows = [_row(material, name, best, of) for name in _names(material.trials)]
    head = ("parameter", "baseline", "best", "tried", "score by value (trials)", "effect")
    yield table(head, rows)
    yield paragraph(
        "The score by value is the median over feasible trials with that value, whatever else they "
        "had. The effect compares only trials that differ in this parameter alone, by the study's "
        "own noise."
    )


def _row(material: Material, name: str, best: TrialRow | None, of: Noise | None) -> list[Any]:
    tried = _values(material.trials, name)
    base = material.base_params
    chosen = best.params if best is not None else {}
    return [
        code(name),
        value(base[name]) if name in base else "-",
        value(chosen[name]) if name in chosen else "-",
        ", ".join(tried) if len(tried) <= 8 else f"{len(tried)} values",
        _by_value(material.trials, name),
        _effect(material.trials, name, of),
    ]


def inert(material: Material) -> Iterator[Block]:
    """What the engines' counts or the scores say did nothing."""
    items = [
        words(
            code(str(found["name"])),
            f" ({value(found['value'])} in finalist {event.data['of']}, {value(found['baseline'])} in "
            f"the baseline): {one_line(str(found['reason']))}, ",
            "as the engine itself counted." if found["told"] else "by the scores.",
        )
        for event in material.events
        if event.kind == "simpler"
        for found in event.data["inert"]
    ]
    if items:
        yield Heading("What did nothing")
        yield Bullets(tuple(items))
        yield paragraph(
            "The finalist was tried without it, as a trial of its own, and went into the finals so."
        )


def _names(trials: Sequence[TrialRow]) -> list[str]:
    return list(dict.fromkeys(name for t in trials for name in t.params))


def _values(trials: Sequence[TrialRow], name: str) -> list[str]:
    found = {repr(t.params[name]): t.params[name] for t in trials if name in t.params}
    return [value(v) for v in sorted(found.values(), key=_order)]


def _order(given: Any) -> tuple[bool, float, str]:
    """Numbers by their size, and after them the others by their text."""
    if isinstance(given, int | float):
        return (False, float(given), "")
    return (True, 0.0, repr(given))


def _by_value(trials: Sequence[TrialRow], name: str) -> str:
    found: dict[str, list[float]] = {}
    for t in trials:
        if t.feasible and t.score is not None and name in t.params:
            found.setdefault(value(t.params[name]), []).append(t.score)
    if len(found) > 8:
        return ""
    known = sorted(found.items(), key=lambda i: -_median(i[1]))
    return ", ".join(f"{v}: {number(_median(s))} ({len(s)})" for v, s in known)


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _effect(trials: Sequence[TrialRow], name: str, of: Noise | None) -> str:
    found = effect_of(trials, name, of)
    if found is None:
        return ""
    return str(found.effect) if found.largest is None else str(found)


def effect_of(trials: Sequence[TrialRow], name: str, of: Noise | None) -> ParameterEffect | None:
    """What a parameter does to the score, by the study's own noise; None where that is not known."""
    measured = [(_point(t), t.score) for t in trials if t.feasible and t.score]
    if of is None or not measured:
        return None
    return parameter_effect(measured, name, of)


def _point(trial: TrialRow) -> Mapping[str, Any]:
    return trial.params


def study_noise(material: Material) -> Noise | None:
    """The noise of one run, from points that were measured more than once; None where none was."""
    groups: dict[str, list[float]] = {}
    for t in material.trials:
        if t.feasible and t.score is not None and t.score > 0:
            groups.setdefault(repr(sorted(t.params.items())), []).append(t.score)
    several = [g for g in groups.values() if len(g) > 1]
    return pooled_noise(several) if several else None


def noise(material: Material) -> Iterator[Block]:
    """How much of what was seen was chance."""
    yield Heading("How much was noise")
    of = study_noise(material)
    if of is None:
        yield paragraph(
            "No point was measured twice, so nothing is known about the noise; differences between "
            "single trials are hints."
        )
        return
    low, high = of.interval()
    yield paragraph(
        f"One run of one deployment is off by {100 * of.sigma:.1f} % (standard deviation; 95 % "
        f"interval {100 * low:.1f} % to {100 * high:.1f} %, {of.df} degrees of freedom). Two single "
        f"trials differ for sure only where their scores differ by more than "
        f"{100 * of.informative:.0f} %."
    )
    rows = []
    for number_of in dict.fromkeys(t.repeats for t in material.trials if t.repeats is not None):
        runs = [t for t in material.trials if t.repeats == number_of and t.score is not None]
        own = material.trial(number_of)
        first = "" if own is None else number(own.score)
        rows.append([f"trial {number_of}", first, ", ".join(number(t.score) for t in runs)])
    if rows:
        yield table(("point", "in the search", "repeats, in order"), rows)
