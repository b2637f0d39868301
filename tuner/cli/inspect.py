"""``tuner status``, ``trials``, ``show`` and ``logs``: what runs, what ran, and why it ended."""

from __future__ import annotations

import json
import time
from typing import Annotated, Any

import typer

StudyName = Annotated[str, typer.Argument(help="The study's name.", metavar="STUDY")]
TrialNumber = Annotated[int, typer.Argument(help="The trial's number.", metavar="TRIAL", min=0)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def status(
    context: typer.Context,
    study: Annotated[
        str | None, typer.Argument(help="One study; all without it.", metavar="STUDY")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what runs and what ran.

    Example: tuner status
    """
    from tuner.store.ledger import Ledger
    from tuner.trial.summary import study_summary

    with Ledger(context.obj, write=False) as ledger:
        rows = [ledger.study(study)] if study else ledger.studies()
        found = [study_summary(ledger, row) for row in rows]
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    for one in found:
        best = (
            ""
            if one["best"] is None
            else f", best {one['best']['score']:,.0f} (trial {one['best']['trial']})"
        )
        typer.echo(f"{one['study']}: {one['status']}, {one['trials']} trials{best}")
        if one["reason"]:
            typer.echo(f"  {one['reason']}")


def trials(context: typer.Context, study: StudyName, as_json: AsJson = False) -> None:
    """List a study's trials with their scores and verdicts.

    Example: tuner trials local-cpu
    """
    from tuner.cli.live import wide_console
    from tuner.cli.tables import trials_table
    from tuner.store.ledger import Ledger
    from tuner.trial.summary import trial_json

    with Ledger(context.obj, write=False) as ledger:
        row = ledger.study(study)
        rows, steps = ledger.trials(row.id), ledger.transitions(row.id)
    if as_json:
        typer.echo(json.dumps([trial_json(t) for t in rows], indent=2))
        return
    wide_console().print(trials_table(rows, steps))


def show(
    context: typer.Context, study: StudyName, trial: TrialNumber, as_json: AsJson = False
) -> None:
    """Show one trial: its command, its stages, its figures, its verdict with the proof.

    Example: tuner show local-cpu 3
    """
    from tuner.store.ledger import Ledger
    from tuner.trial.budget import stage_seconds
    from tuner.trial.summary import trial_json

    with Ledger(context.obj, write=False) as ledger:
        row = ledger.study(study)
        found = ledger.trial(row.id, trial)
        stages = stage_seconds(ledger.transitions(row.id, trial))
    data = {**trial_json(found), "stages": {str(s): round(t, 3) for s, t in stages.items()}}
    if as_json:
        typer.echo(json.dumps(data, indent=2))
        return
    for line in _shown(data):
        typer.echo(line)


def _shown(data: dict[str, Any]) -> list[str]:
    lines = [
        f"trial {data['trial']} ({data['origin']}), {data['stage']}, attempt {data['attempt']}",
        "",
    ]
    lines += [f"  {name} = {json.dumps(value)}" for name, value in data["params"].items()]
    lines += ["", "command: " + " ".join(data["deployment"]["argv"])]
    lines += [f"  {name}={value}" for name, value in data["deployment"]["env"].items()]
    if data["stages"]:
        lines += ["", "stages:  " + ", ".join(f"{s} {t:.1f} s" for s, t in data["stages"].items())]
    if data["score"] is not None:
        lines += [
            "",
            f"score:   {data['score']:,.1f}" + ("" if data["feasible"] else "  (a gate failed)"),
        ]
        lines += _gates(data["metrics"])
    if data["verdict"] is not None:
        lines += ["", f"verdict: {data['verdict']}"]
    judgement = data["judgement"]
    if judgement is not None and judgement["failed"]:
        lines[-1] += f" — {judgement['title']}"
        lines += [f"  {_proof(p)}" for p in judgement["evidence"]]
        lines += [f"  what to do: {judgement['advice']}"]
    return lines


def _proof(proof: dict[str, Any]) -> str:
    where = f"line {proof['line']}: " if proof.get("line") else ""
    return where + str(proof["text"])


def _gates(metrics: dict[str, Any]) -> list[str]:
    lines = []
    for name, workload in metrics["workloads"].items():
        lines.append(f"  {name}:")
        for gate in workload["gates"]:
            sign = ">=" if gate["at_least"] else "<="
            value = "not measured" if gate["value"] is None else f"{gate['value']:.4g}"
            margin = "" if gate["margin"] is None else f" ({gate['margin']:+.1%})"
            word = "ok  " if gate["passed"] else "MISS"
            lines.append(f"    {word} {gate['figure']} {value} {sign} {gate['limit']:g}{margin}")
    return lines


def logs(
    context: typer.Context,
    study: StudyName,
    trial: TrialNumber,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on as the log grows.")] = False,
) -> None:
    """Print the engine's log of a trial.

    Example: tuner logs local-cpu 3 -f
    """
    from tuner.errors import StudyNotFound
    from tuner.launch.base import LOG_NAME
    from tuner.store.ledger import Ledger
    from tuner.trial.session import study_folder

    with Ledger(context.obj, write=False) as ledger:
        row = ledger.study(study)
        attempt = ledger.trial(row.id, trial).attempt
        path = (
            study_folder(ledger, study)
            / "trials"
            / f"{trial:04d}"
            / f"attempt-{attempt}"
            / LOG_NAME
        )
    if not path.is_file():
        raise StudyNotFound(
            f"trial {trial} of {study} has no log", mend="it never started an engine"
        )
    with path.open("rb") as log:
        while True:
            raw = log.read(1 << 16)
            if raw:
                typer.echo(raw, nl=False)
            elif not follow:
                return
            else:
                time.sleep(0.3)
