"""``tuner status``, ``trials``, ``show`` and ``logs``: what runs, what ran, and why it ended."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuner.cli.arguments import StudyName
from tuner.cli.complete import study_names, trial_numbers
from tuner.cli.profile import profile_lines

if TYPE_CHECKING:
    from tuner.errors import StudyNotFound

TrialNumber = Annotated[
    int,
    typer.Argument(
        help="The trial's number.", metavar="TRIAL", min=0, autocompletion=trial_numbers
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_POLL = 0.3


def status(
    context: typer.Context,
    study: Annotated[
        str | None,
        typer.Argument(
            help="One study; all without it.", metavar="STUDY", autocompletion=study_names
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what runs and what ran.

    Example: tuner status
    """
    from tuner.daemon.client import Client

    with Client(context.obj) as client:
        found = [client.get(f"/v1/studies/{study}")] if study else client.get("/v1/studies")
        if as_json:
            typer.echo(json.dumps(found, indent=2))
            return
        for one in found:
            over = one["status"] == "finished"
            detail = client.get(f"/v1/studies/{one['study']}") if over and not study else one
            for line in _study(one, detail.get("decision") if over else None):
                typer.echo(line)


def _study(one: dict[str, Any], decision: dict[str, Any] | None) -> list[str]:
    from tuner.cli.finish import conclusion
    from tuner.score.table import number

    best = one["best"]
    top = "" if best is None else f", best {number(best['score'])} (trial {best['trial']})"
    lines = [f"{one['study']}: {one['status']}, {one['trials']} trials{top}"]
    if one["waiting"]:
        lines.append(f"  waits: {one['waiting']}")
    if one["reason"] and one["status"] != "running":
        lines.append(f"  {one['reason']}")
    if decision is not None:
        lines.append(f"  {conclusion(one, decision).plain}")
    return lines


def trials(
    context: typer.Context,
    study: StudyName,
    history: Annotated[
        bool,
        typer.Option("--history", help="Also those of an earlier search space that do not fit it."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List a study's trials with their scores and verdicts.

    Example: tuner trials local-cpu
    """
    from tuner.daemon.client import Client

    with Client(context.obj) as client:
        found = client.get(f"/v1/studies/{study}/trials", history=history, figures=True)
        one = client.get(f"/v1/studies/{study}")
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    _print_trials(one, found)


def _print_trials(study: dict[str, Any], trials: list[dict[str, Any]]) -> None:
    from tuner.cli.live import wide_console
    from tuner.cli.tables import TrialsTable

    decision = study["decision"] if study["status"] == "finished" else None
    wide_console().print(TrialsTable(trials, winner=decision["winner"] if decision else None))


def show(
    context: typer.Context,
    study: StudyName,
    trial: Annotated[
        int | None,
        typer.Argument(
            help="The trial's number; without it, the study and all its trials.",
            metavar="TRIAL",
            min=0,
            autocompletion=trial_numbers,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a study with its trials, or all that is known of one.

    Of a trial: its command, its stages, its figures with their units, its gates, and its verdict with
    the proof.

    Example: tuner show local-cpu 3
    """
    from tuner.daemon.client import Client

    with Client(context.obj) as client:
        if trial is None:
            one = client.get(f"/v1/studies/{study}")
            found = client.get(f"/v1/studies/{study}/trials", figures=True)
            _show_study(one, found, as_json=as_json)
            return
        data = client.get(f"/v1/studies/{study}/trials/{trial}")
    if as_json:
        typer.echo(json.dumps(data, indent=2))
        return
    for line in _shown(data):
        typer.echo(line)


def _show_study(study: dict[str, Any], trials: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"study": study, "trials": trials}, indent=2))
        return
    for line in _study(study, study["decision"] if study["status"] == "finished" else None):
        typer.echo(line)
    for line in _front_lines(study):
        typer.echo(line)
    if trials:
        typer.echo()
        _print_trials(study, trials)


def _front_lines(study: dict[str, Any]) -> list[str]:
    """What the score is where it is not the weighted one, and the front of two objectives."""
    from tuner.score.objective import WEIGHTED
    from tuner.score.table import columns, number

    front = study["front"]
    lines = [f"  score: {study['objective']}"] if study["objective"] != WEIGHTED.words else []
    if front is None or not front["trials"]:
        return lines
    rows = [["trial", *front["objectives"], "score", ""]]
    for one in front["trials"]:
        chosen = "chosen" if one["trial"] == front["chosen"] else ""
        note = chosen if one["kept"] else "over the rule's limit"
        values = [number(one["figures"][name]) for name in front["objectives"]]
        rows.append([str(one["trial"]), *values, number(one["score"]), note])
    return [*lines, "", "no trial beats these in both objectives:", *columns(rows)]


def _shown(data: dict[str, Any]) -> list[str]:
    from tuner.score.table import number

    lines = [
        f"trial {data['trial']} ({data['origin']}), {data['stage']}, attempt {data['attempt']}",
        "",
    ]
    if data["history"]:
        lines += [f"  does not count any more: {data['history']}", ""]
    lines += [f"  {name} = {json.dumps(value)}" for name, value in data["params"].items()]
    lines += ["", *(f"proxy:   {did}" for did in data["proxy"])] if data["proxy"] else []
    lines += ["", "command: " + " ".join(data["deployment"]["argv"])]
    lines += [f"  {name}={value}" for name, value in data["deployment"]["env"].items()]
    if data["stages"]:
        lines += ["", "stages:  " + ", ".join(f"{s} {t:.1f} s" for s, t in data["stages"].items())]
    if data["score"] is not None:
        lines += [
            "",
            f"score:   {number(data['score'])}" + ("" if data["feasible"] else "  (a gate failed)"),
        ]
        lines += _measured(data["metrics"])
    lines += _on_levels(data)
    found = (data["metrics"] or {}).get("profile")
    lines += ["", *profile_lines(found)] if found else []
    if data["verdict"] is not None:
        lines += ["", f"verdict: {data['verdict']}"]
    judgement = data["judgement"]
    if judgement is not None and judgement["failed"]:
        lines[-1] += f" — {judgement['title']}"
        lines += [f"  {_proof(p)}" for p in judgement["evidence"]]
        lines += [f"  what to do: {judgement['advice']}"]
    return lines


def _on_levels(data: dict[str, Any]) -> list[str]:
    """What the trial came to on cheaper levels: no score, and on a scale of its own."""
    from tuner.score.table import number

    found = (data["metrics"] or data["judgement"] or {}).get("levels", {})
    lines = []
    for name, level in found.items():
        came = "failed" if level["score"] is None else number(level["score"])
        early = ", ended as it had settled" if level["settled"] else ""
        lines.append(f"level {name}: {came} in {level['seconds']:.1f} s{early} (no score)")
    return ["", *lines] if lines else []


def _proof(proof: dict[str, Any]) -> str:
    where = f"line {proof['line']}: " if proof.get("line") else ""
    return where + str(proof["text"])


def _measured(metrics: dict[str, Any]) -> list[str]:
    """Each workload's gates, and its figures with their units."""
    lines = []
    for name, workload in metrics["workloads"].items():
        lines.append(f"  {name}:")
        lines += _gates(workload)
        lines += _figures(workload["figures"])
    return lines


def _figures(found: dict[str, float | None]) -> list[str]:
    from tuner.score.figures import FIGURES
    from tuner.score.table import SHOWN, number

    rows = [
        (FIGURES[name].label, number(value), FIGURES[name].unit)
        for name in SHOWN
        if (value := found.get(name)) is not None
    ]
    left = max((len(label) for label, *_ in rows), default=0)
    right = max((len(value) for _, value, _ in rows), default=0)
    return [f"    {label:{left}}  {value:>{right}} {unit}".rstrip() for label, value, unit in rows]


def _gates(workload: dict[str, Any]) -> list[str]:
    lines = []
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
    from tuner.daemon.client import Client

    path = f"/v1/studies/{study}/trials/{trial}"
    offset = 0
    with Client(context.obj) as client:
        while True:
            # Asked for first: what is written between the two questions is then read once more.
            found = client.get(path)
            over = not follow or found["stage"] in {"told", "verified", "planned"}
            if over and not found["attempt"]:
                raise _no_log(study, found)
            part = client.text(f"{path}/log", offset=offset)
            typer.echo(_printable(part.text), nl=False)
            if part.headers["X-Next-Offset"] != str(offset):
                offset = int(part.headers["X-Next-Offset"])
            elif over:
                return
            else:
                time.sleep(_POLL)


def _no_log(study: str, found: dict[str, Any]) -> StudyNotFound:
    from tuner.errors import StudyNotFound

    number, why = found["trial"], found["verdict"] or found["stage"]
    return StudyNotFound(
        f"trial {number} of {study}: it never started an engine ({why}); "
        f"see tuner show {study} {number}"
    )


def _printable(text: str) -> str:
    """A log for the screen: what would move the cursor or change the terminal is taken out."""
    if not sys.stdout.isatty():
        return text
    return "".join(c for c in text if c in "\n\t" or c.isprintable())
