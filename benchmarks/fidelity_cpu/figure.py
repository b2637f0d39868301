"""The figure of the report as SVG: the surface with its noise, and what each method says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.fidelity_cpu.setup import RANKS, SEQS, Cell

WIDTH, HEIGHT, PAD = 300, 240, 42
COLOURS = {1: "#1f77b4", 2: "#d95f02"}


def figure(
    real: Mapping[Cell, Sequence[float]], predicted: Mapping[str, Mapping[Cell, float]]
) -> str:
    """One panel for the real surface and one for each method, all over max-num-seqs."""
    panels = [_panel("measured: every run, and the mean", real, real)]
    panels += [
        _panel(name, {cell: [value] for cell, value in said.items()}, real)
        for name, said in predicted.items()
    ]
    rows = -(-len(panels) // 3)
    body = "".join(
        f'<g transform="translate({(i % 3) * WIDTH},{(i // 3) * HEIGHT})">{panel}</g>'
        for i, panel in enumerate(panels)
    )
    legend = "".join(
        f'<text x="{PAD + 90 * i}" y="{rows * HEIGHT + 14}" fill="{COLOURS[r]}">TP {r}</text>'
        for i, r in enumerate(RANKS)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{3 * WIDTH}" height="{rows * HEIGHT + 24}" '
        f'font-family="sans-serif" font-size="11" fill="#222">'
        f'<rect width="100%" height="100%" fill="#fff"/>{body}{legend}</svg>\n'
    )


def _panel(
    title: str, shown: Mapping[Cell, Sequence[float]], real: Mapping[Cell, Sequence[float]]
) -> str:
    top = 1.1 * max(max(v) for v in (*shown.values(), *real.values()) if v)
    parts = [
        f'<text x="{PAD}" y="16" font-weight="bold">{title}</text>',
        f'<path d="M{PAD},28V{HEIGHT - 32}H{WIDTH - 12}" fill="none" stroke="#888"/>',
        f'<text x="{PAD - 4}" y="{_y(top / 1.1, top) + 4:.1f}" text-anchor="end">{top / 1.1:.0f}</text>',
        f'<text x="{PAD - 4}" y="{HEIGHT - 28}" text-anchor="end">0</text>',
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 6}" text-anchor="middle">max-num-seqs</text>',
    ]
    parts += [
        f'<text x="{_x(seqs):.1f}" y="{HEIGHT - 18}" text-anchor="middle">{seqs}</text>'
        for seqs in SEQS
    ]
    for ranks in RANKS:
        points = [(seqs, shown[Cell(ranks, seqs)]) for seqs in SEQS if shown.get(Cell(ranks, seqs))]
        line = " ".join(f"{_x(s):.1f},{_y(sum(v) / len(v), top):.1f}" for s, v in points)
        parts.append(
            f'<polyline points="{line}" fill="none" stroke="{COLOURS[ranks]}" stroke-width="1.5"/>'
        )
        parts += [
            f'<circle cx="{_x(s):.1f}" cy="{_y(value, top):.1f}" r="2.5" fill="{COLOURS[ranks]}"/>'
            for s, values in points
            for value in values
        ]
    return "".join(parts)


def _x(seqs: int) -> float:
    return PAD + 14 + SEQS.index(seqs) * (WIDTH - PAD - 40) / (len(SEQS) - 1)


def _y(value: float, top: float) -> float:
    return HEIGHT - 32 - value / top * (HEIGHT - 60)
