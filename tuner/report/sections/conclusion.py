"""What came out, how sure that is, and what to do with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tuner.report.blocks import (
    Block,
    Bullets,
    Heading,
    Paragraph,
    Picture,
    Run,
    Words,
    code,
    paragraph,
    strong,
    table,
    words,
)
from tuner.report.material import Material, family_of, gates, mean_figure
from tuner.report.pictures.bars import intervals
from tuner.report.sections.say import label, number, percent
from tuner.report.text import changes, one_line
from tuner.score.figures import FIGURES
from tuner.store.rows import Origin
from tuner.verdict.families import Family


def conclusion(material: Material) -> Iterator[Block]:
    """The answer first, then what it means."""
    yield Heading(f"Study {material.study.name}", 1)
    yield from _answer(material)
    yield Bullets(tuple(_facts(material)))


def _answer(material: Material) -> Iterator[Paragraph]:
    decision, found, best = material.decision, material.compared, material.best
    if decision is None:
        yield from _undecided(material)
        return
    if found is None or best is None:
        yield _stands(material)
        return
    gain = _gain(found)
    if not decision["clear"]:
        yield paragraph(
            strong("No clear winner."),
            f" The best finalist, trial {found['number']}, measured {gain}. That does not rule out"
            " that there is no difference, so the baseline is kept.",
            tone="warn",
        )
        return
    yield paragraph(strong(f"Trial {best.number} wins: {gain}."), tone="good")
    yield paragraph(
        "Against the baseline it changes ",
        code(changes(best.params, material.base_params)),
        ".",
    )


def _undecided(material: Material) -> Iterator[Paragraph]:
    study = material.study
    why = f": {one_line(study.reason)}" if study.reason else ""
    yield paragraph(strong("No decision yet."), f" The study is {study.status}{why}.", tone="warn")
    best = material.best
    if best is not None:
        yield paragraph(
            f"The best so far is trial {best.number} with a score of {number(best.score)}: ",
            code(changes(best.params, material.base_params)),
            ". It was measured once, among many; until it is measured again that is a hint.",
        )


def _stands(material: Material) -> Paragraph:
    broken = [c for c in (material.decision or {})["comparisons"] if c["broken"]]
    if broken:
        why = "; ".join(f"finalist {c['number']}: {one_line(c['broken'])}" for c in broken)
        return paragraph(strong("The baseline stands."), f" {why}.", tone="warn")
    best, base = material.best, material.baseline
    if best is not None and base is not None and (best.score or 0.0) > (base.score or 0.0):
        pair = f"tuner compare {material.study.name} {base.number} {best.number}"
        return paragraph(
            strong("The baseline stands."),
            f" No finalist was measured in turns with it. Trial {best.number} scored {number(best.score)} in the"
            f" search, above the baseline's {number(base.score)}, and one score of many is no proof: ",
            code(pair),
            " measures the two in turns.",
            tone="warn",
        )
    scored = sum(t.origin is not Origin.PROFILE for t in material.trials)
    return paragraph(
        strong("The baseline stands."),
        f" None of {scored} trials scored above it and passed its gates.",
        tone="warn",
    )


def _gain(found: Mapping[str, Any]) -> str:
    gain = f"{percent(found['ratio'] - 1)} against the baseline"
    if found["low"] is not None and found["high"] is not None:
        level = f"{found['confidence'] * 100:.4g} %"
        gain += f" ({level} interval {percent(found['low'] - 1)} to {percent(found['high'] - 1)})"
    return gain


def _facts(material: Material) -> Iterator[Words]:
    found = material.compared
    if found is not None:
        yield words(
            f"Measured in {len(found['runs'])} runs in turns, A B B A, with a restart before each. "
            "The scores of the search decided only who was measured again."
        )
        yield from _doubts(found)
    if not material.objective.usual:
        yield words(f"The score is {material.objective.words}.")
    families = [family_of(t) for t in material.trials]
    counts = [f"{n} {f.label}" for f in Family if (n := families.count(f))]
    hours = sum(material.durations.values()) / 3600
    yield words(
        f"{len(material.trials)} trials, {hours:.2f} h with an engine up or starting: "
        f"{', '.join(counts)}."
    )
    yield from _thin(material)
    best = (
        material.best if material.decision is None else material.trial(material.decision["winner"])
    )
    if best is not None:
        yield words(
            "Its files: ", code(f"tuner export {material.study.name} --trial {best.number}"), "."
        )


def _doubts(found: Mapping[str, Any]) -> Iterator[Words]:
    if found["sigma"] > 0.1:
        yield words(
            strong("The measurements are noisy: "),
            f"one run is off by {percent(found['sigma'], sign=False)} (standard deviation). "
            "Something else may have used the machine.",
        )
    if found["drift"] is not None and abs(found["drift"]) > 0.05:
        yield words(
            f"The baseline itself moved by {percent(found['drift'])} over its repeats; the order of "
            "the runs takes an even drift out."
        )


def _thin(material: Material) -> Iterator[Words]:
    best = material.best
    for _, gate in gates(best) if best is not None else []:
        if gate["passed"] and gate["margin"] is not None and 0 <= gate["margin"] < 0.05:
            exact = gate["limit"] == gate["value"]
            if not exact:
                margin = percent(gate["margin"], sign=False)
                yield words(f"It passes {gate['figure']} by {margin} only.")


SHOWN = (
    "weighted",
    "output_tps",
    "uncached_input_tps",
    "cached_tps",
    "output_tps_p10",
    "decode_tps_p50",
    "ttft_p50_s",
    "ttft_p90_s",
    "itl_p50_s",
    "cache_hit_rate",
    "success_rate",
)


def side_by_side(material: Material) -> Iterator[Block]:
    """Baseline and best finalist, figure by figure, with the intervals."""
    base, best = material.baseline, material.best
    if base is None or base.metrics is None or best is None:
        return
    yield Heading("Baseline and best")
    again = bool(material.repeats(base.number) and material.repeats(best.number))
    what = "Means over their repeats." if again else "Measured once each, in the search."
    several = len(base.metrics["workloads"]) > 1
    first = next(iter(base.metrics["workloads"]))
    yield paragraph(f"{what} " + (f"Figures of the workload {one_line(first)}." if several else ""))
    rows = []
    for name in dict.fromkeys((*_asked(material), *SHOWN)):
        one, two = (mean_figure(material, t.number, name) for t in (base, best))
        if one is not None or two is not None:
            rows.append([label(name), _say(name, one), _say(name, two), _change(name, one, two)])
    head = ("", f"baseline (trial {base.number})", f"trial {best.number}", "change")
    yield table(head, rows, numeric=(1, 2, 3))
    picture = intervals((material.decision or {"comparisons": ()})["comparisons"])
    if picture is not None:
        says = "Scores of the finalists against the baseline, with their intervals."
        yield Picture("intervals", picture, says)
    yield from _gates(material)


def _asked(material: Material) -> tuple[str, ...]:
    """The figures of an objective that was declared; they stand before the others."""
    return () if material.objective.usual else material.objective.figures


def _say(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    if name.endswith("_rate"):
        return percent(value, sign=False)
    if FIGURES[name].unit == "s":
        return f"{value:.3f}" if value < 10 else f"{value:.1f}"
    if value < 10:
        return f"{value:.3g}"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}"


def _change(name: str, one: float | None, two: float | None) -> Run | str:
    if not one or two is None:
        return ""
    change = two / one - 1
    better = (change > 0) == (FIGURES[name].better == "higher")
    text = percent(change)
    return strong(text) if better and abs(change) > 0.02 else text


def _gates(material: Material) -> Iterator[Block]:
    base, best = material.baseline, material.best
    if base is None or best is None:
        return
    left = {(w, g["name"]): g for w, g in gates(base)}
    rows: list[list[str | Run]] = []
    for workload, gate in gates(best):
        other = left.get((workload, gate["name"]))
        sign = "at least" if gate["at_least"] else "at most"
        name = (
            gate["figure"]
            if len({w for w, _ in gates(best)}) == 1
            else f"{workload}: {gate['figure']}"
        )
        rows.append(
            [
                code(name),
                f"{sign} {number(gate['limit'])}",
                _judged(other),
                _judged(gate),
            ]
        )
    if rows:
        yield Heading("Gates", 3)
        yield table(("gate", "asked", f"trial {base.number}", f"trial {best.number}"), rows)


def _judged(gate: Mapping[str, Any] | None) -> str:
    if gate is None or gate["value"] is None:
        return "not measured"
    word = "passed" if gate["passed"] else "MISSED"
    margin = "" if gate["margin"] is None else f", {percent(gate['margin'])}"
    return f"{word}: {number(gate['value'])}{margin}"
