"""Following a study of the daemon: the same view as in the foreground, fed by its events."""

from __future__ import annotations

import time
from typing import Any

import typer
from rich.console import Console

from tuner.cli.finish import finish
from tuner.cli.live import watching, wide_console
from tuner.cli.view import StudyView, TrialView
from tuner.daemon.client import Client, DaemonGone
from tuner.store.rows import OPEN
from tuner.trial.events import Happening


def follow(client: Client, name: str) -> None:
    """Show a study until it is over, and end as it did; Ctrl-C only ends the looking.

    Raises:
        typer.Exit: With what the study came to.
    """
    console = wide_console()
    study = client.get(f"/v1/studies/{name}")
    try:
        while study["status"] in OPEN and study["status"] != "paused":
            _watch(client, study, console)
            study = client.get(f"/v1/studies/{name}")
    except KeyboardInterrupt:
        console.print(
            f"the study goes on without you. Come back: tuner attach {name}   "
            f"stop it: tuner stop {name}",
            highlight=False,
        )
        raise typer.Exit(0) from None
    except DaemonGone as error:
        console.print(f"{error}\ngo on with: tuner resume {name}", highlight=False, markup=False)
        raise typer.Exit(1) from None
    raise typer.Exit(_over(client, study, console))


def _watch(client: Client, study: dict[str, Any], console: Console) -> None:
    """Show a study until its status changes."""
    name = study["study"]
    view = seeded(study)
    with (
        watching(view, console) as hear,
        client.events(f"/v1/studies/{name}/events", study["last_event"]) as events,
    ):
        for event in events:
            if event["kind"] == "end":
                raise DaemonGone("the daemon was told to end; the study goes on with the next one")
            hear(Happening(event["kind"], event["number"], event["data"], event["at"]))
            if event["kind"] == "study" and event["data"]["status"] not in {"queued", "running"}:
                return
    raise DaemonGone("the daemon broke off")


def _over(client: Client, study: dict[str, Any], console: Console) -> int:
    name = study["study"]
    if study["status"] in {"stopped", "paused"}:
        console.print(f"{study['status']}; go on with: tuner resume {name}", highlight=False)
        return 0
    return finish(study, client.get(f"/v1/studies/{name}/trials", figures=True), console)


def seeded(study: dict[str, Any]) -> StudyView:
    """The view of a study as it is now, from what the API shows of it."""
    spent = study["spent"]
    view = StudyView(
        study["study"],
        budget={**study["limits"], "repeats": float(study["repeats"])},
        began=time.time() - spent["engine"],
        baseline=study["baseline"] or {},
        scores=list(study["scores"]),
        spent={**spent, "wall": spent["engine"]} if spent["trials"] else {},
        finals=study["finals"],
    )
    view.verdicts.update(study["verdicts"])
    if best := study["best"]:
        view.best = {"number": best["trial"], "score": best["score"], "margins": study["margins"]}
    if study["waiting"]:
        view.notes = [f"waiting: {study['waiting']}"]
    if now := study["current"]:
        view.trial = TrialView(now["trial"], now["origin"], now["params"], dict(now["entered"]))
        view.trial.entered.pop("planned", None)
    return view
