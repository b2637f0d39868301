"""Cheaper levels, and a proxy: how far this study showed that they can be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tuner.quantity import format_seconds
from tuner.report.blocks import Block, Bullets, Heading, paragraph, table, words
from tuner.report.material import Material
from tuner.report.sections.say import of_gate
from tuner.report.text import one_line

_HEAD = (
    "level",
    "leaves out",
    "load",
    "points",
    "held",
    "real / level",
    "noise",
    "tau-b",
    "regret",
    "standing",
)


def levels(material: Material) -> Iterator[Block]:
    """A table of the levels; nothing in a study without them."""
    said = [event.data["rows"] for event in material.events if event.kind == "levels"]
    if not said:
        return
    yield Heading("Cheaper levels")
    yield table(_HEAD, [_row(row) for row in said[-1]], numeric=(2, 3, 4, 5, 6, 7, 8))
    yield paragraph(
        "Every trial was measured on the cheaper levels first. What it came to there is no score: it "
        "was compared with others of the same level alone. Held trials were not asked the real load, "
        "and cannot win. Bias and agreement come from the points that were measured on both; tau-b "
        "counts only pairs that the real level tells apart from noise."
    )


def proxy(material: Material) -> Iterator[Block]:
    """What a proxy's predictions were worth beside the results, and what it was let do with them."""
    said = [event.data for event in material.events if event.kind == "proxy_report"]
    if not said:
        return
    found = said[-1]
    acts = found.get("acts", False)
    yield Heading("A proxy that may order the search" if acts else "A proxy in the shadow")
    shown = found["assessment"]
    interval = found["tau_interval"]
    between = f" ({interval[0]:.2f} to {interval[1]:.2f})" if interval else ""
    rows = [
        ("points predicted and measured", str(shown["points"])),
        ("tau-b over informative pairs", f"{shown['tau']:.2f}{between}, {shown['pairs']} pairs"),
        ("worst-tie regret", _share(shown["regret"])),
        ("error once calibrated", _share(shown["error"])),
        *(_done(found) if acts else [("by its own rule it", _would(found))]),
    ]
    yield table(("", "the step simulator"), rows)
    if not acts:
        yield paragraph(
            "Each prediction was made from the steps of earlier trials alone. They stood beside the "
            "results and changed nothing: no order, no score, no winner."
        )
        return
    yield paragraph(
        "Each prediction was made from the steps of earlier trials alone. While it was trusted it chose "
        "which point ran next, and put off what it held for worse; it gave no score, rejected nothing "
        "and named no winner."
    )
    steps = [e for e in material.events if e.kind == "gate" and e.data["what"] in _STEPS]
    if steps:
        yield Bullets(tuple(words(one_line(of_gate(e))) for e in steps))


_STEPS = frozenset({"opened", "audit", "doubted", "closed"})


def _would(found: Mapping[str, Any]) -> str:
    return {
        "on": f"would have been trusted after {found['opened_after']} trials",
        "disabled": f"would have been shut out: {one_line(str(found['closed_because']))}",
    }.get(
        found["would_be"],
        f"would not have been trusted: {one_line(str(found['assessment']['why']))}",
    )


def _done(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a proxy that may act did."""
    if found["opened_after"] is None:
        why = found["closed_because"] or found["assessment"]["why"]
        return [("it was never trusted", one_line(str(why)))]
    rows = [
        ("it ordered the search after", f"{found['opened_after']} trials"),
        ("audits", str(found["audits"])),
        ("points put off", f"{found['deferred']}, {found['deferred_never_run']} of them never ran"),
    ]
    if found["mode"] == "shadow":
        why = one_line(str(found["assessment"]["why"]))
        return [*rows, ("at the end", f"it was not trusted any more: {why}")]
    if found["closed_because"] is None:
        return [*rows, ("at the end", "it was trusted still")]
    shut = f"after {found['closed_after']} trials: {one_line(str(found['closed_because']))}"
    return [*rows, ("it was shut out", shut)]


def _row(row: Mapping[str, Any]) -> list[str]:
    real = "standing" not in row
    retired = row.get("retired_because")
    why = one_line(str(row.get("why", "")))
    standing = f"retired: {one_line(retired)}" if retired else f"{row.get('standing')}: {why}"
    return [
        one_line(row["level"]),
        one_line(row["leaves_out"] or "") if not real else "nothing",
        format_seconds(row["cost"]) if row["cost"] else "",
        str(row["points"]),
        "" if real else str(row["held"]),
        _bias(row),
        _share(row.get("sigma")),
        f"{row['tau']:.2f} over {row['pairs']} pairs" if row.get("pairs") else "",
        _share(row.get("regret")),
        "the real one" if real else standing,
    ]


def _bias(row: Mapping[str, Any]) -> str:
    bias, spread = row.get("bias"), row.get("spread")
    if bias is None:
        return ""
    return f"{bias:.3g}" if spread is None else f"{bias:.3g} ± {spread:.0%}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"
