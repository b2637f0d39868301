"""Pictures of bars: importance of parameters, times of stages, intervals of comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tuner.report.material import Material
from tuner.report.pictures.frame import WIDTH
from tuner.report.svg import Scale, Svg, say, scale, text_width
from tuner.report.text import one_line
from tuner.store.rows import Origin

_ROW = 26.0
_NAME = 190.0
_MOST_ROWS = 40

STAGES: Mapping[str, tuple[str, str]] = {
    "ready": ("s1", "start"),
    "probed": ("s2", "probe"),
    "warmed": ("s3", "warm-up"),
    "measured": ("s4", "measurement"),
    "stopping": ("s6", "cut short"),
    "verified": ("s7", "stop and proof"),
}
"""What leads to each stage: a colour and its name."""


def importance(shares: Mapping[str, float]) -> Svg | None:
    """Each parameter's share in what tells the best trials from the others."""
    rows = list(shares.items())[:_MOST_ROWS]
    if not rows:
        return None
    svg = _sheet(len(rows) * _ROW + 16)
    x = Scale(0.0, max(share for _, share in rows), _NAME, WIDTH - 70)
    for place, (name, share) in enumerate(rows):
        y = 8 + place * _ROW
        _name(svg, name, y)
        width = max(1.0, x.at(share) - _NAME)
        svg.add("rect", kind="bar", x=_NAME, y=y + 5, width=width, height=_ROW - 10)
        svg.text(_NAME + width + 8, y + _ROW / 2 + 4, f"{share:.0%}")
    return svg


def stages(material: Material) -> Svg | None:
    """How long each stage of the trials took: of the first ones, and of those that matter."""
    rows = [t for t in material.trials if material.stages.get(t.number) and t.launched]
    if len(rows) > _MOST_ROWS:
        best = material.best
        named = {best.number} if best is not None else set()
        kept = [t for t in rows if t.origin is not Origin.SEARCH or t.number in named]
        rows = kept[:_MOST_ROWS]
    if not rows:
        return None
    totals = [sum(_parts(material.stages[t.number]).values()) for t in rows]
    svg = _sheet(len(rows) * _ROW + 82)
    x = scale(totals, _NAME, WIDTH - 60, zero=True, count=8)
    _seconds_axis(svg, x, 40, 40 + len(rows) * _ROW)
    for place, (trial, total) in enumerate(zip(rows, totals, strict=True)):
        y = 40 + place * _ROW
        what = f"trial {trial.number}"
        if trial.origin is Origin.REPEAT:
            what += f" (again {trial.repeats})"
        elif trial.origin is Origin.PROFILE:
            what += f" (profile of {trial.repeats})"
        elif trial.origin is Origin.BASELINE:
            what += " (baseline)"
        _name(svg, what, y)
        at = 0.0
        for stage, seconds in _parts(material.stages[trial.number]).items():
            kind, label = STAGES[stage]
            width = x.at(at + seconds) - x.at(at)
            title = f"{what}: {label} {seconds:.1f} s"
            svg.add("rect", title, kind=kind, x=x.at(at), y=y + 4, width=width, height=_ROW - 8)
            at += seconds
        svg.text(x.at(at) + 6, y + _ROW / 2 + 4, f"{total:.0f} s")
    _key(svg, [(kind, label) for kind, label in STAGES.values()], _NAME, 16)
    return svg


def _parts(seconds: Mapping[str, float]) -> dict[str, float]:
    return {stage: seconds[stage] for stage in STAGES if seconds.get(stage)}


def _seconds_axis(svg: Svg, x: Scale, top: float, bottom: float) -> None:
    for value in x.ticks(8):
        svg.add("line", kind="grid", x1=x.at(value), x2=x.at(value), y1=top, y2=bottom)
        svg.text(x.at(value), bottom + 18, say(value), anchor="middle")
    svg.text((x.start + x.end) / 2, bottom + 34, "seconds", anchor="middle")


def profile(kinds: Mapping[str, Sequence[tuple[str, float]]]) -> Svg | None:
    """Share of each stage in each kind of step, a bar for each kind; the first kind gives the order.

    Args:
        kinds: For each kind of step its stages with their shares, the largest first.
    """
    names = list(dict.fromkeys(name for rows in kinds.values() for name, _ in rows))[:_MOST_ROWS]
    if not any(share > 0 for rows in kinds.values() for _, share in rows):
        return None
    top, thick = 34.0, 14.0
    row = thick * len(kinds) + 6
    svg = _sheet(top + len(names) * row + 10)
    x = Scale(0.0, max(s for rows in kinds.values() for _, s in rows), _NAME, WIDTH - 70)
    colours = dict(zip(kinds, ("s4", "s1", "s3"), strict=False))
    for place, name in enumerate(names):
        y = top + place * row
        _name(svg, name, y + (row - _ROW) / 2)
        for line, (kind, rows) in enumerate(kinds.items()):
            share = dict(rows).get(name)
            if share is None:
                continue
            width, at = max(1.0, x.at(share) - _NAME), y + 3 + line * thick
            title = f"{one_line(name)}: {share:.1%} of {kind}"
            svg.add("rect", title, kind=colours[kind], x=_NAME, y=at, width=width, height=thick - 1)
            svg.text(_NAME + width + 6, at + thick / 2 + 4, f"{share:.0%}")
    _key(svg, [(colours[kind], kind) for kind in kinds], _NAME, 16)
    return svg


def intervals(comparisons: Sequence[Mapping[str, object]]) -> Svg | None:
    """Each finalist's score against the baseline's, with its interval."""
    rows = [
        (int(str(c["number"])), float(str(c["ratio"])), _float(c["low"]), _float(c["high"]))
        for c in comparisons
        if c["ratio"] is not None
    ]
    if not rows:
        return None
    ends = [100 * (v - 1) for _, r, low, high in rows for v in (r, low or r, high or r)]
    svg = _sheet(len(rows) * 34 + 56)
    x = scale([0.0, *ends], _NAME, WIDTH - 90, count=8)
    bottom = 12 + len(rows) * 34
    for value in x.ticks(8):
        svg.add("line", kind="grid", x1=x.at(value), x2=x.at(value), y1=8, y2=bottom)
        svg.text(x.at(value), bottom + 18, f"{value:+g} %", anchor="middle")
    svg.add("line", kind="limit", x1=x.at(0), x2=x.at(0), y1=8, y2=bottom)
    svg.text((x.start + x.end) / 2, bottom + 36, "score against the baseline", anchor="middle")
    for place, (number, ratio, low, high) in enumerate(rows):
        y = 12 + place * 34 + 17
        _name(svg, f"trial {number}", y - _ROW / 2)
        if low is not None and high is not None:
            a, b = x.at(100 * (low - 1)), x.at(100 * (high - 1))
            svg.add("line", kind="range", x1=a, x2=b, y1=y, y2=y)
            for end in (a, b):
                svg.add("line", kind="range", x1=end, x2=end, y1=y - 5, y2=y + 5)
        at = x.at(100 * (ratio - 1))
        svg.add("circle", f"{ratio - 1:+.1%}", kind="bar", cx=at, cy=y, r=5)
        svg.text(at, y - 9, f"{ratio - 1:+.1%}", "strong", "middle")
    return svg


def _float(value: object) -> float | None:
    return None if value is None else float(str(value))


def _sheet(height: float) -> Svg:
    svg = Svg(WIDTH, height)
    svg.add("rect", kind="paper", x=0, y=0, width=WIDTH, height=height)
    return svg


def _name(svg: Svg, name: str, y: float) -> None:
    svg.text(_NAME - 10, y + _ROW / 2 + 4, one_line(name, 28), "name", "end")


def _key(svg: Svg, entries: Sequence[tuple[str, str]], x: float, y: float) -> None:
    for kind, label in entries:
        svg.add("rect", kind=kind, x=x, y=y - 8, width=12, height=12)
        svg.text(x + 17, y + 3, label)
        x += 34 + text_width(label)
