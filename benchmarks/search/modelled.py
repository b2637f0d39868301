"""Makes a surface of a device that does not exist, where loads are long and memory is short.

Nothing in it was measured. It stands beside the recorded surfaces because on these a start takes
most of a trial, so that a cheaper level of the load can save little; here a load takes up to an hour.
The device has 32 GiB a card, the model 56 GiB of weights. Values come from the step simulator with
step times that differ from layout to layout, and a factor of 2 % beside it for each point; what the
proxy says comes from the same scheduler with one set of step times that scale ideally with the cards.

Usage: python -m benchmarks.search.modelled > benchmarks/search/surfaces/modelled_cards.jsonl
"""

from __future__ import annotations

import itertools
import sys

import numpy as np

from tuner.fidelity.asked import Asked, AskedTurn, Stretch
from tuner.fidelity.blocks import PoolTooSmall
from tuner.fidelity.simulate import Scheduler, simulate
from tuner.fidelity.simulator import coarsened
from tuner.fidelity.steptime import Setting, StepModel
from tuner.fidelity.surface import Head, Point, Run, Surface, write_surface
from tuner.score.measure import measure
from tuner.score.official import weighted

GIB = 2**30
CARD, WEIGHTS = 32 * GIB, 56 * GIB
KV_TOKEN = 40_960  # bytes over all cards
ACTIVATION = 220_000  # bytes a batched token and card
START_S = 240.0
CARDS, SEQS, TOKENS, SHARES = (1, 2, 4), (1, 2, 4, 8), (1024, 2048, 4096, 8192), (0.80, 0.90, 0.95)
KERNELS = ("fused", "grouped")
# Seconds of a step, of a prefill token and of a decode sequence at one card, and how well each scales.
TRUE = {
    ("fused", 2): (0.030, 3.6e-4, 2.2e-3),
    ("fused", 4): (0.026, 2.3e-4, 1.9e-3),
    ("grouped", 2): (0.036, 2.9e-4, 3.4e-3),
    ("grouped", 4): (0.024, 1.6e-4, 2.4e-3),
}
SIGMA = 0.02


def load(sessions: int, turns: int) -> Asked:
    rng = np.random.default_rng(4)
    node, made = 1, []
    for _ in range(sessions):
        done = []
        for turn in range(turns):
            node += 2
            added = (Stretch(node, int(rng.integers(1500, 9000))),)
            first = (Stretch(1, 6000),) if turn == 0 else ()
            done.append(
                AskedTurn((*first, *added), int(rng.integers(150, 450)), node + 1, 0.0, None)
            )
        made.append(tuple(done))
    return Asked("agents", tuple(made), 8, threaded=True)


LOADS = {"short": load(15, 3), "full": load(60, 5)}


def score(
    scheduler: Scheduler, seconds: tuple[float, float, float], asked: Asked
) -> tuple[float, float]:
    """The weighted score and the wall seconds of a load."""
    names = ("decode step", "prefill tokens", "decode sequences")
    times = dict(zip(names, seconds, strict=True)) | {
        "mixed step": seconds[0] * 1.6,
        "KV tokens read": 6e-8,
        "prefill attention": 4e-9,
    }
    found = simulate(asked, coarsened(asked, scheduler), StepModel(Setting(""), times))
    value = weighted(measure(found.records, wall_s=found.wall_s))
    assert value is not None
    return value, found.wall_s


def pool_tokens(cards: int, tokens: int, share: float) -> int:
    room = share * CARD - WEIGHTS / cards - tokens * ACTIVATION - 0.6 * GIB
    return int(room * cards / KV_TOKEN)


def point(params: dict[str, int | float | str], rng: np.random.Generator) -> Point:
    cards, kernel = int(params["cards"]), str(params["kernel"])
    seqs, tokens = int(params["max_num_seqs"]), int(params["max_num_batched_tokens"])
    layout = f"{kernel} on {cards}"
    room = pool_tokens(cards, tokens, float(params["memory_share"]))
    hopeless = float(params["memory_share"]) * CARD < WEIGHTS / cards
    scheduler = Scheduler(seqs, tokens, max(0, room // 16))
    start = (START_S if room > 0 else 90.0,)
    try:
        guess = score(scheduler, (0.06 / cards, 7e-4 / cards, 6e-3 / cards), LOADS["full"])[0]
        true = {name: score(scheduler, TRUE[kernel, cards], asked) for name, asked in LOADS.items()}
    except PoolTooSmall:
        return Point(
            params=params, start_s=start, verdict="memory", foreseen=hopeless, layout=layout
        )
    own = rng.lognormal(0, 0.02)
    repeats = 6 if params == BASELINE else 1
    levels = {}
    for name, (value, wall) in true.items():
        beside = own if name == "full" else own * rng.lognormal(0, 0.02)
        noise = rng.lognormal(0, SIGMA, repeats)
        levels[name] = tuple(
            Run(value=round(value * beside * n, 2), seconds=round(wall / n, 1)) for n in noise
        )
    return Point(
        params=params, start_s=start, levels=levels, layout=layout, predicted=round(guess, 2)
    )


BASELINE = {
    "cards": 4,
    "kernel": "fused",
    "max_num_seqs": 1,
    "max_num_batched_tokens": 2048,
    "memory_share": 0.9,
}


def main() -> None:
    rng = np.random.default_rng(9)
    points = [
        point(
            dict(zip(BASELINE, (c, k, s, t, m), strict=True)),
            rng,
        )
        for c, k, s, t, m in itertools.product(CARDS, KERNELS, SEQS, TOKENS, SHARES)
    ]
    head = Head(
        surface="modelled_cards",
        what=(
            "Weighted score of a model of 56 GiB on cards of 32 GiB that do not exist, from the step "
            "simulator; the short level has 45 requests, the full one 300 with longer conversations."
        ),
        recorded=False,
        baseline=BASELINE,
    )
    sys.stdout.write(write_surface(Surface(head, points)))


if __name__ == "__main__":
    main()
