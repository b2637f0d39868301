"""What the pictures share: an area between two axes, marks for trials, and a legend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tuner.report.svg import Scale, Svg, say, text_width
from tuner.verdict.families import Family

WIDTH = 760.0
_RADIUS = 4.0


@dataclass(frozen=True, slots=True)
class Frame:
    """An area between two axes.

    Attributes:
        svg: The picture that it is in.
        x: The horizontal scale.
        y: The vertical one.
    """

    svg: Svg
    x: Scale
    y: Scale

    def axes(
        self,
        x_label: str,
        y_label: str,
        *,
        x_ticks: Sequence[float] | None = None,
        y_count: int = 5,
    ) -> None:
        """Draw the grid, the numbers beside it, and the names of the axes."""
        svg, left, right = self.svg, self.x.start, self.x.end
        for value in self.y.ticks(y_count):
            at = self.y.at(value)
            svg.add("line", kind="grid", x1=left, x2=right, y1=at, y2=at)
            svg.text(left - 8, at + 4, say(value), anchor="end")
        bottom = self.y.start
        for value in self.x.ticks(8) if x_ticks is None else x_ticks:
            at = self.x.at(value)
            svg.add("line", kind="axis", x1=at, x2=at, y1=bottom, y2=bottom + 4)
            svg.text(at, bottom + 18, say(value), anchor="middle")
        svg.add("line", kind="axis", x1=left, x2=right, y1=bottom, y2=bottom)
        svg.text((left + right) / 2, bottom + 36, x_label, anchor="middle")
        svg.text(left, self.y.end - 10, y_label)

    def mark(self, x: float, y: float, family: Family, title: str, *, shape: str = "dot") -> None:
        """Draw a trial: a ``dot``, a ``ring`` for a repeat, a ``cross`` for one without a figure."""
        mark(self.svg, self.x.at(x), self.y.at(y), family, title, shape)


def mark(svg: Svg, x: float, y: float, family: Family, title: str | None, shape: str) -> None:
    """Draw the mark of a trial."""
    kind = f"{shape} {family}"
    if shape == "cross":
        r = _RADIUS - 0.5
        step = f"M{x - r:.2f} {y - r:.2f} l{2 * r:g} {2 * r:g} m0 {-2 * r:g} l{-2 * r:g} {2 * r:g}"
        svg.add("path", title, kind=kind, d=step)
    elif shape == "diamond":
        r = _RADIUS + 2
        step = f"M{x:.2f} {y - r:.2f} l{r:g} {r:g} l{-r:g} {r:g} l{-r:g} {-r:g} z"
        svg.add("path", title, kind=f"dot {family}", d=step)
    else:
        svg.add("circle", title, kind=kind, cx=x, cy=y, r=_RADIUS)


def legend(svg: Svg, entries: Iterable[tuple[str, Family, str]], x: float, y: float) -> None:
    """Say what marks mean: each entry is a shape, a family and its name; one line of them."""
    for shape, family, label in entries:
        if shape == "line":
            svg.add("line", kind="best", x1=x - 6, x2=x + 6, y1=y, y2=y)
        elif shape == "dash":
            svg.add("line", kind="limit", x1=x - 6, x2=x + 6, y1=y, y2=y)
        else:
            mark(svg, x, y, family, None, shape)
        svg.text(x + 11, y + 4, label)
        x += 30 + text_width(label)
