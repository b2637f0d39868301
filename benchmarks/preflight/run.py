"""How long the engine's own parser and checks take for 200 points, the start of their process included.

The points are those that ``tuner validate --ask`` draws from the search space that ``make tune`` runs.
The real engine is asked about all of them together, as that command does, and then, by another process,
about one after the other, as a study does. It is built if it is not there.

    python -m benchmarks.preflight.run [--points 200]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from tuner.build import Engine, build_engine, make_model
from tuner.launch.preflight import Answer
from tuner.spec import Deployment, load_space, resolve
from tuner.spec.specimens import specimens
from tuner.telemetry.detect import detect
from tuner.telemetry.hardware import detect_hardware
from tuner.trial.inquiry import ask
from tuner.trial.session import context_of
from tuner.trial.starting import asker, bare, engine_environment

SPACE = Path(__file__).parents[2] / "search_spaces" / "local_cpu.yaml"


def draw(count: int) -> list[Deployment]:
    """Deployments of distinct points that no rule forbids."""
    space = load_space(SPACE)
    context = context_of(space, detect_hardware(detect().source))
    return [resolve(space, point, context) for point in specimens(space, context, count)]


def one_by_one(engine: Engine, model: Path, points: list[Deployment]) -> list[tuple[float, Answer]]:
    """Each answer with its seconds; the first one has the process's start in it."""
    found = []
    env = engine_environment(engine, bare(points[0]))
    with TemporaryDirectory() as folder, asker(engine, model, env=env, log=Path(folder)) as asked:
        for point in points:
            began = time.perf_counter()
            answer = asked.ask(["--model", str(model), *point.argv], dict(point.env))
            found.append((time.perf_counter() - began, answer))
    return found


def main() -> None:
    """Ask and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--points", type=int, default=200)
    options = parser.parse_args()
    engine = build_engine("cpu")
    model = make_model(engine, "tiny-hybrid")
    points = draw(options.points)
    began = time.perf_counter()
    together, _ = ask(engine, model, points)
    whole = time.perf_counter() - began
    apart = one_by_one(engine, model, points)
    times = [seconds for seconds, _ in apart]
    print(f"{len(points)} points together: {whole:.1f} s, the start included")
    print(f"one by one: {sum(times):.1f} s; the first, with the start, {times[0]:.1f} s, the others median "
          f"{1e3 * statistics.median(times[1:]):.0f} ms, most {1e3 * max(times[1:]):.0f} ms")  # fmt: skip
    different = sum(a != b for a, (_, b) in zip(together, apart, strict=True))
    unanswered = sum(answer.accepted is None for answer in together)
    print(f"{unanswered} without an answer, {different} answered differently the second time")
    said = Counter("accepted" if a.accepted else a.error.splitlines()[-1][:90] for a in together)
    for words, count in said.most_common():
        print(f"{count:5} {words}")


if __name__ == "__main__":
    main()
