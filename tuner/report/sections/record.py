"""The record: every trial, every failure with its proof, what happened, and how to do it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tuner.quantity import format_seconds
from tuner.report.blocks import (
    Block,
    Bullets,
    Code,
    Heading,
    Words,
    code,
    paragraph,
    strong,
    table,
    words,
)
from tuner.report.material import Material, missed
from tuner.report.sections.say import number, of_gate
from tuner.report.text import AS_BASELINE, changes, clean, one_line
from tuner.store.rows import Event, Origin, TrialRow

MOST_ROWS = 1000
"""Trials above which the table holds the best ones and those that were not told alone."""
_MOST_PROOF = 12
_MOST_SHOWN = 40
_WORDS = frozenset(
    {
        "search_over",
        "simpler",
        "finalists",
        "retry",
        "quarantine",
        "note",
        "gate",
        "decision",
        "study",
    }
)


def every_trial(material: Material) -> Iterator[Block]:
    """One line a trial."""
    trials = material.trials
    yield Heading("Every trial")
    shown = list(trials)
    if len(trials) > MOST_ROWS:
        shown = sorted(trials, key=lambda t: -(t.score or 0.0) if t.feasible else 0.0)[:MOST_ROWS]
        yield paragraph(
            f"The {MOST_ROWS:,} best of {len(trials):,} trials; all of them: ",
            code(f"tuner trials {material.study.name} --json"),
        )
    rows = [_trial_row(material, t) for t in shown]
    yield table(("trial", "point", "score", "engine time", "verdict"), rows, numeric=(0, 2, 3))


def _trial_row(material: Material, trial: TrialRow) -> list[Any]:
    seconds = material.durations.get(trial.number)
    gates = missed(trial)
    verdict = one_line(trial.verdict or str(trial.stage))
    shown = words(verdict if verdict == "healthy" else code(verdict))
    level = (trial.judgement or {}).get("level")
    shown = words(*shown, f" {one_line(level)}") if level else shown
    return [
        str(trial.number),
        _point(material, trial),
        number(trial.score) if trial.score is not None else "",
        format_seconds(seconds) if seconds else "",
        words(*shown, f"; misses {', '.join(gates)}") if gates else shown,
    ]


def _point(material: Material, trial: TrialRow) -> Words:
    if trial.origin is Origin.BASELINE:
        return words("baseline")
    text = changes(trial.params, material.base_params)
    shown = words(text) if text == AS_BASELINE else words(code(text))
    if trial.origin is Origin.SIMPLER:
        return words("a finalist without what did nothing: ", *shown)
    if trial.origin is Origin.PROFILE:
        return words(f"profile of {trial.repeats}: ", *shown)
    return words(f"again {trial.repeats}: ", *shown) if trial.origin is Origin.REPEAT else shown


def failures(material: Material) -> Iterator[Block]:
    """Every failure with the lines that prove it; those of one kind stand together."""
    failed = [t for t in material.trials if t.judgement and t.judgement["failed"]]
    failed = [t for t in failed if "level" not in (t.judgement or {})]  # held, and nothing is wrong
    if not failed:
        return
    yield Heading("What failed, and the proof")
    kinds: dict[tuple[str, str], list[TrialRow]] = {}
    for t in failed:
        judgement = t.judgement or {}
        kinds.setdefault((str(judgement["verdict"]), str(judgement["title"])), []).append(t)
    for (verdict, title), trials in kinds.items():
        count = "1 trial" if len(trials) == 1 else f"{len(trials)} trials"
        yield Heading(f"{_capital(one_line(title))} ({count})", 3)
        yield paragraph("Verdict ", code(verdict), ".")
        yield from _proofs(material, trials)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _proofs(material: Material, trials: Sequence[TrialRow]) -> Iterator[Block]:
    said: set[str] = set()
    for trial in trials[:_MOST_SHOWN]:
        judgement = trial.judgement or {}
        again = f", tried {trial.attempt} times" if trial.attempt > 1 else ""
        yield paragraph(strong(f"Trial {trial.number}"), f"{again}: ", *_point(material, trial))
        proof = "\n".join(_line(p) for p in judgement["evidence"][:_MOST_PROOF])
        if proof:
            yield Code(proof)
        advice = one_line(str(judgement["advice"] or ""))
        if advice and advice not in said:
            said.add(advice)
            yield paragraph("What to do: ", advice)
    if len(trials) > _MOST_SHOWN:
        rest = ", ".join(str(t.number) for t in trials[_MOST_SHOWN:])
        yield paragraph(f"The same in trials {rest}.")


def _line(proof: Mapping[str, Any]) -> str:
    place = f"{proof['line']}: " if proof.get("line") else ""
    return place + clean(str(proof["text"]))


def course(material: Material) -> Iterator[Block]:
    """What happened beside the trials, in the order of time."""
    happened = [e for e in material.events if e.kind in _WORDS and e.data.get("what") != "ordered"]
    told = [words(strong(_at(e)), f" {_happened(e)}") for e in happened]
    if told:
        yield Heading("Course of the work")
        yield Bullets(tuple(told))


def _at(event: Event) -> str:
    return datetime.fromtimestamp(event.at, UTC).strftime("%m-%d %H:%M:%S")


def _happened(event: Event) -> str:
    data = event.data
    match event.kind:
        case "search_over":
            text = f"the search is over after {data.get('trials')} trials"
        case "finalists":
            most = f"at most {data.get('rounds')} rounds in turns with the baseline"
            text = f"finalists {data.get('numbers')}: {data.get('starts')} starts a round, {most}"
        case "simpler":
            names = ", ".join(i["name"] for i in data.get("inert", ()))
            text = f"finalist {data.get('of')}: {names} did nothing, and is tried at the baseline's value"
        case "retry":
            text = f"trial {event.number}: {data.get('verdict')}, tried again"
        case "quarantine":
            device = f"{data['device']}: " if data.get("device") else ""
            text = f"quarantine: {device}{data.get('reason')}"
        case "decision":
            word = "a clear winner" if data.get("clear") else "the baseline is kept"
            text = f"decided: {word}, trial {data.get('winner')}"
        case "gate":
            text = of_gate(event)
        case "study":
            text = f"the study is {data.get('status')}" + (
                f": {data['reason']}" if data.get("reason") else ""
            )
        case _:
            text = str(data.get("text", ""))
    return one_line(text)


def reproduce(material: Material, command: Mapping[str, Any] | None) -> Iterator[Block]:
    """How to do it again: the study, and the deployment by hand."""
    study = material.study
    yield Heading("Again")
    yield Code(
        "\n".join(
            [
                f"tuner run {shlex.quote(one_line(study.origin))}",
                f"tuner trials {study.name}",
                f"tuner show {study.name} TRIAL",
            ]
        ),
        "sh",
    )
    if command is not None and command["command"]:
        yield paragraph("The server of the chosen deployment, as it was started:")
        yield Code(shell(command["command"], command["env"]), "sh")


def shell(command: Sequence[str], env: Mapping[str, str]) -> str:
    """A command with its variables, one argument a line, to be pasted into a shell."""
    settings = [f"{name}={shlex.quote(clean(value))}" for name, value in sorted(env.items())]
    return " \\\n  ".join([*settings, *_lines([shlex.quote(clean(word)) for word in command])])


def _lines(words: Sequence[str]) -> list[str]:
    """The words of a command, each flag in a line with its values."""
    lines: list[str] = []
    for word in words:
        if lines and not word.startswith("-"):
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
