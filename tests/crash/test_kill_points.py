"""Killed at changes of the ledger, before and after: nothing is lost, nothing is told twice, nothing is left."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from tests.crash.conftest import TALLY
from tests.crash.dying import AFTER, BEFORE, Job
from tests.crash.nursery import Nursery, Outcome, alive, left, outcome, recorded, violations
from tests.fakes.world import WORKLOAD, World
from tests.leaks import lasting_leftovers
from tuner.launch import shm
from tuner.store.rows import Origin

# Beside the other tests with engines: here it is the waiting for one another that takes long.
pytestmark = [pytest.mark.xdist_group("kills"), pytest.mark.timeout(1800)]

NURSERIES = 3

EVERY = int(os.environ.get("TUNER_TEST_KILLS_EVERY", "48"))
"""At one in so many changes of a whole study it is killed, another choice each time; 1 is all of them."""

SMALL: dict[str, Any] = {
    "parameters": {
        "seqs": {"flag": "--max-num-seqs", "choices": [1, 2, 4], "baseline": 1},
        "kv_space": {"env": "VLLM_CPU_KVCACHE_SPACE", "choices": [1, 4, 4096], "baseline": 1},
    },
    "first": [{"kv_space": 4096}, {"kv_space": 4}],
    "search": {"sampler": "random", "finalists": {"count": 0}},
    "budget": {"trials": 3},
}
"""A baseline, a point that is rejected, one whose engine does not come up, one of the search."""

WHOLE: dict[str, Any] = {
    **SMALL,
    "rules": [
        {"require": "seqs <= 4", "reason": "more is not served"},
        {"require": "moe == 'loop' or seqs + kv_space == 2", "reason": "one point is the fastest"},
    ],
    "parameters": {
        **SMALL["parameters"],
        "seqs": {"flag": "--max-num-seqs", "choices": [1, 2, 4, 8, 16], "baseline": 1},
        "moe": {"env": "ENGINEX_MOE_TINY_IMPL", "choices": ["native", "loop"], "baseline": "loop"},
    },
    "first": [*SMALL["first"], {"moe": "native"}],
    "search": {"sampler": "random", "finalists": {"count": 1, "rounds": 1}},
    "budget": {"trials": 6},
    "workload": {**WORKLOAD, "concurrency": 1},
}
"""The same with rules that the search runs into, more of the search, and repeats.

Which point is measured again depends on the scores, so one of them is far ahead on any machine.
"""

MEMORY = {"FAKE_MEMORY_GIB": "3"}
BUSY = {"FAKE_PORT_BUSY": "0000/attempt-1,0003/attempt-1,0004/attempt-1", "FAKE_SPEED": "0.5"}
"""A port that is busy when some of the trials start, so that they are started again; a true speed."""


@dataclass
class Suite:
    """One world in which many children die.

    Attributes:
        folder: Where their folders are.
        world: The world.
        nurseries: Idle nurseries.
    """

    folder: Path
    world: World
    nurseries: SimpleQueue[Nursery]

    def do(self, name: str, **more: Any) -> int:
        """Have a job done by the next idle nursery."""
        nursery = self.nurseries.get()
        try:
            return nursery.do(Job(str(self.folder / name), str(self.world.space), **more))
        finally:
            self.nurseries.put(nursery)

    def reference(self) -> tuple[Outcome, list[str]]:
        """The study as it is when nobody is killed, and what each change of the ledger was."""
        record = self.folder / "changes.txt"
        assert self.do("reference", record=str(record)) == 0, self.log("reference")
        return outcome(self.folder / "reference" / "state"), record.read_text().splitlines()

    def log(self, name: str) -> str:
        return (self.folder / name / "run.log").read_text()

    def die(self, at: tuple[int, str], expected: Outcome) -> tuple[int, list[str]]:
        """Kill a child at a point and resume; how many orphans it had, and what is wrong."""
        point, when = at
        name = f"{point:03d}-{when}"
        state = self.folder / name / "state"
        ended = self.do(name, point=point, when=when)
        if ended != -signal.SIGKILL:
            return 0, [f"{name}: ended with {ended} instead of being killed: {self.log(name)}"]
        launches = recorded(state)
        orphans = alive(launches)
        if (ended := self.do(name)) != 0:
            return orphans, [f"{name}: resumed with {ended}: {self.log(name)}"]
        wrong = violations(outcome(state), expected, launches)
        if not wrong:
            shutil.rmtree(self.folder / name)
        return orphans, [f"{name}: {each}" for each in wrong]


@pytest.fixture
def suite(tmp_path: Path) -> Iterator[Suite]:
    world = World(tmp_path / "world", dict(SMALL), recipe_env=dict(MEMORY)).make()
    queue: SimpleQueue[Nursery] = SimpleQueue()
    nurseries = [Nursery(tmp_path / "cache") for _ in range(NURSERIES)]
    for nursery in nurseries:
        queue.put(nursery)
    yield Suite(tmp_path, world, queue)
    for nursery in nurseries:
        with nursery:
            pass


@pytest.fixture
def tally(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Keeps what a suite came to, for the end of the run (see ``conftest.py``)."""
    return lambda said: record_property(TALLY, said)


def serving(labels: list[str]) -> set[tuple[int, str]]:
    """The points at which an engine serves, so that a kill there must leave it behind."""
    found: set[tuple[int, str]] = set()
    up = False
    for number, label in enumerate(labels, 1):
        if up:
            found.add((number, BEFORE))
        up = label.startswith("trial ready") or (up and not label.startswith("trial stopping"))
        if up:
            found.add((number, AFTER))
    return found


def run(
    suite: Suite,
    points: list[tuple[int, str]],
    reference: tuple[Outcome, list[str]],
    tally: Callable[[str], None],
) -> None:
    """Kill and resume at each point; keep what came of it."""
    expected, labels = reference
    before = shm.snapshot()
    with ThreadPoolExecutor(NURSERIES) as pool:
        found = list(pool.map(lambda at: suite.die(at, expected), points))
    wrong = [each for _, problems in found for each in problems]
    orphans = [count for count, _ in found if count]
    changes = len({point for point, _ in points})
    tally(
        f"{len(points)} kills at {changes} changes of the ledger, {len(wrong)} violations; "
        f"at {len(orphans)} of them engines were alive, {sum(orphans)} processes in all"
    )
    assert not wrong, "\n".join(wrong)
    # Else the kills did not hit what they were aimed at, and nothing could have been left.
    left_alone = {at for at, (count, _) in zip(points, found, strict=True) if not count}
    assert serving(labels) & set(points)
    assert not serving(labels) & left_alone
    assert not lasting_leftovers(before)


def first_of_each(labels: list[str]) -> list[int]:
    """The first point at which each transition and each launch record happens."""
    kinds: dict[str, int] = {}
    for number, (before, label) in enumerate(itertools.pairwise(["", *labels]), 1):
        if label.startswith(("trial", "launch")):
            kinds.setdefault(f"{label} again" if label == before else label, number)
    return sorted(kinds.values())


@pytest.mark.slow
def test_killed_at_each_transition_and_launch_record(
    suite: Suite, tally: Callable[[str], None]
) -> None:
    expected, labels = suite.reference()
    assert (expected.status, left(expected.launches)) == ("finished", [])
    assert [t.attempt for t in expected.trials] == [1, 0, 1, 1]
    points = [(point, when) for point in first_of_each(labels) for when in (BEFORE, AFTER)]
    assert len(points) >= 30
    run(suite, points, (expected, labels), tally)


@pytest.mark.slow
def test_killed_at_changes_of_a_whole_study(suite: Suite, tally: Callable[[str], None]) -> None:
    suite.world.changes.clear()
    suite.world.changes.update(WHOLE)
    suite.world.recipe_env.update(BUSY)
    suite.world.make()
    expected, labels = suite.reference()
    assert [t.attempt for t in expected.trials][:3] == [2, 0, 1]
    assert any(t.origin is Origin.REPEAT for t in expected.trials)
    assert any(t.verdict == "rejected_by_rule" for t in expected.trials)
    # One while an engine serves is always among them.
    chosen = {*range(random.randrange(1, EVERY + 1), len(labels) + 1, EVERY)}
    chosen.add(random.choice(sorted(n for n, when in serving(labels) if when == BEFORE)))
    print(f"changes {sorted(chosen)} of {len(labels)}")
    points = [(n, when) for n in sorted(chosen) for when in (BEFORE, AFTER)]
    run(suite, points, (expected, labels), tally)
