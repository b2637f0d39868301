"""Pictures as SVG: an area with two axes, and marks in it.

Reports hold no script: what a script draws is missing on paper, in Markdown and where scripts are
off, and a report shows text that an engine wrote. So pictures are drawn here, as plain SVG that a
browser, a printer and a Markdown viewer show alike. A charting library that draws without a browser
would be matplotlib; that is nine more packages and 60 MB for six kinds of picture.

Colours are names of classes (see ``report.css``), so that one picture is right on light and dark.
Numbers are written with two decimals: the same study gives the same bytes.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources

from tuner.report.text import one_line

_NOTHING = 1e-9
"""A difference, as a part of the values, that no picture could show."""
_LETTER = 6.8
"""Width of a letter of the pictures' 12-pixel font, about; it errs on the wide side."""


@dataclass(slots=True)
class Svg:
    """A picture that is being drawn.

    Attributes:
        width: Its width in pixels.
        height: Its height.
        parts: Its elements as text.
    """

    width: float
    height: float
    parts: list[str] = field(default_factory=list)

    def add(self, tag: str, title: str | None = None, **attributes: str | float) -> None:
        """Add an element.

        Args:
            tag: Its name.
            title: What is shown when the mouse rests on it.
            **attributes: Its attributes; ``kind`` stands for ``class``, and ``_`` for ``-``.
        """
        inside = "" if title is None else f"<title>{_safe(title)}</title>"
        end = f">{inside}</{tag}>" if inside else "/>"
        self.parts.append(f"<{tag}{_attributes(attributes)}{end}")

    def text(self, x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> None:
        """Add a line of text; ``anchor`` says which end of it stands at ``x``."""
        attributes = _attributes({"kind": kind, "x": x, "y": y, "text_anchor": anchor})
        self.parts.append(f"<text{attributes}>{_safe(text)}</text>")

    def path(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        """Add a line through points."""
        if points:
            steps = " L".join(f"{_number(x)} {_number(y)}" for x, y in points)
            self.add("path", kind=kind, d=f"M{steps}")

    def inline(self, says: str) -> str:
        """The picture as an element of an HTML page whose style sheet knows the classes."""
        return self._element(says, "")

    def file(self, says: str) -> str:
        """The picture as a file that brings its own colours, for light and for dark."""
        return self._element(says, f"<style>{stylesheet('picture.css')}</style>") + "\n"

    def _element(self, says: str, style: str) -> str:
        size = f"{_number(self.width)} {_number(self.height)}"
        inside = "\n".join(self.parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" viewBox="0 0 {size}"'
            f' width="{_number(self.width)}" height="{_number(self.height)}" role="img"'
            f' aria-label="{_safe(says)}">{style}\n{inside}\n</svg>'
        )


def stylesheet(name: str) -> str:
    """One of the room's style sheets."""
    return resources.files("tuner.report").joinpath(name).read_text(encoding="utf-8")


def text_width(text: str) -> float:
    """About how wide a text is, in pixels."""
    return _LETTER * len(text)


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to pixels along one axis.

    Attributes:
        low: The value at ``start``.
        high: The value at ``end``.
        start: A pixel.
        end: A pixel; below ``start`` where the axis runs upwards.
    """

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """The pixel of a value."""
        if self.high == self.low:
            return (self.start + self.end) / 2
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, count: int = 5) -> list[float]:
        """About so many round values within the scale."""
        step = nice_step((self.high - self.low) / max(1, count))
        if step <= 0:
            return [self.low]
        first = math.ceil(round(self.low / step, 6))
        last = math.floor(round(self.high / step, 6))
        return [n * step for n in range(first, last + 1)]


def scale(
    values: Sequence[float], start: float, end: float, *, zero: bool = False, count: int = 5
) -> Scale:
    """A scale that holds all values and begins and ends at round numbers.

    Args:
        values: The values; with none the scale goes from 0 to 1.
        start: The pixel of its lower end.
        end: The pixel of its upper end.
        zero: Whether 0 is on it.
        count: About how many ticks it will have.
    """
    known = [v for v in values if math.isfinite(v)] or [0.0, 1.0]
    low, high = min(known), max(known)
    if zero:
        low, high = min(0.0, low), max(0.0, high)
    if high - low <= _NOTHING * max(abs(low), abs(high), _NOTHING):
        room = abs(low) / 2 or 1.0
        low, high = low - (0.0 if zero and low >= 0 else room), high + room
    step = nice_step((high - low) / count)
    return Scale(math.floor(low / step) * step, math.ceil(high / step) * step, start, end)


def nice_step(rough: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is not below a number; 0 for 0."""
    if rough <= 0 or not math.isfinite(rough):
        return 0.0
    power = math.pow(10, math.floor(math.log10(rough)))
    return next(power * m for m in (1, 2, 5, 10) if power * m >= rough * (1 - 1e-9))


def say(value: float) -> str:
    """A number as an axis says it."""
    size = abs(value)
    if size >= 10_000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _safe(text: str) -> str:
    return html.escape(one_line(text))


def _attributes(given: dict[str, str | float]) -> str:
    found = []
    for name, value in given.items():
        known = "class" if name == "kind" else name.replace("_", "-")
        text = value if isinstance(value, str) else _number(value)
        if text:
            found.append(f' {known}="{_safe(text)}"')
    return "".join(found)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
