"""How busy the host and the devices were during a trial, and how full their memory was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tuner.report.pictures.frame import WIDTH, Frame
from tuner.report.svg import Scale, Svg, scale

_HEIGHT = 128.0
_GAP = 62.0
_MOST_DEVICES = 8
_GIB = 2**30

Samples = Sequence[Mapping[str, Any]]


def curves(trials: Sequence[tuple[str, Samples]]) -> Svg | None:
    """Small pictures side by side: a column for each trial, a line for each thing that was watched.

    Args:
        trials: The name and the samples of each trial.
    """
    trials = [(name, samples) for name, samples in trials if len(samples) > 1]
    if not trials:
        return None
    lines = _lines([samples for _, samples in trials])
    height = 34 + len(lines) * (_HEIGHT + _GAP)
    svg = Svg(WIDTH, height)
    svg.add("rect", kind="paper", x=0, y=0, width=WIDTH, height=height)
    width = (WIDTH - 16) / len(trials)
    for place, (name, samples) in enumerate(trials):
        left = 60 + place * width
        right = (place + 1) * width - 4
        svg.text(left, 16, name, "strong")
        for row, (label, pick) in enumerate(lines):
            top = 52 + row * (_HEIGHT + _GAP)
            _one(svg, samples, (left, right, top), label, pick, trials)
    return svg


_Pick = Mapping[str, Any]


def _lines(all_samples: Sequence[Samples]) -> list[tuple[str, _Pick]]:
    """What there is to show: where it stands in a sample, and by how much it is divided."""
    lines: list[tuple[str, _Pick]] = [
        ("host CPU, %", {"in": "host", "field": "cpu", "per": 1.0, "top": 100.0}),
        ("memory of the engine, GiB", {"in": "tree", "field": "rss", "per": _GIB, "top": None}),
    ]
    count = max(
        (len(s.get("devices") or ()) for samples in all_samples for s in samples), default=0
    )
    if count:
        lines += [
            ("devices, %", {"in": "devices", "field": "utilization", "per": 1.0, "top": 100.0}),
            (
                "device memory, GiB",
                {"in": "devices", "field": "memory_used", "per": _GIB, "top": None},
            ),
        ]
    return lines


def _one(
    svg: Svg,
    samples: Samples,
    place: tuple[float, float, float],
    label: str,
    pick: _Pick,
    trials: Sequence[tuple[str, Samples]],
) -> None:
    left, right, top = place
    everything = [v for _, each in trials for line in _values(each, pick) for _, v in line]
    last = max(float(s["at"]) for _, each in trials for s in each)
    highest = [pick["top"]] if pick["top"] is not None else everything
    frame = Frame(
        svg,
        Scale(0.0, last, left, right),
        scale(highest, top + _HEIGHT, top, zero=True, count=4),
    )
    _bands(frame, samples)
    frame.axes("seconds since the start", label, x_ticks=frame.x.ticks(5), y_count=4)
    for place_of_line, line in enumerate(_values(samples, pick)):
        points = [(frame.x.at(at), frame.y.at(value)) for at, value in line]
        svg.path(points, "line-a" if place_of_line % 2 == 0 else "line-b")


def _bands(frame: Frame, samples: Samples) -> None:
    """Shade the time of the measurement."""
    at = [float(s["at"]) for s in samples if s.get("stage") == "measure"]
    if len(at) > 1:
        left, right = frame.x.at(at[0]), frame.x.at(at[-1])
        top, bottom = frame.y.end, frame.y.start
        svg = frame.svg
        svg.add(
            "rect",
            "measurement",
            kind="band",
            x=left,
            y=top,
            width=right - left,
            height=bottom - top,
        )


def _values(samples: Samples, pick: _Pick) -> Iterator[list[tuple[float, float]]]:
    """A line of values over time for the host, or for each device."""
    if pick["in"] != "devices":
        yield [
            (float(s["at"]), float(s[pick["in"]][pick["field"]]) / pick["per"])
            for s in samples
            if s.get(pick["in"]) and s[pick["in"]].get(pick["field"]) is not None
        ]
        return
    keys = {d["index"] for s in samples for d in s.get("devices") or ()}
    for index in sorted(keys)[:_MOST_DEVICES]:
        yield [
            (float(s["at"]), float(d[pick["field"]]) / pick["per"])
            for s in samples
            for d in s.get("devices") or ()
            if d["index"] == index and d.get(pick["field"]) is not None
        ]
