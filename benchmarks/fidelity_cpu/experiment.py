"""Whether operator sums, or the engine's own steps, order a real surface as the engine does.

Usage, from the repository's root, on a machine that does nothing else:

    python -m benchmarks.fidelity_cpu.experiment --out state/fidelity-cpu

It takes about an hour on two cores. What was measured is kept and not measured again, so it may be
stopped at any moment and called again. ``--only freeze|profile|measure|report`` does one part.
The engine is that of the recipe ``cpu``, and the model is made by it, unless ``--python`` and
``--model`` name others.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
from pathlib import Path

from benchmarks.fidelity_cpu import measure
from benchmarks.fidelity_cpu.predict import STEPS
from benchmarks.fidelity_cpu.report import write_report
from benchmarks.fidelity_cpu.setup import RANKS, Cell, Subject, manifest, plans
from tuner.build import build_engine
from tuner.build.model import make_model

PARTS = ("freeze", "profile", "measure", "report")


def freeze(subject: Subject) -> None:
    """Write down what everything hangs on; later it must be the same.

    Raises:
        SystemExit: When something changed since the first run.
    """
    path = subject.out / "manifest.json"
    now = manifest(subject)
    if path.exists():
        then = json.loads(path.read_text())
        changed = [key for key, value in now.items() if then.get(key) != value]
        if changed:
            raise SystemExit(
                f"{', '.join(changed)} changed since the surface was frozen: begin anew in another folder"
            )
        return
    path.write_text(json.dumps(now, indent=1))
    shutil.copy(subject.model / "config.json", subject.out / "config.json")


def profile(subject: Subject) -> None:
    """Time operators alone, log the steps of one start a layout, and count the routing."""
    for ranks in RANKS:
        path = subject.out / f"operators-tp{ranks}.json"
        if not path.exists():
            path.write_text(
                measure.inside(subject, "operators.py", str(subject.model), "--ranks", str(ranks))
            )
        measure.profile(subject, Cell(ranks, STEPS))
        print(f"TP {ranks}: operators and steps", flush=True)
    path = subject.out / "routing.json"
    if not path.exists():
        prompts = [s.turns[0].messages[-1].content for s in plans()[1].sessions]
        out = measure.inside(subject, "routing.py", str(subject.model), text=json.dumps(prompts))
        line = next(x for x in out.splitlines() if x.startswith("ROUTING "))
        path.write_text(line.removeprefix("ROUTING "))
        print("routing", flush=True)


def subject_of(options: argparse.Namespace) -> Subject:
    """The engine and the model, built where none was named."""
    python, model = options.python, options.model
    if python is None or model is None:
        engine = build_engine("cpu")
        python = python or engine.python
        model = model or make_model(engine, "tiny-hybrid")
    out = options.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    return Subject(python.absolute(), model.absolute(), out)


def main() -> None:
    """Run the experiment, or one part of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where everything is written")
    parser.add_argument("--python", type=Path, help="the engine's interpreter")
    parser.add_argument("--model", type=Path, help="the model's folder")
    parser.add_argument("--runs", type=int, help="measure so many of the missing runs, and no more")
    parser.add_argument("--only", choices=PARTS, help="do one part")
    options = parser.parse_args()
    # As an exception, so that the engine of the run in hand is stopped and not left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    subject = subject_of(options)
    freeze(subject)
    if options.only in {None, "profile"}:
        profile(subject)
    if options.only in {None, "measure"}:
        measure.measure_all(subject, options.runs)
    if options.only in {None, "report"}:
        print(write_report(subject.out))


if __name__ == "__main__":
    main()
