"""A comparison as text, as Markdown and as JSON."""

from __future__ import annotations

import datetime as dt
from typing import Any

from tuner.fidelity.compare import Comparison, Criterion, Figures
from tuner.fidelity.pairing import Pairing
from tuner.fidelity.rule import Provenance
from tuner.fidelity.significance import Interval
from tuner.fidelity.table import Key


def as_text(found: Comparison) -> str:
    """The comparison for a terminal."""
    lines = [f"{found.answer}: {found.rule.question}" if found.rule.question else str(found.answer)]
    lines += [f"  because {reason}" for reason in found.why]
    lines += ["", *_counts(found.pairing)]
    for criterion in found.criteria:
        value = "-" if criterion.found is None else f"{criterion.found:.4g}"
        lines.append(
            f"  {criterion.outcome:<7}{criterion.name} {value} ({criterion.required}): {criterion.why}"
        )
    if found.figures is not None:
        lines += ["", *(f"  {name}: {value}" for name, value in _figures(found.figures))]
    lines += ["", *(f"  {name}: {value}" for name, value in _sources(found))]
    return "\n".join(lines) + "\n"


def as_markdown(found: Comparison) -> str:
    """The comparison as a section of a report."""
    lines = [f"## {found.rule.question or 'Does the proxy order as the real thing does?'}", ""]
    lines += [f"**{str(found.answer).capitalize()}.**", ""]
    lines += [f"- {_cell(reason)}" for reason in found.why]
    lines += ["", *(_cell(line.strip()) for line in _counts(found.pairing)), ""]
    if found.criteria:
        lines += ["| | required | found | outcome | |", "|---|---|---:|---|---|"]
        lines += [_row(criterion) for criterion in found.criteria]
        lines.append("")
    if found.figures is not None:
        lines += ["| figure | value |", "|---|---|"]
        lines += [f"| {name} | {_cell(value)} |" for name, value in _figures(found.figures)]
        lines.append("")
    lines += [f"- {name}: {_cell(value)}" for name, value in _sources(found)]
    return "\n".join(lines) + "\n"


def _row(criterion: Criterion) -> str:
    value = "" if criterion.found is None else f"{criterion.found:.4g}"
    cells = (
        criterion.name,
        criterion.required,
        value,
        criterion.outcome,
        _cell(criterion.why),
    )
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _counts(pairing: Pairing) -> list[str]:
    lines = [f"{len(pairing.keys)} configurations have a value in both tables."]
    if pairing.dead:
        lines.append(f"{len(pairing.dead)} did not run, and the proxy has a value for them.")
    if pairing.unseen:
        lines.append(f"{len(pairing.unseen)} ran, and the proxy says nothing of them.")
    if pairing.only:
        lines.append(f"{pairing.only} are in one table only and were left out.")
    return lines


def _figures(figures: Figures) -> list[tuple[str, str]]:
    tau, regret = figures.tau_all, figures.regret
    rows = [
        ("tau-b over all pairs", f"{tau.value:.4f}; ties allow {tau.ceiling:.4f} at most"),
        ("pairs tied by the proxy, by the real values", f"{tau.tied_proxy}, {tau.tied_real}"),
        (
            "tau-b over informative pairs",
            f"{figures.tau.value:.4f}{_interval(figures.tau_interval, '.4f')}",
        ),
        ("one-sided p", f"{figures.p.value:.3g} ({figures.p.method})"),
        (
            "worst-tie regret",
            f"{figures.loss:.2%}{_interval(figures.regret_interval, '.2%')}",
        ),
        ("tied for the proxy's best", f"{len(regret.chosen)}, the best of them {regret.best:.2%}"),
        ("pair signs, all pairs", _rate(figures.signs_all.right, figures.signs_all.pairs)),
        ("pair signs, informative pairs", _rate(figures.signs.right, figures.signs.pairs)),
    ]
    rows += [(f"top-{k} overlap", f"{value:.2f}") for k, value in figures.top_k.items()]
    return [*rows, ("different values of the proxy", str(figures.levels))]


def _interval(interval: Interval | None, form: str) -> str:
    if interval is None:
        return ""
    return f" ({interval.level:.0%} over configurations: {interval.low:{form}} to {interval.high:{form}})"


def _rate(right: int, pairs: int) -> str:
    return f"{right} of {pairs}" + (f" ({right / pairs:.2%})" if pairs else "")


def _sources(found: Comparison) -> list[tuple[str, str]]:
    first = "older than both tables" if found.rule_first else "YOUNGER than a table it judges"
    return [
        ("rule", f"{_source(found.rule_source)}, {first}"),
        ("A, the proxy", _source(found.proxy_source)),
        ("B, the real thing", _source(found.real_source)),
    ]


def _source(source: Provenance) -> str:
    return f"{source.name}, sha256 {source.sha256}, changed {_time(source.modified)}"


def _time(moment: dt.datetime) -> str:
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def as_json(found: Comparison) -> dict[str, Any]:
    """The comparison as JSON-ready data."""
    figures = found.figures
    return {
        "answer": str(found.answer),
        "why": list(found.why),
        "question": found.rule.question,
        "rule": found.rule.model_dump(mode="json"),
        "sources": {
            "rule": _source_json(found.rule_source) | {"older_than_tables": found.rule_first},
            "proxy": _source_json(found.proxy_source),
            "real": _source_json(found.real_source),
        },
        "criteria": [
            {
                "name": c.name,
                "required": c.required,
                "found": c.found,
                "outcome": c.outcome,
                "why": c.why,
            }
            for c in found.criteria
        ],
        "configurations": _pairing_json(found.pairing),
        "figures": None if figures is None else _figures_json(figures, found.pairing.keys),
    }


def _source_json(source: Provenance) -> dict[str, Any]:
    return {
        "name": source.name,
        "sha256": source.sha256,
        "modified": _time(source.modified),
    }


def _pairing_json(pairing: Pairing) -> dict[str, Any]:
    return {
        "both": [
            {"key": dict(key), "real": float(real), "proxy": float(proxy)}
            for key, real, proxy in zip(pairing.keys, pairing.real, pairing.proxy, strict=True)
        ],
        "did_not_run": [dict(key) for key in pairing.dead],
        "proxy_says_nothing": [dict(key) for key in pairing.unseen],
        "in_one_table_only": pairing.only,
        "sigma": pairing.sigma,
    }


def _figures_json(figures: Figures, keys: tuple[Key, ...]) -> dict[str, Any]:
    tau = figures.tau_all
    return {
        "tau_b_all": tau.value,
        "tau_b_all_ceiling": tau.ceiling,
        "tau_b": figures.tau.value,
        "tau_b_ceiling": figures.tau.ceiling,
        "tau_b_interval": _interval_json(figures.tau_interval),
        "p": figures.p.value,
        "p_method": figures.p.method,
        "pairs": tau.pairs,
        "informative_pairs": figures.signs.pairs,
        "pair_signs_all": figures.signs_all.rate,
        "pair_signs": figures.signs.rate,
        "regret_worst_tie": figures.loss,
        "regret_best_tie": figures.regret.best,
        "regret_interval": _interval_json(figures.regret_interval),
        "chosen": [dict(keys[i]) for i in figures.regret.chosen],
        "top_k": {str(k): value for k, value in figures.top_k.items()},
        "proxy_levels": figures.levels,
        "tied_pairs_proxy": tau.tied_proxy,
        "tied_pairs_real": tau.tied_real,
    }


def _interval_json(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]
