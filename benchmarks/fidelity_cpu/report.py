"""The report: what was measured, what was said of it, and what the rule makes of that."""

from __future__ import annotations

import csv
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fidelity_cpu.figure import figure
from benchmarks.fidelity_cpu.predict import ANCHOR, METHODS, STEPS, Predicted, anchored, predictions
from benchmarks.fidelity_cpu.setup import RANKS, RULE, Cell, cells
from tuner.fidelity import render
from tuner.fidelity.compare import Comparison, compare
from tuner.fidelity.rule import read_rule
from tuner.fidelity.steptime import Routing
from tuner.fidelity.table import read_table

Real = dict[Cell, list[dict[str, Any]]]


def write_report(out: Path) -> str:
    """Compare every method with the measured surface, and write tables, figure and report."""
    real = measured(out)
    values = {cell: [run["value"] for run in runs] for cell, runs in real.items() if runs}
    said = predictions(out)
    methods = {name: {c: p.value for c, p in of.items()} for name, of in said.items()}
    for name in METHODS[:2]:
        methods[f"{name}, one anchor a layout"] = anchored(methods[name], values)
    _write_table(out / "real.csv", [(c, v) for c, runs in values.items() for v in runs])
    found: dict[str, Comparison] = {}
    for name, of in methods.items():
        path = out / f"{name.replace(' ', '-').replace(',', '')}.csv"
        _write_table(path, list(of.items()))
        rule, source = read_rule(RULE)
        found[name] = compare(read_table(path), read_table(out / "real.csv"), rule, source)
    (out / "figure.svg").write_text(figure(values, methods))
    manifest = json.loads((out / "manifest.json").read_text())
    text = "\n".join(
        [
            *_head(manifest, values),
            *_answers(found),
            *_held_out(methods, values),
            *_surface(values, methods),
            *_residuals(said, real),
            *_coverage(said),
            *_routing(out),
            *_appendix(found),
        ]
    )
    text = text.replace(f"{out}/", "").replace(f"{RULE.parent}/", "")
    (out / "report.md").write_text(text)
    return text


def measured(out: Path) -> Real:
    """Every good run of every cell."""
    found: Real = {cell: [] for cell in cells()}
    for path in sorted(out.glob("runs/*/result.json")):
        run = json.loads(path.read_text())
        if run["value"] is not None:
            found[Cell(run["tp"], run["mns"])].append(run)
    return found


def _write_table(path: Path, rows: Sequence[tuple[Cell, float]]) -> None:
    with path.open("w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("tp", "mns", "value"))
        writer.writerows((cell.tp, cell.mns, f"{value:.3f}") for cell, value in rows)


def _head(manifest: Mapping[str, Any], values: Mapping[Cell, Sequence[float]]) -> list[str]:
    runs = sum(len(v) for v in values.values())
    squares = [
        (v / statistics.mean(of) - 1) ** 2 for of in values.values() if len(of) > 1 for v in of
    ]
    freedom = sum(len(of) - 1 for of in values.values() if len(of) > 1)
    noise = math.sqrt(sum(squares) / freedom) if freedom else math.nan
    machine, engine = manifest["machine"], manifest["engine"]
    stack = (
        f"vLLM {engine['vllm']} for the CPU, torch {engine['torch']}, {machine['cores']} cores of "
        f"{machine['cpu']}. {runs} runs of {len(values)} cells, each with a start of its own; noise "
        f"{noise:.1%} a run."
    )
    hashes = (
        f"Rule `{manifest['rule_sha256'][:16]}`, load `{manifest['load_sha256'][1][:16]}`, model "
        f"`{manifest['model_sha256'][:16]}`, packages `{engine['packages_sha256'][:16]}`, scripts "
        f"`{manifest['scripts_sha256'][:16]}` (sha256, frozen before the first run)."
    )
    return [
        "# Can operator sums stand in for the engine? Can its own steps?",
        "",
        stack,
        "",
        hashes,
        "",
        "![the surface and what each method says of it](figure.svg)",
        "",
    ]


def _answers(found: Mapping[str, Comparison]) -> list[str]:
    lines = [
        "## Answers",
        "",
        "| | answer | worst-tie regret | tau-b, informative pairs | all pairs | informative | signs right | p |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, comparison in found.items():
        figures = comparison.figures
        if figures is None:
            continue
        rate = figures.signs.rate
        lines.append(
            f"| {name} | **{comparison.answer}** | {figures.loss:.2%} | {figures.tau.value:.3f} "
            f"| {figures.tau_all.value:.3f} | {figures.signs.pairs} of {figures.signs_all.pairs} "
            f"| {'' if rate is None else f'{rate:.1%}'} | {figures.p.value:.2g} |"
        )
    reasons = [f"- {n}: {reason}" for n, c in found.items() for reason in c.why]
    return [*lines, "", *reasons, ""]


def _held_out(
    methods: Mapping[str, Mapping[Cell, float]], values: Mapping[Cell, Sequence[float]]
) -> list[str]:
    """Errors over the cells that gave nothing to any method."""
    lines = [
        "## Errors of the values",
        "",
        f"Over the cells that are no anchor (max-num-seqs {ANCHOR}) and no step profile ({STEPS}).",
        "",
        "| | mean absolute error | mean error |",
        "|---|---:|---:|",
    ]
    held = [c for c in values if c.mns not in {ANCHOR, STEPS}]
    for name, said in methods.items():
        errors = np.array([said[c] / statistics.mean(values[c]) - 1 for c in held])
        lines.append(f"| {name} | {np.abs(errors).mean():.1%} | {errors.mean():+.1%} |")
    return [*lines, ""]


def _surface(
    values: Mapping[Cell, Sequence[float]], methods: Mapping[str, Mapping[Cell, float]]
) -> list[str]:
    names = list(methods)
    lines = [
        "## The surface",
        "",
        f"| cell | runs | mean | deviation | {' | '.join(names)} |",
        f"|---|---:|---:|---:|{'---:|' * len(names)}",
    ]
    for cell, of in values.items():
        spread = f"{statistics.stdev(of) / statistics.mean(of):.1%}" if len(of) > 1 else ""
        said = " | ".join(f"{methods[name][cell]:,.0f}" for name in names)
        lines.append(
            f"| TP {cell.tp}, {cell.mns} | {len(of)} | {statistics.mean(of):,.0f} | {spread} | {said} |"
        )
    return [*lines, ""]


def _residuals(said: Mapping[str, Mapping[Cell, Predicted]], real: Real) -> list[str]:
    """Predicted over measured by phase and layout: a factor of 1 is right."""
    what = (
        "Predicted over measured, geometric mean over the cells of a layout, with the smallest and the "
        "largest: 1 is right, and a factor that is the same in every cell does no harm to the order."
    )
    lines = [
        "## Residuals by phase and layout",
        "",
        what,
        "",
        "| | layout | first token (prefill and queue) | between tokens (decode) | wall time |",
        "|---|---|---|---|---|",
    ]
    for name, of in said.items():
        for ranks in RANKS:
            cells_ = [c for c in of if c.tp == ranks and real[c]]
            columns = [
                _ratios([getattr(of[c], key) / _mean(real[c], key) for c in cells_])
                for key in ("ttft_s", "tpot_s", "wall_s")
            ]
            lines.append(f"| {name} | TP {ranks} | {' | '.join(columns)} |")
    return [*lines, ""]


def _mean(runs: Sequence[Mapping[str, float]], key: str) -> float:
    return statistics.mean(run[key] for run in runs)


def _ratios(values: Sequence[float]) -> str:
    middle = math.exp(statistics.mean(math.log(v) for v in values))
    return f"{middle:.2f} ({min(values):.2f} to {max(values):.2f})"


def _coverage(said: Mapping[str, Mapping[Cell, Predicted]]) -> list[str]:
    lines = [
        "## Coverage",
        "",
        f"Part of the simulated step time in states that the profiled start (max-num-seqs {STEPS}) had seen.",
        "",
    ]
    for ranks in RANKS:
        found = {c.mns: p.coverage for c, p in said["steps"].items() if c.tp == ranks}
        lines.append(f"- TP {ranks}: {', '.join(f'{m}: {v:.0%}' for m, v in found.items())}")
    return [*lines, ""]


def _routing(out: Path) -> list[str]:
    steps = json.loads((out / "routing.json").read_text())
    config = json.loads((out / "config.json").read_text())
    uniform = Routing(config["num_experts"], config["num_experts_per_tok"])
    groups: dict[str, list[dict[str, float]]] = {}
    for step in steps:
        tokens = step["tokens"]
        groups.setdefault("over 64" if tokens > 64 else str(tokens), []).append(step)
    lines = [
        "## Routing, measured and assumed",
        "",
        "Layers and steps of an engine of the same model; assumed is uniform routing.",
        "",
        "| tokens of the step | layers and steps | distinct experts: measured | assumed | largest over mean load |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, of in sorted(groups.items(), key=lambda item: item[1][0]["tokens"]):
        assumed = statistics.mean(uniform.touched(int(s["tokens"])) for s in of[:500])
        lines.append(
            f"| {name} | {len(of)} | {statistics.mean(s['touched'] for s in of):.1f} | {assumed:.1f} "
            f"| {statistics.median(s['max_over_mean'] for s in of):.2f} |"
        )
    return [*lines, ""]


def _appendix(found: Mapping[str, Comparison]) -> list[str]:
    lines = ["## Every figure", ""]
    for name, comparison in found.items():
        text = render.as_markdown(comparison).split("\n", 2)[2]
        lines += [f"### {name}", "", text]
    return lines
