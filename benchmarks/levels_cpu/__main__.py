"""A study with levels on a real engine, beside a grid of it that was measured as a whole.

Usage: python -m benchmarks.levels_cpu --state DIR [--space FILE] [--surface FILE]

May be stopped at any moment and called again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks.levels_cpu.outcome import outcome
from tuner.fidelity.surface import read_surface
from tuner.spec import load_space
from tuner.store.ledger import Ledger
from tuner.store.overview import seconds_by_trial
from tuner.trial.entry import enter_study
from tuner.trial.events import Happening
from tuner.trial.session import stop_on_signals, work
from tuner.trial.wishes import Wishes

HERE = Path(__file__).parent
SURFACE = HERE.parent / "search" / "surfaces" / "cpu_tiny.jsonl"


def hear(what: Happening) -> None:
    """Print what a reader of the log wants to see."""
    if what.kind in {"plan", "told", "level", "note", "finalists", "decision"}:
        print(what.kind, what.number, json.dumps(what.data), flush=True)


def main() -> None:
    """Run the study to its end, and print what it came to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--space", type=Path, default=HERE / "space.yaml")
    parser.add_argument("--surface", type=Path, default=SURFACE)
    options = parser.parse_args()
    surface = read_surface(options.surface)
    wishes = Wishes()
    with Ledger(options.state, write=True) as ledger, stop_on_signals(wishes.cancelled):
        row = enter_study(ledger, load_space(options.space), options.space)
        decision = work(ledger, row, watchers=[hear], wishes=wishes)
        if decision is None:
            print("stopped; call it again to go on")
            return
        said = ledger.events(row.id, kinds=["levels"])
        found = outcome(
            surface,
            ledger.trials(row.id),
            seconds_by_trial(ledger, row.id),
            decision.winner,
            decision.best.number if decision.best else None,
            said[-1].data["rows"],
        )
    text = json.dumps(found, indent=2)
    (options.state / "outcome.json").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
