"""How a running study looks: a panel that moves in a terminal, plain lines anywhere else."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tuner.cli.view import STAGES, StudyView, machine_of, quarantine_of
from tuner.quantity import format_seconds
from tuner.score.table import number
from tuner.trial.events import Happening, Watcher
from tuner.trial.gatelog import in_line

_BARS = "▁▂▃▄▅▆▇█"
VERDICT_STYLE = {
    "healthy": "green",
    "cancelled": "yellow",
    "interrupted": "yellow",
    "rejected_by_rule": "dim",
}


def wide_console() -> Console:
    """A console that fits the screen, or what COLUMNS says, and that is wide where nothing says so."""
    console = Console(emoji=False)
    told = console.is_terminal or os.environ.get("COLUMNS", "").isdigit()
    return console if told else Console(width=160, emoji=False)


@contextmanager
def watching(view: StudyView, console: Console) -> Iterator[Watcher]:
    """A watcher that shows the study while the block runs."""
    if not console.is_terminal:
        yield PlainLines(view, console).hear
        return
    with Live(
        console=console, refresh_per_second=4, get_renderable=lambda: panel(view), transient=True
    ):
        yield view.hear


def panel(view: StudyView) -> RenderableType:
    """The whole panel, as of now."""
    parts: list[RenderableType] = [_build(view)] if view.build else []
    if view.trial is not None:
        parts += [_trial(view), _stages(view)]
    parts.append(_summary(view))
    parts += [Text(view.proxy, style="dim")] if view.proxy else []
    parts += [Text(note, style="dim") for note in view.notes]
    return Panel(Group(*parts), title=f"study {view.name}", title_align="left", border_style="blue")


def _build(view: StudyView) -> Text:
    build = view.build
    line = Text(f"engine {build['recipe']}  ", style="bold")
    line.append(f"step {build['place']}/{build['of']} {build['step']}  ")
    line.append(str(build["line"])[-80:], style="dim")
    return line


def _trial(view: StudyView) -> Text:
    trial = view.trial
    assert trial is not None  # noqa: S101 - the caller looked
    line = Text(f"trial {trial.number}  ", style="bold")
    line.append(f"{trial.origin}  ", style="cyan")
    line.append(view.difference(trial.params))
    return line


def _stages(view: StudyView) -> Text:
    """The stages of the trial in hand with their times; the one it is in ticks."""
    trial = view.trial
    assert trial is not None  # noqa: S101 - the caller looked
    line = Text("  ")
    names = list(trial.entered)
    for name in STAGES:
        if name not in trial.entered:
            line.append(f"{name}  ", style="dim")
            continue
        after = names[names.index(name) + 1 :]
        until = trial.entered[after[0]] if after else time.time()
        spent = format_seconds(max(0.0, until - trial.entered[name]))
        line.append(f"{name} {spent}  ", style="green" if after else "bold yellow")
    if trial.stage == "starting" and trial.engine:
        line.append(f"({trial.engine.replace('_', ' ')})", style="yellow")
    if trial.load:
        load = trial.load
        failed = load["done"] - load["ok"]
        line.append(f"{load['phase']} {load['done']}/{load['of']}", style="yellow")
        line.append(f", {failed} failed" if failed else "", style="red")
    return line


def _summary(view: StudyView) -> Table:
    grid = Table.grid(padding=(0, 2))
    if view.best:
        best = Text(number(view.best["score"]), style="bold green")
        best.append(f"  trial {view.best['number']}  ")
        margins = "  ".join(
            f"{n} {m:+.0%}" for n, m in view.best["margins"].items() if m is not None
        )
        best.append(margins, style="dim")
        grid.add_row("best so far", best)
    if view.scores:
        grid.add_row("scores", sparkline(view.scores))
    if view.verdicts:
        counts = Text()
        for verdict, count in view.verdicts.most_common():
            counts.append(f"{count} {verdict}  ", style=VERDICT_STYLE.get(verdict, "red"))
        grid.add_row("verdicts", counts)
    if machine := machine_of(view.sample) if view.sample else []:
        grid.add_row("machine", " · ".join(machine))
    left = view.seconds_left
    spent = f"{format_seconds(time.time() - view.began)} gone"
    grid.add_row("time", spent + (f", about {format_seconds(left)} left" if left else ""))
    return grid


def sparkline(scores: list[float], width: int = 40) -> str:
    """The last scores as bars from the lowest to the highest of them."""
    shown = scores[-width:]
    low, high = min(shown), max(shown)
    if high == low:
        return _BARS[3] * len(shown)
    return "".join(_BARS[round((s - low) / (high - low) * (len(_BARS) - 1))] for s in shown)


class PlainLines:
    """One line for each thing worth a line, for pipes and logs.

    Args:
        view: Kept up to date, too.
        console: Where the lines go.
    """

    def __init__(self, view: StudyView, console: Console) -> None:
        self._view = view
        self._console = console
        self._step = ""

    def hear(self, what: Happening) -> None:
        """Take in one happening and say it, if it is worth a line."""
        self._view.hear(what)
        text = self._text(what)
        if text:
            stamp = time.strftime("%H:%M:%S", time.localtime(what.at))
            self._console.print(f"{stamp}  {text}", highlight=False, markup=False, soft_wrap=True)

    def _text(self, what: Happening) -> str | None:
        view, data = self._view, what.data
        match what.kind:
            case "build":
                step = f"engine {data['recipe']}: step {data['place']}/{data['of']} {data['step']}"
                fresh = step != self._step
                self._step = step
                return step if fresh else None
            case "plan":
                return f"trial {what.number}: {data['origin']}, {view.difference(data['params'])}"
            case "stage" if data["stage"] in {"ready", "measured", "stopping"}:
                return f"trial {what.number}: {data['stage']}{self._took(data['stage'])}"
            case "told":
                return self._told(what)
            case "retry":
                return f"trial {what.number}: {data['verdict']}, tried again"
            case "finalists":
                most = f"at most {data['rounds']} rounds in turns with the baseline"
                return f"finalists {data['numbers']}: {data['starts']} starts a round, {most}"
            case "note" | "gate" | "quarantine":
                return quarantine_of(data) if "reason" in data else in_line(what.number, data)
            case _:
                return None

    def _took(self, stage: str) -> str:
        trial = self._view.trial
        if trial is None:
            return ""
        names = list(trial.entered)
        place = names.index(stage)
        if place == 0:
            return ""
        return f" after {format_seconds(trial.entered[stage] - trial.entered[names[place - 1]])}"

    def _told(self, what: Happening) -> str:
        score = what.data["score"]
        scored = f", score {number(score)}" if score is not None else ""
        feasible = "" if what.data["feasible"] or score is None else ", a gate failed"
        left = self._view.seconds_left
        time_left = f"; about {format_seconds(left)} left" if left else ""
        best = f"; best {number(self._view.best['score'])}" if self._view.best else ""
        return f"trial {what.number}: {what.data['verdict']}{scored}{feasible}{best}{time_left}"
