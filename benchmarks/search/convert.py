"""Turns the rows of an early recording into a surface, and adds what a proxy says of each point.

Usage: python -m benchmarks.search.convert ROWS.jsonl STEPS.jsonl > benchmarks/search/surfaces/cpu_tiny.jsonl

ROWS has one object a run: ``cfg`` (mns, mbt, impl, pc), ``start`` in seconds, and under ``res`` one
entry a load with ``wall`` and ``score``. STEPS are step records (:mod:`tuner.fidelity.steplog`) of
the native variant; what they say of a point is used for every variant, for want of records of the
others: the gate's calibration by layout has to find the factor of each.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from tuner.fidelity.asked import Asked, AskedTurn, Stretch
from tuner.fidelity.simulate import Scheduler
from tuner.fidelity.simulator import Candidate, Prediction, from_steps
from tuner.fidelity.steplog import read_steps
from tuner.fidelity.steptime import Setting
from tuner.fidelity.surface import Head, Point, Run, Surface, write_surface

NATIVE = Setting("native", eager=True)
NAMES = {"mns": "max_num_seqs", "mbt": "max_num_batched_tokens", "impl": "moe"}
PROMPT_TOKENS = 76_300  # what the engine counted over all 32 requests, to within 0.1 %


def load() -> Asked:
    """Eight conversations of four turns as the recording had them, with its total of prompt tokens.

    The lengths of its single turns were not kept: they are drawn here from the same range and
    scaled to the same total.
    """
    rng = random.Random(1)
    drawn = [[rng.randint(200, 1600) for _ in range(4)] for _ in range(8)]
    fixed = 8 * (4 * 600 + 6 * 48)
    scale = (PROMPT_TOKENS - fixed) / sum(a * (4 - t) for row in drawn for t, a in enumerate(row))
    sessions, node = [], 1
    for row in drawn:
        turns: list[AskedTurn] = []
        for index, length in enumerate(row):
            node += 2
            # Answers of random weights come back in other tokens, as part of the next prompt.
            tokens = round(length * scale) + (48 if index else 0)
            added = (Stretch(node, tokens),)
            first = (Stretch(1, 600),) if index == 0 else ()
            turns.append(AskedTurn((*first, *added), 48, node + 1, 0.0, None))
        sessions.append(tuple(turns))
    return Asked("conversations", tuple(sessions), 4, threaded=False)


def main(rows: Path, steps: Path) -> None:
    simulator = from_steps({NATIVE: read_steps(steps)}, {})
    asked = load()
    found: dict[str, Point] = {}
    for line in rows.read_text().splitlines():
        row = json.loads(line)
        cfg = row["cfg"]
        if not cfg["pc"]:
            continue  # two points without a prefix cache, which are no grid
        params = {NAMES[name]: cfg[name] for name in NAMES}
        scheduler = Scheduler(
            cfg["mns"], cfg["mbt"], blocks=2800, block_tokens=640, state_tokens=128
        )
        said = simulator.predict(Candidate(NATIVE, scheduler), asked)
        runs = tuple(Run(value=r["score"], seconds=r["wall"]) for r in row["res"])
        point = Point(
            params=params,
            start_s=(row["start"],),
            levels={"full": runs},
            layout=cfg["impl"],
            predicted=round(said.score, 1) if isinstance(said, Prediction) else None,
        )
        old = found.get(point.key)
        if old is not None:
            point = old.model_copy(
                update={
                    "start_s": (*old.start_s, *point.start_s),
                    "levels": {"full": (*old.levels["full"], *runs)},
                }
            )
        found[point.key] = point
    head = Head(
        surface="cpu_tiny",
        what=(
            "Weighted score of a tiny hybrid MoE model with random weights on vLLM 0.32 for the CPU, "
            "2 cores; 8 conversations of 4 turns, 4 at a time, answers of 48 tokens; other work on "
            "the machine. One run a point, eight of one. What a proxy says comes from step records "
            "of two starts of the native variant on another day."
        ),
        baseline={"max_num_seqs": 1, "max_num_batched_tokens": 512, "moe": "loop"},
    )
    sys.stdout.write(write_surface(Surface(head, list(found.values()))))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
