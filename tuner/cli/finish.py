"""What the end of a study leaves, as a person is told of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from tuner.cli.tables import TrialsTable, levels_table


def finish(study: dict[str, Any], trials: list[dict[str, Any]], console: Console) -> int:
    """Print what came out, and where the report and the export lie.

    Args:
        study: The study, as the API shows it.
        trials: Its trials, as the API lists them.
        console: Where it goes.

    Returns:
        What the command ends with.
    """
    decision = study["decision"] if study["status"] == "finished" else None
    if trials:
        console.print(TrialsTable(trials, winner=decision["winner"] if decision else None))
        console.print()
    if study.get("levels"):
        console.print(levels_table(study["levels"]))
        console.print()
    if study["exit"] or decision is None:
        console.print(
            f"{study['study']}: {study['status']}: {study['reason']}",
            highlight=False,
            markup=False,
            emoji=False,
        )
    else:
        console.print(conclusion(study, decision))
    if over := study.get("search_over"):
        said = _ended(study["study"], over)
        console.print(said, highlight=False, soft_wrap=True, markup=False, emoji=False)
    delivered = study["delivered"] or {}
    for label, name in (("deploy it:  ", "export"), ("the report: ", "report")):
        if delivered.get(name):
            where = shown(Path(delivered[name]))
            console.print(
                f"{label}{where}", highlight=False, soft_wrap=True, markup=False, emoji=False
            )
    return int(study["exit"] or 0)


def conclusion(study: dict[str, Any], decision: dict[str, Any]) -> Text:
    """The decision in a sentence.

    Args:
        study: The study, as the API shows it, in few words or in many.
        decision: What was decided.
    """
    compared = [c for c in decision["comparisons"] if c["ratio"] is not None]
    best = max(compared, key=lambda c: (c["answer"] == "better", c["ratio"]), default=None)
    if best is None:
        broken = next((c for c in decision["comparisons"] if c["broken"]), None)
        if broken is not None:
            number, why = broken["number"], broken["broken"]
            said = f"The baseline stands: finalist {number} failed when it was repeated ({why})."
            return Text(said)
        return Text(_unmeasured(study, decision["baseline"]))
    low, high = (_percent(best[end]) for end in ("low", "high"))
    spread = f"{best['confidence'] * 100:.4g} % interval {low} to {high}"
    gain = f"{best['ratio'] - 1:+.1%} against the baseline ({spread}, {len(best['runs'])} runs in turns)"
    if decision["clear"]:
        return Text.assemble((f"Trial {decision['winner']} wins:", "bold green"), f" {gain}.")
    return Text.assemble(
        ("No clear winner:", "bold yellow"),
        f" finalist {best['number']} measured {gain}. The baseline is kept.",
    )


def _unmeasured(study: dict[str, Any], baseline: int) -> str:
    """Why the baseline stands where no finalist was measured in turns with it."""
    best = study["best"]
    if best is None or best["trial"] == baseline:
        return "The baseline stands: nothing scored above it."
    pair = f"{study['study']} {baseline} {best['trial']}"
    return (
        "The baseline stands: no finalist was measured in turns with it. Trial "
        f"{best['trial']} scored best in the search; `tuner compare {pair}` measures the two in turns."
    )


_MORE = {"trials": "--trials N", "wall": "--wall TIME", "engine": "--engine TIME"}


def _ended(study: str, over: dict[str, Any]) -> str:
    """Why the search ended, and how it goes on where a limit ended it."""
    if not over.get("text"):  # by an earlier tuner, which did not say it
        return f"The search ended after {over['trials']} trials."
    text = over["text"][:1].upper() + over["text"][1:]
    more = " ".join(_MORE[name] for name in over["at"])
    return f"{text}. More: tuner resume {study} {more}" if more else f"{text}."


def _percent(ratio: float | None) -> str:
    return "unknown" if ratio is None else f"{ratio - 1:+.1%}"


def shown(path: Path) -> str:
    """A path as short as it can be said from here."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
