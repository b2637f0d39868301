"""Scores over the trials, with the best so far; and two figures against each other."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.report.material import Material, family_of
from tuner.report.pictures.frame import WIDTH, Frame, legend
from tuner.report.sections.say import number
from tuner.report.svg import Scale, Svg, scale
from tuner.report.text import changes
from tuner.score.figures import FIGURES
from tuner.score.objective import mean_figures
from tuner.score.pareto import Objectives
from tuner.store.rows import Origin, TrialRow
from tuner.verdict.families import Family

MOST_MARKS = 1500
"""Trials above which only those are drawn that say most: the best, and an even part of the others."""

_HEIGHT = 360.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 76.0, WIDTH - 16, 52.0, _HEIGHT - 46


def scores(material: Material) -> Svg | None:
    """Each trial's score by its number; None while nothing was measured."""
    asked = [t for t in material.trials if t.origin is not Origin.PROFILE]  # never to be scored
    shown = _chosen([t for t in asked if t.verdict is not None])
    measured = [t for t in shown if t.score is not None]
    if not measured:
        return None
    svg = Svg(WIDTH, _HEIGHT)
    svg.add("rect", kind="paper", x=0, y=0, width=WIDTH, height=_HEIGHT)
    last = max(t.number for t in material.trials)
    frame = Frame(
        svg,
        Scale(-0.5, last + 0.5, _LEFT, _RIGHT),
        scale([t.score or 0.0 for t in measured], _BOTTOM, _TOP, zero=True),
    )
    ticks = [t for t in Scale(0, last, 0, 1).ticks(10) if t == int(t)]
    frame.axes("trial", "score", x_ticks=ticks)
    _base_line(material, frame)
    frame.svg.path(list(_best_so_far(material, frame)), "best")
    for trial in measured:
        frame.mark(
            trial.number,
            trial.score or 0.0,
            family_of(trial),
            _title(material, trial),
            shape=_shape(trial),
        )
    for trial in (t for t in shown if t.score is None):
        frame.mark(
            trial.number, frame.y.low, family_of(trial), _title(material, trial), shape="cross"
        )
    _legend(svg, shown)
    return svg


def _chosen(trials: Sequence[TrialRow]) -> list[TrialRow]:
    """All trials, or where they are too many the best ones and every so-manieth of the others."""
    if len(trials) <= MOST_MARKS:
        return list(trials)
    best = sorted((t for t in trials if t.feasible), key=lambda t: -(t.score or 0.0))[:100]
    step = -(-len(trials) // (MOST_MARKS - 100))
    keep = {t.number for t in best} | {t.number for t in trials[::step]}
    keep |= {t.number for t in trials if t.origin in {Origin.BASELINE, Origin.REPEAT}}
    return [t for t in trials if t.number in keep]


def _base_line(material: Material, frame: Frame) -> None:
    base = material.baseline
    if base is not None and base.score is not None:
        at = frame.y.at(base.score)
        frame.svg.add("line", kind="limit", x1=_LEFT, x2=_RIGHT, y1=at, y2=at)


def _best_so_far(material: Material, frame: Frame) -> list[tuple[float, float]]:
    points: list[tuple[float, float]] = []
    best = float("-inf")
    for trial in material.trials:
        counts = trial.feasible and trial.score is not None and trial.origin is not Origin.REPEAT
        if counts and (trial.score or 0.0) > best:
            x = frame.x.at(trial.number)
            if points:
                points.append((x, points[-1][1]))
            best = trial.score or 0.0
            points.append((x, frame.y.at(best)))
    if points:
        points.append((frame.x.end, points[-1][1]))
    return points


def _shape(trial: TrialRow) -> str:
    if trial.origin is Origin.BASELINE:
        return "diamond"
    return "ring" if trial.origin is Origin.REPEAT else "dot"


def _title(material: Material, trial: TrialRow) -> str:
    score = "not measured" if trial.score is None else f"score {number(trial.score)}"
    what = f"again {trial.repeats}: " if trial.origin is Origin.REPEAT else ""
    which = changes(trial.params, material.base_params)
    return f"trial {trial.number}: {score}, {trial.verdict}; {what}{which}"


def _legend(svg: Svg, shown: Sequence[TrialRow]) -> None:
    entries = [
        ("line", Family.GOOD, "best so far"),
        ("dash", Family.GOOD, "baseline"),
        ("ring", Family.GOOD, "repeat"),
    ]
    with_score = {family_of(t) for t in shown if t.score is not None}
    without = {family_of(t) for t in shown if t.score is None}
    marks = [("dot", f, f.label) for f in Family if f in with_score]
    marks += [("cross", f, f.label) for f in Family if f in without]
    legend(svg, entries, _LEFT + 6, 14)
    legend(svg, marks, _LEFT + 252, 14)


def pareto(material: Material) -> Svg | None:
    """The two objectives, or throughput and TTFT; None where fewer than two trials have both."""
    pair = material.objective.pair or _USUAL
    found = [
        (t, x, y)
        for t in _chosen(material.trials)
        if (x := _mean(t, pair.second)) is not None and (y := _mean(t, pair.first)) is not None
    ]
    if len(found) < 2:
        return None
    svg = Svg(WIDTH, _HEIGHT)
    svg.add("rect", kind="paper", x=0, y=0, width=WIDTH, height=_HEIGHT)
    frame = Frame(
        svg,
        scale([x for _, x, _ in found], _LEFT, _RIGHT, zero=True, count=8),
        scale([y for _, _, y in found], _BOTTOM, _TOP, zero=True),
    )
    frame.axes(_axis(pair.second), _axis(pair.first))
    at = {trial.number: (frame.x.at(x), frame.y.at(y)) for trial, x, y in found}
    frame.svg.path([at[of] for of in _front(material, pair) if of in at], "best")
    best = material.best
    for trial, x_value, y_value in found:
        said = zip((pair.second, pair.first), (x_value, y_value), strict=True)
        figures = ", ".join(f"{FIGURES[name].label} {number(v)}" for name, v in said)
        title = f"{_title(material, trial)}; {figures}"
        frame.mark(x_value, y_value, family_of(trial), title, shape=_shape(trial))
        if trial.origin is Origin.BASELINE or (best is not None and trial.number == best.number):
            name = "baseline" if trial.origin is Origin.BASELINE else f"trial {trial.number}"
            x, y = frame.x.at(x_value), frame.y.at(y_value)
            right = x > (_LEFT + _RIGHT) / 2
            svg.text(x + (-10 if right else 10), y - 8, name, "strong", "end" if right else "start")
    entries = [("line", Family.GOOD, "nothing is better in both"), ("ring", Family.GOOD, "repeat")]
    legend(svg, entries, _LEFT + 6, 14)
    families = {family_of(t) for t, _, _ in found}
    legend(svg, [("dot", f, f.label) for f in Family if f in families], _LEFT + 290, 14)
    return svg


_USUAL = Objectives("output_tps", "ttft_p90_s", balance=0.5)
"""What is shown where no two objectives are declared; its rule decides nothing."""


def _mean(trial: TrialRow, name: str) -> float | None:
    """A figure of a trial, over its workloads by their weights."""
    loads = (trial.metrics or {}).get("workloads", {}).values()
    return mean_figures([(load["weight"], load["figures"]) for load in loads], [name])[name]


def _axis(name: str) -> str:
    known = FIGURES[name]
    unit = f", {known.unit}" if known.unit else ""
    return f"{known.label}{unit} ({'more' if known.better == 'higher' else 'less'} is better)"


def _front(material: Material, pair: Objectives) -> list[int]:
    """Numbers of the trials on the front, the best first figure first."""
    if material.front is not None:
        return [one["trial"] for one in material.front["trials"]]
    names = pair.figures
    results = {
        str(t.number): {name: _mean(t, name) for name in names}
        for t in material.trials
        if t.feasible
    }
    return [int(number_of) for number_of in pair.front(results)]
