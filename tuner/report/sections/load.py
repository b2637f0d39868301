"""Where the score comes from, and what the machine did meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tuner.report.blocks import Block, Heading, Picture, code, paragraph, table
from tuner.report.material import Material
from tuner.report.pictures.bars import stages
from tuner.report.pictures.curves import curves
from tuner.report.sections.say import number, percent
from tuner.report.text import one_line
from tuner.store.rows import TrialRow


def load(material: Material) -> Iterator[Block]:
    """Attribution and length buckets of the baseline and of the best."""
    columns = [t for t in (material.baseline, material.best) if t and material.loads.get(t.number)]
    if not columns:
        return
    score = "score" if material.objective.usual else "weighted score"
    yield Heading(f"Where the {score} comes from")
    names = dict.fromkeys(w for t in columns for w in material.loads[t.number])
    for workload in names:
        if len(names) > 1:
            yield Heading(f"Workload {one_line(workload)}", 3)
        found = [
            (t.number, material.loads[t.number][workload])
            for t in columns
            if workload in material.loads[t.number]
        ]
        yield from _attribution(found, score)
        yield from _buckets(found)


def _attribution(found: list[tuple[int, Mapping[str, Any]]], score: str) -> Iterator[Block]:
    rows = []
    for part, fields in (
        (
            "shares",
            {
                "output": "output tokens",
                "uncached_input": "uncached prompt tokens",
                "cached": "cached prompt tokens",
            },
        ),
        (
            "wall_time",
            {
                "prefill": "waiting for first tokens",
                "decode": "decoding",
                "idle": "no request under way",
            },
        ),
    ):
        for field, label in fields.items():
            values = [(each.get(part) or {}).get(field) for _, each in found]
            if any(v is not None for v in values):
                what = f"of the {score}" if part == "shares" else "of the wall time"
                rows.append([f"{label}, {what}", *[_share(v) for v in values]])
    if not rows:
        return
    yield table(
        ("", *[f"trial {n}" for n, _ in found]), rows, numeric=tuple(range(1, len(found) + 1))
    )
    number_of, last = found[-1]
    gains = last.get("gains")
    if gains:
        gain = f"{gains['gain']:.0%}"
        yield paragraph(
            f"In trial {number_of}, {gain} faster prefill would add {percent(gains['prefill'])} to the "
            f"{score}, {gain} faster decoding {percent(gains['decode'])}, {gain} more cached tokens "
            f"{percent(gains['cache'])}. This is a model of a closed loop; with several requests at a "
            "time it is an estimate."
        )


def _share(value: float | None) -> str:
    return "-" if value is None else percent(value, sign=False)


def _buckets(found: list[tuple[int, Mapping[str, Any]]]) -> Iterator[Block]:
    rows = []
    labels = dict.fromkeys(b["label"] for _, each in found for b in each.get("buckets", ()))
    for label in labels:
        for number_of, each in found:
            bucket = next((b for b in each.get("buckets", ()) if b["label"] == label), None)
            if bucket is None or not bucket["count"]:
                continue
            rows.append(
                [
                    label,
                    f"trial {number_of}",
                    str(bucket["count"]),
                    _of(bucket["ttft_s"], "p50"),
                    _of(bucket["ttft_s"], "p90"),
                    _of(bucket["request_output_tps"], "p10"),
                    _share(bucket["cache_hit_rate"]),
                    _share(bucket["tail_share"]),
                ]
            )
    if rows:
        yield Heading("By prompt length", 3)
        head = (
            "tokens",
            "",
            "requests",
            "TTFT P50, s",
            "TTFT P90, s",
            "output TPS P10",
            "cached",
            "of the slowest tenth",
        )
        yield table(head, rows, numeric=(2, 3, 4, 5, 6, 7))


def _of(distribution: Mapping[str, Any] | None, name: str) -> str:
    return "-" if distribution is None else number(distribution.get(name))


def machine(material: Material) -> Iterator[Block]:
    """How long the stages took, and how busy host and devices were."""
    picture = stages(material)
    rows = []
    for role, trial in (("baseline", material.baseline), ("best", material.best)):
        if trial is not None and material.curves.get(trial.number):
            rows.append((f"{role}, trial {trial.number}", material.curves[trial.number]))
    watched = curves(rows)
    if picture is None and watched is None:
        return
    yield Heading("Time and machine")
    if picture is not None:
        yield Picture("stages", picture, "Seconds that each stage of the trials took.")
    if watched is not None:
        yield Picture(
            "machine", watched, "Host and devices during the baseline and the best trial."
        )
        yield paragraph("The shaded time is the measurement.")


def _unasked(trial: TrialRow) -> str:
    return "none" if trial.repeats is None else f"as trial {trial.repeats}"


def quality(material: Material) -> Iterator[Block]:
    """What the probes and the answers said of the engines."""
    rows: list[list[Any]] = []
    asked = [t for t in material.trials if (t.metrics or {}).get("quality")]
    for trial in asked:
        found = (trial.metrics or {})["quality"]
        probes = found.get("probes") or []
        failed = [p for p in probes if p["outcome"] == "failed"]
        passed = sum(p["outcome"] == "passed" for p in probes)
        answers = found.get("answers")
        rows.append(
            [
                str(trial.number),
                f"{passed} of {len(probes)}" if probes else _unasked(trial),
                code(", ".join(p["name"] for p in failed)) if failed else "",
                "" if answers is None else f"{answers['same']} of {answers['compared']} the same",
                "" if answers is None else number(answers["mean"]),
                "" if answers is None else number(answers["worst"]),
            ]
        )
    if not rows:
        return
    yield Heading("Quality before speed")
    yield paragraph(
        "Each engine was asked the probes, and greedy answers that are held against the baseline's, "
        "before it was measured. A trial that fails one that is required cannot win."
    )
    head = (
        "trial",
        "probes passed",
        "failed, and allowed to",
        "answers",
        "log-probability distance, mean",
        "largest",
    )
    yield table(head, rows, numeric=(0, 4, 5))
