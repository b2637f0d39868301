"""What the daemon costs: its start, its idling, and answers about a study of ten thousand trials.

Run from the checkout: ``python -m benchmarks.daemon.measure``. It makes a state folder of its own.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from tests.fakes.ledgers import fill_large
from tuner.daemon.client import Client
from tuner.daemon.start import await_end, start
from tuner.search.keys import key
from tuner.search.sampler import Sampler, Told
from tuner.spec.axes import Assignment, Axis
from tuner.store.ledger import Ledger
from tuner.trial.known import KnownTrials
from tuner.trial.study import told_history

_AXES = (
    Axis("seqs", "ordinal", 0, 3),
    Axis("batch", "integer", 256, 20_000),
    *(Axis(f"more{number}", "ordinal", 0, 4) for number in range(5)),
    *(Axis(f"kind{number}", "categorical", 0, 3) for number in range(3)),
)
"""Ten axes, as a full search space has them."""


def seconds(what: Callable[[], object], times: int) -> tuple[float, float]:
    """Median and worst time of a call."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        what()
        found.append(time.perf_counter() - began)
    return statistics.median(found), max(found)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--idle", type=float, default=30.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        with Ledger(state, write=True) as ledger:
            study = fill_large(ledger, "large", trials=asked.trials).id
        size = sum(f.stat().st_size for f in state.glob("ledger.sqlite*"))
        print(f"ledger of {asked.trials} trials: {size / 1e6:.0f} MB")
        api(state, asked.idle)
        suggest(state, study, asked.trials)


def api(state: Path, idle: float) -> None:
    """The daemon by its socket."""
    began = time.perf_counter()
    address, _ = start(state)
    row("start until it answers", "2 s", time.perf_counter() - began)
    try:
        process = psutil.Process(address.pid)
        time.sleep(2)
        before = process.cpu_times()
        time.sleep(idle)
        after = process.cpu_times()
        used = after.user + after.system - before.user - before.system
        print(f"{'idle, share of a core':<44} {'1 %':>8} {used / idle:>12.2%}")
        print(f"{'memory, idle':<44} {'150 MB':>8} {process.memory_info().rss / 1e6:>9.0f} MB")
        with Client(state, need=True) as client:
            for label, path in (
                ("list the studies", "/v1/studies"),
                ("one study", "/v1/studies/large"),
                ("list its trials", "/v1/studies/large/trials"),
                ("list them with figures", "/v1/studies/large/trials?figures=true"),
                ("one trial", "/v1/studies/large/trials/77"),
                ("its last 100 trials", "/v1/studies/large/trials?after=9899"),
            ):
                row(label, "1 s", *seconds(lambda path=path: client.get(path), 7))  # type: ignore[misc]
            print(
                f"{'memory, after that':<44} {'150 MB':>8} {process.memory_info().rss / 1e6:>9.0f} MB"
            )
    finally:  # also when nobody reads what is printed any more
        with Client(state, need=True) as client:
            client.post("/v1/shutdown")
        await_end(address, patience=30)


def suggest(state: Path, study: int, trials: int) -> None:
    """The next point, as the study asks for it."""
    rng = random.Random(1)
    with Ledger(state, write=False) as ledger:
        known = KnownTrials(ledger, study)
        began = time.perf_counter()
        told = told_history(known.all())
        taken = known.taken()
        known.spending(0.0)
        row("read what was told, once", "", time.perf_counter() - began)
        row("read it again, for each trial", "", *seconds(lambda: _look(known), 9))
    history = [Told(_more(one.assignment, rng), one.value, one.constraints) for one in told]
    sampler = Sampler(_AXES, kind="tpe", seed=1, startup=10)
    began = time.perf_counter()
    sampler.restore(history)
    row("take up a study of that size, once", "", time.perf_counter() - began)
    times = []
    for number in range(trials, trials + 300):
        began = time.perf_counter()
        chosen = sampler.ask(number, taken)
        if chosen is not None:
            taken.add(key(chosen))
            sampler.tell(Told(chosen, 1000.0, {"start": -1.0, "ttft": -0.2}))
        times.append(time.perf_counter() - began)
    row("suggest the next point, and be told of it", "0.2 s", statistics.median(times), max(times))


def _look(known: KnownTrials) -> None:
    known.all()
    known.taken()
    known.spending(0.0)


def _more(assignment: Assignment, rng: random.Random) -> Assignment:
    """A point of the filled ledger, on all the axes."""
    own = {axis.name: rng.randint(int(axis.low), int(axis.high)) for axis in _AXES}
    return {**own, **assignment}


def row(label: str, limit: str, median: float, worst: float | None = None) -> None:
    tail = "" if worst is None else f"   worst {worst:.3f} s"
    print(f"{label:<44} {limit:>8} {median:>10.3f} s{tail}")


if __name__ == "__main__":
    main()
