"""What the end of a study leaves: the table, the report, and the files to deploy."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from tuner.cli.tables import trials_table
from tuner.store.ledger import Ledger
from tuner.store.rows import StudyRow
from tuner.trial.decision import Decision
from tuner.trial.deliver import deliver, write_report


def finish(ledger: Ledger, row: StudyRow, decision: Decision, console: Console) -> None:
    """Print what came out, and write the report and the export."""
    row = ledger.study(row.name)
    report = write_report(ledger, row)
    exported = deliver(ledger, row, decision.winner)
    console.print(
        trials_table(ledger.trials(row.id), ledger.transitions(row.id), winner=decision.winner)
    )
    console.print()
    console.print(conclusion(decision), highlight=False)
    console.print(f"deploy it:  {shown(exported)}", highlight=False, soft_wrap=True)
    console.print(f"the report: {shown(report)}", highlight=False, soft_wrap=True)


def conclusion(decision: Decision) -> str:
    """The decision in a sentence."""
    best = decision.best
    if best is None or best.decision.comparison is None:
        broken = next((s for s in decision.standings if s.broken), None)
        if broken is not None:
            return f"The baseline stands: finalist {broken.number} failed when it was repeated ({broken.broken})."
        return "The baseline stands: nothing scored above it."
    found = best.decision.comparison
    spread = (
        f"{found.confidence * 100:.4g} % interval {found.low - 1:+.1%} to {found.high - 1:+.1%}"
    )
    gain = f"{found.ratio - 1:+.1%} against the baseline ({spread}, {found.runs} runs in turns)"
    if decision.clear:
        return f"[bold green]Trial {decision.winner} wins:[/] {gain}."
    return f"[bold yellow]No clear winner:[/] finalist {best.number} measured {gain}. The baseline is kept."


def shown(path: Path) -> str:
    """A path as short as it can be said from here."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
