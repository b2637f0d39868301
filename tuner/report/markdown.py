"""A study as a page of Markdown: the conclusion first, then everything it rests on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tuner.quantity import format_bytes
from tuner.store.rows import Origin, StudyRow, TrialRow


def markdown(
    study: StudyRow,
    trials: Sequence[TrialRow],
    decision: dict[str, Any] | None,
    durations: dict[int, float],
) -> str:
    """The whole report.

    Args:
        study: The study.
        trials: All its trials.
        decision: The decision as the ledger keeps it; None while there is none.
        durations: Seconds that the engine of each trial was up or starting.
    """
    parts = [
        f"# Study {study.name}",
        _conclusion(trials, decision),
        _question(study, trials),
        _environment(study),
        _side_by_side(trials, decision),
        _noise(trials, decision),
        _every_trial(trials, durations),
        _failures(trials),
        _reproduce(study),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _conclusion(trials: Sequence[TrialRow], decision: dict[str, Any] | None) -> str:
    if decision is None:
        return "**No decision yet.** The study is not over."
    best = _best(decision)
    if best is None:
        return f"**The baseline stands.** No other of {len(trials)} trials scored above it and passed its gates."
    gain = f"{best['ratio'] - 1:+.1%} against the baseline"
    if best["low"] is not None and best["high"] is not None:
        level = f"{best['confidence'] * 100:.4g} %"
        gain += f", {level} interval {best['low'] - 1:+.1%} to {best['high'] - 1:+.1%}"
    how = f"{len(best['runs'])} runs in turns, A-B-B-A, with a restart before each"
    if not decision["clear"]:
        return (
            f"**No clear winner.** The best finalist, trial {best['number']}, measured {gain} ({how}). "
            "That does not rule out that there is no difference, so the baseline is kept."
        )
    winner = next(t for t in trials if t.number == decision["winner"])
    return f"**Trial {winner.number} wins: {gain}** ({how}).\n\nIt is: `{_point(winner, trials)}`."


def _best(decision: dict[str, Any]) -> dict[str, Any] | None:
    """The winner's comparison, else the one that came closest; None where nothing was compared."""
    compared = [c for c in decision["comparisons"] if c["ratio"] is not None]
    won = [c for c in compared if c["number"] == decision["winner"]]
    return max(won or compared, key=lambda c: c["ratio"], default=None)


def _question(study: StudyRow, trials: Sequence[TrialRow]) -> str:
    base = next((t for t in trials if t.origin is Origin.BASELINE), None)
    start = f" The baseline is `{_params(base.params)}`." if base else ""
    return (
        "## Question\n\nWhich point of the search space scores best on its workload and passes the gates?"
        f" The search space is `{study.origin}` (fingerprint `{study.fingerprint[:12]}`).{start}"
    )


def _environment(study: StudyRow) -> str:
    facts = study.facts
    if not facts:
        return ""
    hardware = facts["hardware"]
    lines = [
        "## Machine and engine",
        "",
        "| | |",
        "|---|---|",
        f"| processor | {hardware['processor']}, {hardware['cores']} cores |",
        f"| memory | {format_bytes(hardware['memory_total'])} |",
        f"| devices | {', '.join(d['name'] for d in hardware['devices']) or 'none'} |",
        f"| tuner | {facts['tuner']} |",
    ]
    for name, engine in facts["engines"].items():
        found = engine["fingerprint"]
        lines.append(
            f"| engine `{name}` | vLLM {found['vllm']}, torch {found['torch']}, digest `{engine['digest'][:12]}` |"
        )
    lines += [f"| model `{name}` | `{path}` |" for name, path in facts["models"].items()]
    return "\n".join(lines)


_SHOWN = (
    ("weighted", "weighted score", "{:,.0f}"),
    ("output_tps", "output TPS, aggregate", "{:.1f}"),
    ("uncached_input_tps", "uncached input TPS", "{:,.0f}"),
    ("cached_tps", "cached TPS", "{:,.0f}"),
    ("output_tps_p10", "output TPS P10 of a request, TTFT included", "{:.2f}"),
    ("decode_tps_p50", "decode TPS P50 of a request, TTFT left out", "{:.2f}"),
    ("ttft_p50_s", "TTFT P50, s", "{:.3f}"),
    ("ttft_p90_s", "TTFT P90, s", "{:.3f}"),
    ("cache_hit_rate", "cache hit rate", "{:.1%}"),
    ("success_rate", "success rate", "{:.1%}"),
)


def _side_by_side(trials: Sequence[TrialRow], decision: dict[str, Any] | None) -> str:
    base = next((t for t in trials if t.origin is Origin.BASELINE and t.metrics), None)
    if base is None or decision is None:
        return ""
    best = _best(decision)
    if best is None:
        return ""
    lines = ["## Baseline and best finalist", "", "Means over their repeats.", ""]
    lines += [f"| | baseline (trial {base.number}) | trial {best['number']} |", "|---|---:|---:|"]
    for figure, label, form in _SHOWN:
        left, right = (_mean(trials, n, figure) for n in (base.number, best["number"]))
        lines.append(f"| {label} | {_say(left, form)} | {_say(right, form)} |")
    return "\n".join(lines)


def _mean(trials: Sequence[TrialRow], of: int, figure: str) -> float | None:
    values = [v for t in trials if t.repeats == of and (v := _figure(t, figure)) is not None]
    return sum(values) / len(values) if values else None


def _figure(trial: TrialRow, name: str) -> float | None:
    workloads = (trial.metrics or {}).get("workloads", {})
    first = next(iter(workloads.values()), None)
    return None if first is None else first["figures"].get(name)


def _say(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def _noise(trials: Sequence[TrialRow], decision: dict[str, Any] | None) -> str:
    if decision is None or not decision["comparisons"]:
        return ""
    lines = [
        "## How much was noise",
        "",
        "| point | scores of its repeats, in order |",
        "|---|---|",
    ]
    for of in [decision["baseline"], *(c["number"] for c in decision["comparisons"])]:
        scores = [f"{t.score:,.0f}" for t in trials if t.repeats == of and t.score is not None]
        lines.append(f"| trial {of} | {', '.join(scores)} |")
    best = _best(decision)
    if best is not None:
        lines += ["", f"Noise of one run, by what the comparison leaves over: {best['sigma']:.1%}."]
        if best["drift"] is not None:
            lines.append(f"Over its repeats the baseline itself moved by {best['drift']:+.1%}.")
    return "\n".join(lines)


def _every_trial(trials: Sequence[TrialRow], durations: dict[int, float]) -> str:
    lines = [
        "## Every trial",
        "",
        "| trial | point | score | engine time | verdict |",
        "|---:|---|---:|---:|---|",
    ]
    for t in trials:
        seconds = f"{durations[t.number]:.0f} s" if t.number in durations else ""
        missed = [
            g["name"]
            for w in (t.metrics or {}).get("workloads", {}).values()
            for g in w["gates"]
            if not g["passed"]
        ]
        verdict = f"{t.verdict or t.stage}" + (f"; misses {', '.join(missed)}" if missed else "")
        lines.append(
            f"| {t.number} | {_point(t, trials)} | {_say(t.score, '{:,.0f}')} | {seconds} | {verdict} |"
        )
    return "\n".join(lines)


def _failures(trials: Sequence[TrialRow]) -> str:
    failed = [t for t in trials if t.judgement and t.judgement["failed"]]
    if not failed:
        return ""
    parts = ["## What failed, and the proof"]
    for t in failed:
        judgement = t.judgement or {}
        proof = "\n".join(_escape(p["text"]) for p in judgement["evidence"])
        parts.append(
            f"**Trial {t.number}: {judgement['verdict']}** ({judgement['title']})\n\n"
            f"```text\n{proof}\n```\n\n{judgement['advice']}"
        )
    return "\n\n".join(parts)


def _escape(text: str) -> str:
    """A log line that cannot end the block it stands in."""
    return text.replace("```", "'''")


def _reproduce(study: StudyRow) -> str:
    return f"## Again\n\n```sh\ntuner run {study.origin}\ntuner trials {study.name}\ntuner show {study.name} TRIAL\n```"


def _point(trial: TrialRow, trials: Sequence[TrialRow]) -> str:
    base = next((t.params for t in trials if t.origin is Origin.BASELINE), {})
    if trial.origin is Origin.BASELINE:
        return "baseline"
    changed = {k: v for k, v in trial.params.items() if k not in base or base[k] != v}
    text = _params(changed) or "as the baseline"
    return f"again {trial.repeats}: {text}" if trial.origin is Origin.REPEAT else text


def _params(params: dict[str, Any]) -> str:
    return " ".join(f"{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in params.items())
