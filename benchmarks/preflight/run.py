"""How long the engine's own parser and checks take for 200 points, the start of their process included.

The points are drawn at random from the search space that ``make tune`` runs; points that its rules forbid are left out.
Each is asked as a study asks it, of the real engine, which is built if it is not there.

    python -m benchmarks.preflight.run [--points 200] [--seed 1]
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from tuner.build import build_engine, make_model
from tuner.launch.preflight import Answer, Preflight
from tuner.spec import Deployment, enumerate_points, load_space, resolve, violations
from tuner.telemetry.detect import detect
from tuner.telemetry.hardware import detect_hardware
from tuner.trial.environment import whole_environment
from tuner.trial.session import context_of
from tuner.trial.starting import asker

SPACE = Path(__file__).parents[2] / "search_spaces" / "local_cpu.yaml"


def draw(count: int, seed: int) -> list[Deployment]:
    """Deployments of distinct points that no rule forbids."""
    space = load_space(SPACE)
    context = context_of(space, detect_hardware(detect().source))
    every = [p for p in enumerate_points(space, context) if not violations(space, p, context)]
    chosen = random.Random(seed).sample(every, count)
    return [resolve(space, point, context) for point in chosen]


def ask_all(asked: Preflight, model: Path, points: list[Deployment]) -> list[tuple[float, Answer]]:
    """Each answer with its seconds; the first one has the process's start in it."""
    found = []
    for one in points:
        began = time.perf_counter()
        answer = asked.ask(["--model", str(model), *one.argv], dict(one.env))
        found.append((time.perf_counter() - began, answer))
    return found


def main() -> None:
    """Ask and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    engine = build_engine("cpu")
    model = make_model(engine, "tiny-hybrid")
    points = draw(options.points, options.seed)
    env = whole_environment(dict(engine.env), points[0])
    with TemporaryDirectory() as folder:
        began = time.perf_counter()
        with asker(engine, model, env=env, log=Path(folder)) as asked:
            found = ask_all(asked, model, points)
            whole = time.perf_counter() - began
    times = [seconds for seconds, _ in found]
    said = Counter("accepted" if a.accepted else a.error.splitlines()[-1][:90] for _, a in found)
    unasked = sum(answer.accepted is None for _, answer in found)
    print(f"{len(found)} points in {whole:.1f} s, {unasked} of them not answered")
    print(f"the first, with the start: {times[0]:.1f} s; the others: median "
          f"{1e3 * statistics.median(times[1:]):.0f} ms, most {1e3 * max(times[1:]):.0f} ms")  # fmt: skip
    for words, count in said.most_common():
        print(f"{count:5} {words}")


if __name__ == "__main__":
    main()
